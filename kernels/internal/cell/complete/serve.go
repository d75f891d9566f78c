package complete

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"gaiden/kernels/internal/cell/parse"
)

const (
	cellBreak = "\n\n\n"               // what jupyterlab-lsp puts between the cells of a notebook
	pause     = 300 * time.Millisecond // without a change, before cells are checked
)

// Check finds what is wrong in the cells of a notebook.
type Check func(ctx context.Context, cells []string) ([]parse.Diagnostic, error)

// Serve is a language server that shows what is wrong in cells while they are typed. It speaks
// the Language Server Protocol as jupyterlab-lsp does: a document is the cells of a notebook, with
// two blank lines between them. It returns when the client has said exit, or has gone.
func Serve(ctx context.Context, r io.Reader, w io.Writer, check Check) error {
	ctx, stop := context.WithCancel(ctx)
	s := &server{conn: &lspConn{w: w}, check: check, checking: map[string]context.CancelFunc{}}
	defer s.work.Wait()
	defer stop()
	in := bufio.NewReader(r)
	for {
		m, err := readMessage(in)
		if errors.Is(err, io.EOF) || err == nil && m.Method == "exit" {
			return nil
		}
		if err == nil {
			err = s.take(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

type server struct {
	conn     *lspConn
	check    Check
	checking map[string]context.CancelFunc // by document: of the check of its last text
	turn     sync.Mutex                    // one check at a time
	work     sync.WaitGroup
}

type document struct {
	TextDocument   struct{ URI, Text string }
	ContentChanges []struct{ Text string }
}

// take answers a message of the client.
func (s *server) take(ctx context.Context, m lspMessage) error {
	var d document
	switch m.Method {
	case "initialize":
		return s.conn.write(lspMessage{ID: m.ID, Result: json.RawMessage(`{"capabilities": {"textDocumentSync": 1}, "serverInfo": {"name": "gaiden"}}`)})
	case "shutdown":
		return s.conn.write(lspMessage{ID: m.ID, Result: json.RawMessage("null")})
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose":
		if err := json.Unmarshal(m.Params, &d); err != nil {
			return nil // of a client that sends parts of texts, which it was told not to
		}
		text := d.TextDocument.Text
		if n := len(d.ContentChanges); n > 0 {
			text = d.ContentChanges[n-1].Text
		}
		if stop := s.checking[d.TextDocument.URI]; stop != nil {
			stop()
		}
		ctx, stop := context.WithCancel(ctx)
		s.checking[d.TextDocument.URI] = stop
		s.work.Go(func() { s.show(ctx, d.TextDocument.URI, text) })
		return nil
	}
	if m.ID == nil || m.Method == "" {
		return nil
	}
	return s.conn.write(lspMessage{ID: m.ID, Error: &lspError{Code: -32601, Message: "no such method: " + m.Method}})
}

// show checks a document and tells the client what is wrong in it, if it does not change meanwhile.
func (s *server) show(ctx context.Context, uri, text string) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(pause):
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	cells := strings.Split(text, cellBreak)
	found, err := s.check(ctx, cells)
	if err != nil || ctx.Err() != nil {
		return
	}
	type position struct {
		Line      int `json:"line"`
		Character int `json:"character"`
	}
	marks := []map[string]any{}
	for _, d := range found {
		line := parse.LineOf(cells[d.Cell-1], d.Line)
		start := min(max(d.Column-1, 0), len(line))
		end := start + len(line[start:]) - len(strings.TrimLeftFunc(line[start:], func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }))
		if _, size := utf8.DecodeRuneInString(line[start:]); end == start {
			end += size
		}
		row := max(d.Line-1, 0) + strings.Count(strings.Join(cells[:d.Cell-1], cellBreak), "\n")
		if d.Cell > 1 {
			row += len(cellBreak)
		}
		at := func(column int) position { return position{row, len(utf16.Encode([]rune(line[:column])))} }
		message := d.Message
		if d.Hint != "" {
			message += "\n" + d.Hint
		}
		marks = append(marks, map[string]any{"range": map[string]any{"start": at(start), "end": at(end)}, "severity": 1, "source": "gaiden", "message": message})
	}
	s.conn.notify("textDocument/publishDiagnostics", map[string]any{"uri": uri, "diagnostics": marks})
}
