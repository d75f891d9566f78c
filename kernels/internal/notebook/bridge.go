package notebook

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/kernels/internal/cell/process"
	"gaiden/kernels/internal/widget"
)

// A bridge speaks the protocol of GoNB's package gonbui with a cell's program:
// values encoded by package gob, through one named pipe in each direction.
type bridge struct {
	x        *execution
	program  *widget.Program
	inbox    inbox
	alone    bool                    // no page has answered
	giveUp   context.CancelCauseFunc // ends the program
	hopeless *time.Timer             // ends it when nobody can press its buttons
	knows    bool                    // it listens to widget.Alone
	unended  map[string]string       // displays that say that something still runs, and what they say when it has ended
}

// open joins the program to the notebook's widgets; giveUp ends it.
func (x *execution) open(ctx context.Context, giveUp context.CancelCauseFunc) *bridge {
	b := &bridge{x: x, giveUp: giveUp, inbox: inbox{wake: make(chan struct{}, 1)}}
	b.program = x.n.line.Begin(ctx, x.out, b.inbox.put)
	return b
}

// close takes it from there when it has ended.
func (b *bridge) close() {
	b.program.End()
	if b.hopeless != nil {
		b.hopeless.Stop()
	}
}

func (b *bridge) channels() []process.Channel {
	return []process.Channel{
		{Env: protocol.GONB_PIPE_ENV, Read: b.read},
		{Env: protocol.GONB_PIPE_BACK_ENV, Write: b.write},
	}
}

// read takes what the program displays, to the very end.
func (b *bridge) read(r io.Reader, catchUp func()) {
	defer b.ended()
	dec := gob.NewDecoder(r)
	for {
		var d protocol.DisplayData
		err := decode(dec, &d)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return // an unexpected one is a program that was killed
		}
		if err != nil {
			b.warn(fmt.Sprintf("display: what the program sent cannot be read: %v", err))
			return
		}
		catchUp()
		b.handle(&d)
	}
}

// decode reads one message; garbage may make package gob panic.
func decode(dec *gob.Decoder, d *protocol.DisplayData) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return dec.Decode(d)
}

func (b *bridge) handle(d *protocol.DisplayData) {
	switch v := d.Data[protocol.MIMEJupyterInput].(type) {
	case protocol.InputRequest:
		b.x.prompt.add(v)
		return
	}
	switch v := d.Data[protocol.MIMECommValue].(type) {
	case protocol.CommValue:
		if v.Address == protocol.GonbuiSyncAddress {
			v.Address = protocol.GonbuiSyncAckAddress
			b.inbox.put(v)
			return
		}
		b.used(b.program.Send(v), v.Request)
		return
	}
	switch s := d.Data[protocol.MIMECommSubscribe].(type) {
	case protocol.CommSubscription:
		b.knows = b.knows || s.Address == widget.Alone
		b.used(b.program.Subscribe(s), !s.Unsubscribe)
		if (s.Unsubscribe || b.knows) && b.hopeless != nil { // it waits no more, or will not for long
			b.hopeless.Stop()
			b.hopeless = nil
		}
		return
	}
	if wait, ok := d.Data[MIMEClear]; ok {
		b.x.out.Clear(wait == true)
		return
	}
	b.display(d)
}

// used says once that no page has answered the program. Where nobody can be asked
// (nbconvert, papermill, gaiden run) a program that waits for an answer would wait
// for ever: it is ended, when it has had time to show what it has. One that listens to
// widget.Alone ends by itself.
func (b *bridge) used(err error, waits bool) {
	if errors.Is(err, widget.ErrNoPage) {
		b.alone = true
		if b.x.req.AllowStdin {
			b.warn(err.Error() + ": buttons and sliders move nothing here; they do in JupyterLab and Jupyter Notebook")
		}
	}
	if b.alone && waits {
		b.inbox.put(protocol.CommValue{Address: widget.Alone, Value: "true"})
	}
	if b.alone && waits && !b.knows && !b.x.req.AllowStdin && b.hopeless == nil {
		b.hopeless = time.AfterFunc(hopelessWait, func() { b.giveUp(&widgetError{}) })
	}
}

// hopelessWait is how long a program lives that waits for nobody.
const hopelessWait = 2 * time.Second

// A widgetError ends a program whose widgets nobody can move.
type widgetError struct{}

func (*widgetError) Error() string {
	return "the cell waits for its widgets, and no page shows them"
}

// Hint says what the reader can do next.
func (*widgetError) Hint() string { return "run the notebook in JupyterLab or Jupyter Notebook" }

// write gives the program its values.
func (b *bridge) write(w io.Writer, done <-chan struct{}) {
	enc := gob.NewEncoder(w)
	for {
		for _, v := range b.inbox.drain() {
			if enc.Encode(&v) != nil {
				return
			}
		}
		select {
		case <-b.inbox.wake:
		case <-done:
			return
		}
	}
}

// An inbox holds values on their way to a program.
type inbox struct {
	wake chan struct{} // has something when there may be values

	mu     sync.Mutex
	values []protocol.CommValue
}

// inboxSize is how many values wait for a program that does not read them: then
// the oldest of a page's are forgotten, never the answers that gonbui.Sync waits for.
const inboxSize = 4096

func (i *inbox) put(v protocol.CommValue) {
	i.mu.Lock()
	if len(i.values) >= inboxSize {
		old := slices.IndexFunc(i.values, func(v protocol.CommValue) bool { return v.Address != protocol.GonbuiSyncAckAddress })
		if old >= 0 {
			i.values = slices.Delete(i.values, old, old+1)
		}
	}
	i.values = append(i.values, v)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

func (i *inbox) drain() []protocol.CommValue {
	i.mu.Lock()
	defer i.mu.Unlock()
	values := i.values
	i.values = nil
	return values
}
