package notebook

import (
	"context"
	"sync"

	"github.com/janpfeifer/gonb/gonbui/protocol"
)

// A prompt holds what the program wants asked (gonbui.RequestInput), in order.
type prompt struct {
	mu     sync.Mutex
	queue  []protocol.InputRequest
	secret bool // what is typed when the next command reads is not shown (%with_password)
}

func (p *prompt) add(r protocol.InputRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, r)
}

// waiting reports whether there is something to be asked.
func (p *prompt) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) > 0
}

// next returns the first; a program that reads without having asked has no text.
func (p *prompt) next() (r protocol.InputRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 {
		r, p.queue = p.queue[0], p.queue[1:]
		return r
	}
	r.Password, p.secret = p.secret, false
	return r
}

func (p *prompt) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secret = true
}

// ask asks the front end for a line.
func (x *execution) ask(ctx context.Context) (string, error) {
	r := x.prompt.next()
	return x.out.Input(ctx, r.Prompt, r.Password)
}
