package complete

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"sync"
)

// An lspConn speaks JSON-RPC with a language server: the part of the Language
// Server Protocol that every message goes through.
type lspConn struct {
	w       io.Writer
	writing sync.Mutex

	mu      sync.Mutex
	next    int
	waiting map[int]chan lspMessage
	err     error // why reading ended
}

type lspMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *lspError       `json:"error,omitempty"`
}

type lspError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *lspError) Error() string { return fmt.Sprintf("gopls: %s (%d)", e.Message, e.Code) }

func newLSPConn(r io.Reader, w io.Writer) *lspConn {
	c := &lspConn{w: w, waiting: map[int]chan lspMessage{}}
	go c.read(bufio.NewReader(r))
	return c
}

// read takes messages in until the server is gone.
func (c *lspConn) read(r *bufio.Reader) {
	var err error
	for err == nil {
		var m lspMessage
		if m, err = readMessage(r); err == nil {
			c.dispatch(m)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for id, ch := range c.waiting {
		close(ch)
		delete(c.waiting, id)
	}
}

// readMessage reads one message with its header.
func readMessage(r *bufio.Reader) (m lspMessage, err error) {
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		return m, err
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	const limit = 64 << 20
	if err != nil || n < 0 || n > limit {
		return m, fmt.Errorf("gopls: message: got length %q, want one below %d", header.Get("Content-Length"), limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) < n {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	return m, err
}

// dispatch gives a reply to whom it belongs, and answers the server's own
// questions: it asks for settings and permissions, and waits for the answer.
func (c *lspConn) dispatch(m lspMessage) {
	if m.Method == "" {
		id, err := strconv.Atoi(string(m.ID))
		c.mu.Lock()
		ch := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if err == nil && ch != nil {
			ch <- m
		}
		return
	}
	if m.ID == nil {
		return
	}
	result := json.RawMessage("null")
	if m.Method == "workspace/configuration" {
		var p struct{ Items []any }
		json.Unmarshal(m.Params, &p)
		list := make([]any, len(p.Items))
		for i := range list {
			list[i] = goplsSettings
		}
		result, _ = json.Marshal(list)
	}
	c.write(lspMessage{ID: m.ID, Result: result})
}

// goplsSettings are those that a notebook wants.
var goplsSettings = map[string]any{
	"completionBudget": "2s",
	"matcher":          "CaseSensitive",
	"hoverKind":        "FullDocumentation",
	"linksInHover":     false,
}

func (c *lspConn) write(m lspMessage) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = fmt.Fprintf(c.w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// notify sends what wants no answer.
func (c *lspConn) notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.write(lspMessage{Method: method, Params: raw})
}

// call asks and waits for the answer.
func (c *lspConn) call(ctx context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return fmt.Errorf("gopls: %s: it has ended: %w", method, c.err)
	}
	c.next++
	id, ch := c.next, make(chan lspMessage, 1)
	c.waiting[id] = ch
	c.mu.Unlock()
	if err := c.write(lspMessage{ID: json.RawMessage(strconv.Itoa(id)), Method: method, Params: raw}); err != nil {
		return err
	}
	select {
	case m, ok := <-ch:
		switch {
		case !ok:
			return errors.New("gopls: " + method + ": it has ended")
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		c.notify("$/cancelRequest", map[string]any{"id": id})
		return ctx.Err()
	}
}
