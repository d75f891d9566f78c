package debugger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"sync"
	"time"
)

// An adapter is a connection to a debug adapter, such as Delve.
type adapter struct {
	conn    net.Conn
	event   func(map[string]any)
	writing sync.Mutex

	mu      sync.Mutex
	serial  int
	waiting map[int]chan map[string]any
	ended   chan struct{}
}

func newAdapter(conn net.Conn, event func(map[string]any)) *adapter {
	a := &adapter{conn: conn, event: event, waiting: map[int]chan map[string]any{}, ended: make(chan struct{})}
	go a.read()
	return a
}

// patience is how long an adapter may take to answer.
const patience = 10 * time.Second

var errEnded = errors.New("the program has ended")

// request asks, and returns the body of the answer.
func (a *adapter) request(command string, arguments any) (map[string]any, error) {
	answer := make(chan map[string]any, 1)
	a.mu.Lock()
	a.serial++
	serial := a.serial
	a.waiting[serial] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, serial)
		a.mu.Unlock()
	}()
	text, err := json.Marshal(map[string]any{"seq": serial, "type": "request", "command": command, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	a.writing.Lock()
	_, err = fmt.Fprintf(a.conn, "Content-Length: %d\r\n\r\n%s", len(text), text)
	a.writing.Unlock()
	if err != nil {
		return nil, errEnded
	}
	select {
	case m := <-answer:
		if m["success"] != true {
			return nil, errors.New(reason(m))
		}
		body, _ := m["body"].(map[string]any)
		return body, nil
	case <-a.ended:
		return nil, errEnded
	case <-time.After(patience):
		return nil, fmt.Errorf("dlv does not answer %s: the program runs; a breakpoint or Stop holds it", command)
	}
}

// reason is what a response says of its failure.
func reason(m map[string]any) string {
	body, _ := m["body"].(map[string]any)
	e, _ := body["error"].(map[string]any)
	for _, text := range []any{e["format"], m["message"]} {
		if s, _ := text.(string); s != "" {
			return s
		}
	}
	return "dlv refuses it"
}

// maxMessage bounds a message of an adapter.
const maxMessage = 64 << 20

// read takes messages until the adapter has gone.
func (a *adapter) read() {
	defer close(a.ended)
	r := bufio.NewReader(a.conn)
	for {
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		length, wrong := strconv.Atoi(header.Get("Content-Length"))
		if err != nil || wrong != nil || length <= 0 || length > maxMessage {
			return
		}
		text := make([]byte, length)
		var m map[string]any
		if _, err := io.ReadFull(r, text); err != nil || json.Unmarshal(text, &m) != nil {
			return
		}
		if m["type"] == "event" {
			a.event(m)
			continue
		}
		serial, _ := m["request_seq"].(float64)
		a.mu.Lock()
		answer := a.waiting[int(serial)]
		a.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}
