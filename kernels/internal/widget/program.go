package widget

import (
	"context"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/kernels/internal/jupyter"
)

// A Program is one program's end of a Line. Its methods, but for End, are called
// from one goroutine.
type Program struct {
	line       *Line
	ctx        context.Context
	out        jupyter.Output
	deliver    func(protocol.CommValue)
	subscribed map[string]bool // protected by line.mu
	connected  bool            // a page was asked to answer
}

// Begin joins a program to the line. What it shows goes to out; deliver is given
// the values that it subscribes to, one at a time, and must not wait.
func (l *Line) Begin(ctx context.Context, out jupyter.Output, deliver func(protocol.CommValue)) *Program {
	p := &Program{line: l, ctx: ctx, out: out, deliver: deliver, subscribed: map[string]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.programs == nil {
		l.programs = map[*Program]bool{}
	}
	l.programs[p] = true
	return p
}

// End takes the program from the line: deliver is not called again.
func (p *Program) End() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	delete(p.line.programs, p)
}

// Subscribe begins or ends the delivery of an address's values.
func (p *Program) Subscribe(s protocol.CommSubscription) error {
	p.line.mu.Lock()
	if s.Unsubscribe {
		delete(p.subscribed, s.Address)
	} else {
		p.subscribed[s.Address] = true
	}
	p.line.mu.Unlock()
	if s.Unsubscribe {
		return nil
	}
	return p.connect()
}

// Send sends a value to the pages, or asks them for one.
func (p *Program) Send(v protocol.CommValue) error {
	err := p.connect()
	data := map[string]any{"address": v.Address, "value": v.Value}
	switch {
	case v.Address == protocol.GonbuiStartAddress:
		return err
	case v.Request:
		data = map[string]any{"address": v.Address, "read_request": true}
	}
	p.line.send(p.out, data)
	return err
}

// connect opens the line when the program first uses it. Only then an error is
// returned: it is to be said once.
func (p *Program) connect() error {
	if p.connected {
		return nil
	}
	p.connected = true
	return p.line.Open(p.ctx, p.out)
}
