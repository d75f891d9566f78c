package jupyter

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"
)

const (
	stdinWait  = 5 * time.Second // how long a front end may be away before a question to it fails
	stdinCheck = 100 * time.Millisecond
)

// questions holds the one question that a cell may have open. The zero
// questions is ready to use.
type questions struct {
	asking sync.Mutex // one at a time

	mu      sync.Mutex
	id      string      // of the input_request
	from    []byte      // identity of the front end that was asked
	answers chan string // nil when no question is open
}

// answer gives an input_reply to who waits for it, and reports whether someone
// does. Not every front end says which question it answers.
func (q *questions) answer(m Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answers == nil || !bytes.Equal(q.from, m.Identities[0]) {
		return false
	}
	if parent := m.ParentID(); parent != "" && parent != q.id {
		return false
	}
	var content struct {
		Value *string `json:"value"`
	}
	if json.Unmarshal(m.Content, &content) != nil || content.Value == nil {
		return false
	}
	q.answers <- *content.Value
	q.answers = nil
	return true
}

func (q *questions) open(id string, from []byte) <-chan string {
	q.mu.Lock()
	defer q.mu.Unlock()
	answers := make(chan string, 1)
	q.id, q.from, q.answers = id, from, answers
	return answers
}

func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = nil
}

// ask asks the front end that sent r for a line.
func (c *core) ask(ctx context.Context, r request, prompt string, password bool) (string, error) {
	c.questions.asking.Lock()
	defer c.questions.asking.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m := c.message(r.RawHeader, "input_request", fields{"prompt": prompt, "password": password}, nil)
	m.Identities = r.Identities
	answers := c.questions.open(m.Header.ID, r.Identities[0])
	defer c.questions.close()

	check := time.NewTicker(stdinCheck)
	defer check.Stop()
	sent := c.server.Send(Stdin, m)
	seen := time.Now()
	for {
		select {
		case line := <-answers:
			return line, nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-check.C:
		}
		if c.server.Has(Stdin, r.Identities) {
			seen = time.Now()
			sent = sent || c.server.Send(Stdin, m)
		}
		if time.Since(seen) > stdinWait {
			return "", ErrNoStdin
		}
	}
}
