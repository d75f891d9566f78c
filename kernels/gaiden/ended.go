package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// An aftercare asks the session what a cell's program has left there: work that
// was queued when the cell was stopped is dropped, errors that the program has not
// read become the cell's, and the one that it has died of brings its hint. It
// keeps its connection, since asking is all that an untroubled cell pays for.
type aftercare struct {
	mu      sync.Mutex
	session *session.Session   // nil until a cell's program may have met one
	meter   *session.CostMeter // what the cells' programs report to, nil if there is none
	again   bool               // a connection has ended since
	back    string             // what the session has brought back since the last cell, and what not
	unsaved bool               // it was said that the notebook is not saved
}

// ended is a notebook's Ended. Work of a cell that went its way is waited for as
// long as it takes, after a stop nothing is. A session that hangs is no reason for
// the kernel to hang.
func (a *aftercare) ended(ctx context.Context, e notebook.Ending) ([]string, error) {
	if !slices.ContainsFunc(e.Imports, func(path string) bool { return strings.HasPrefix(path, "gaiden/") }) || strings.Contains(e.Panic, session.Hangs) {
		return nil, nil
	}
	// An earlier cell's aftercare may wait yet.
	for ; !a.mu.TryLock(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			return []string{silent}, nil
		}
	}
	type result struct {
		notes []string
		err   error
		cost  string
	}
	done := make(chan result, 1)
	spent := e.Spent
	go func() {
		defer a.mu.Unlock()
		var r result
		e.Spent = func(line string) { r.cost = line }
		r.notes, r.err = a.care(e)
		done <- r
	}()
	limit := ctx.Done()
	if !e.Interrupted {
		over := make(chan struct{})
		defer close(over)
		limit = hung(over)
	}
	select {
	case r := <-done:
		spent(r.cost)
		return r.notes, r.err
	case <-limit:
		return []string{silent}, nil
	}
}

// hung is closed when the session answers nobody any more: one that is at work
// answers those who come. It looks at times until over is closed.
func hung(over <-chan struct{}) <-chan struct{} {
	yes := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(answerLimit):
			}
			if s, err := connect(); err == nil {
				s.Close()
			} else if !errors.As(err, new(*session.DialError)) {
				close(yes)
				return
			}
		}
	}()
	return yes
}

// silent is what is said when the session has not answered in time.
const silent = "the session has not answered yet: it works on what a stopped cell began, or it hangs, and gaiden session stop ends it"

// care does it. The caller holds a.mu.
func (a *aftercare) care(e notebook.Ending) (notes []string, err error) {
	if e.Interrupted {
		if _, err := a.ask(wire.AskBody{Verb: wire.Cancel, PID: e.PID}); err != nil {
			return nil, nil // it has gone, and all that was queued with it
		}
	}
	answer, err := a.ask(wire.AskBody{Verb: wire.Drain, PID: e.PID})
	if a.meter != nil {
		e.Spent(costLine(a.meter.Take()))
	}
	if err != nil {
		return notes, because(e.Panic, err) // no session runs
	}
	a.ask(wire.AskBody{Verb: wire.Mark}) // what comes now is another cell's, which %rollback can undo
	var first error
	for _, told := range slices.Backward(answer.Told) {
		if strings.Contains(e.Panic, told.Error()) {
			first = told
			break
		}
	}
	for _, e := range answer.Errors {
		switch {
		case errors.Is(e, wire.Cancelled):
		case first == nil:
			first = e
		default:
			notes = append(notes, e.Error())
		}
	}
	const enough = 5 // what follows is most likely a consequence of what came first
	if len(notes) > enough {
		notes = append(notes[:enough], fmt.Sprintf("and %d more errors of the device", len(notes)-enough))
	}
	if _, note, _ := strings.Cut(a.back, ": "); a.back != "" && !strings.Contains(e.Panic, note) && (first == nil || !strings.Contains(first.Error(), note)) {
		notes = append(notes, a.back)
	}
	a.back = ""
	if answer.Trouble != "" && !a.unsaved {
		notes = append(notes, "the notebook's arrays are not saved: "+answer.Trouble)
	}
	a.unsaved = answer.Trouble != ""
	return notes, first
}

// because is why a program has died that found no session: what it said and the
// kernel finds, too, which has the hint.
func because(panicked string, err error) error {
	_, missing := device.Find()
	for _, why := range []error{err, missing} {
		if why != nil && strings.Contains(panicked, why.Error()) {
			return why
		}
	}
	return nil
}

// ask asks the session; a connection that has ended is made again once. What the
// session says then of a crash or a stop is for the cell.
func (a *aftercare) ask(body wire.AskBody) (*wire.AnswerBody, error) {
	var known wire.WelcomeBody
	if a.session != nil {
		answer, err := a.session.Ask(body)
		if err == nil {
			return answer, nil
		}
		known = a.session.Welcome()
		a.session.Close()
		a.session = nil
		a.again = true
	}
	if _, err := os.Lstat(wire.SocketPath()); err != nil {
		return nil, err
	}
	s, err := session.Config{Client: "kernel", NoStart: true, Listens: true, Patience: answerLimit}.Open()
	if err != nil {
		return nil, err
	}
	a.session = s
	if now := s.Welcome(); a.again && now.Note != "" && (now.Note != known.Note || now.Instance != known.Instance) {
		a.back = "the session was started again: " + now.Note
	} else if now.News {
		a.back = "note of the session: " + now.Note
	}
	a.again = false
	return s.Ask(body)
}
