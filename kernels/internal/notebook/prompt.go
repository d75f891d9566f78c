package notebook

import (
	"context"
	"sync"
)

// A prompt is what the program wants asked when it next reads its input.
type prompt struct {
	mu       sync.Mutex
	text     string
	password bool
}

func (p *prompt) set(text string, password bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.password = text, password
}

func (p *prompt) take() (text string, password bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, password = p.text, p.password
	p.text, p.password = "", false
	return text, password
}

// ask asks the front end for a line.
func (x *execution) ask(ctx context.Context) (string, error) {
	text, password := x.prompt.take()
	return x.out.Input(ctx, text, password)
}
