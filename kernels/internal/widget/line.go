package widget

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/kernels/internal/jupyter"
)

// Target is the target of the comms that pages open.
const Target = "gonb_comm"

// Alone is the address at which a program hears that no page shows its cell.
const Alone = "#gaiden/alone"

// The addresses that are not the programs'.
const (
	opened = "#comm_open_ack" // to a page, GoNB's: its comm is open
	here   = "#gaiden/here"   // from a page that had a line already
)

// A Line joins the programs of one kernel with the pages that show them.
type Line struct {
	// Kernel is the id by which the Jupyter server knows this kernel; "" = no
	// page can reach it. It is set before the first use.
	Kernel string

	// Wait is how long a program's first use of the line waits for a page to
	// answer; 0 = 3 s.
	Wait time.Duration

	mu       sync.Mutex
	life     string // of the kernel: pages that know another one open their comm again
	pages    map[string]bool
	programs map[*Program]bool
	answered chan struct{} // closed when a page has answered; nil = nobody waits
}

// ErrNoPage says that no page has answered: nobody can press a button.
var ErrNoPage = errors.New("widget: no page has opened a channel to this kernel")

//go:embed line.js
var script string

// Comm takes a comm message of a page: comm_open, comm_msg or comm_close. An
// error says what is wrong with it.
func (l *Line) Comm(kind string, c jupyter.Comm, out jupyter.Output) error {
	switch kind {
	case "comm_open":
		if c.Target != Target {
			return fmt.Errorf("widget: comm %s: got target %q, want %q", c.ID, c.Target, Target)
		}
		l.mu.Lock()
		if l.pages == nil {
			l.pages = map[string]bool{}
		}
		l.pages[c.ID] = true
		l.mu.Unlock()
		out.CommMsg(jupyter.Comm{ID: c.ID, Data: map[string]any{"address": opened, "value": true}})
		l.hear()
	case "comm_close":
		l.mu.Lock()
		delete(l.pages, c.ID)
		l.mu.Unlock()
	case "comm_msg":
		return l.receive(c)
	}
	return nil
}

// receive gives a page's value to the programs that wait for it.
func (l *Line) receive(c jupyter.Comm) error {
	address, _ := c.Data["address"].(string)
	if address == here {
		l.hear()
		return nil
	}
	if address == "" {
		return fmt.Errorf("widget: comm %s: its data has no address", c.ID)
	}
	value, err := plain(c.Data["value"])
	if err != nil {
		return fmt.Errorf("widget: comm %s: value of %q: %w", c.ID, address, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.programs {
		if p.subscribed[address] {
			p.deliver(protocol.CommValue{Address: address, Value: value})
		}
	}
	return nil
}

// hear tells those who wait that a page has answered.
func (l *Line) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// send sends data to every page.
func (l *Line) send(out jupyter.Output, data map[string]any) {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.pages))
	l.mu.Unlock()
	for _, id := range ids {
		out.CommMsg(jupyter.Comm{ID: id, Data: data})
	}
}

// Open shows the script, waits for a page to answer, and removes the script. The
// error is ErrNoPage, or that of ctx.
func (l *Line) Open(ctx context.Context, out jupyter.Output) error {
	if l.Kernel == "" {
		return ErrNoPage
	}
	l.mu.Lock()
	if l.life == "" {
		l.life = jupyter.NewID()
	}
	if l.answered == nil {
		l.answered = make(chan struct{})
	}
	answered, life, wait := l.answered, l.life, l.Wait
	l.mu.Unlock()
	wait = cmp.Or(wait, 3*time.Second)
	names, err := json.Marshal([]string{l.Kernel, life})
	if err != nil {
		return fmt.Errorf("widget: %w", err)
	}
	place := map[string]any{"display_id": "gaiden-line-" + jupyter.NewID()}
	out.Display(jupyter.MimeBundle{Data: map[string]any{"text/html": "<script>(" + script + ")(..." + string(names) + ");</script>"}, Transient: place})
	defer out.Update(jupyter.MimeBundle{Data: map[string]any{"text/html": ""}, Transient: place})
	select {
	case <-answered:
		return nil
	case <-time.After(wait):
		return ErrNoPage
	case <-ctx.Done():
		return ctx.Err()
	}
}
