package fit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/session"
)

// TestPauses: nothing is tried in the background while somebody asks for something,
// be it of no net, waits for an answer, or has a job at work.
func TestPauses(t *testing.T) {
	s, tuner := open(t), open(t)
	defer func(was time.Duration) { idleTime = was }(idleTime)
	idleTime = 300 * time.Millisecond // in which a busy machine lets everybody do something
	for _, tt := range []struct {
		name string
		work func(until func() bool) error
	}{
		{"arrays", func(until func() bool) error {
			for !until() {
				if err := nudge(s); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		}},
		{"an answer that is long in coming", func(until func() bool) error {
			steps := 1 << 20
			for done := until(); !done; {
				began := time.Now()
				if err := roll(s, steps); err != nil {
					return err
				}
				if time.Since(began) < 3*idleTime && steps < 1<<30 {
					steps *= 2
					continue
				}
				done = until()
			}
			return nil
		}},
		{"a job", func(until func() bool) error {
			n, err := Attach(s, "busy", small(), Config{})
			if err != nil {
				return err
			}
			data, err := n.Upload("bars", digits(40, n.model.Input, 1))
			if err != nil {
				return err
			}
			if _, err := n.FitJob(data, Train{Batch: 10, Epochs: 1 << 20}); err != nil {
				return err
			}
			for !until() {
				time.Sleep(time.Millisecond)
			}
			_, err = s.StopJob("busy")
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := idleWatcher{watched: tuner}
			var over atomic.Bool
			end, started, ended := time.Now().Add(8*idleTime), make(chan struct{}), make(chan error)
			var begin sync.Once
			go func() {
				ended <- tt.work(func() bool {
					begin.Do(func() { close(started) })
					if time.Now().After(end) {
						over.Store(true)
					}
					return over.Load()
				})
			}()
			<-started
			if err := p.wait(context.Background()); err != nil || !over.Load() {
				t.Errorf("it does not wait for the work's end: %v", err)
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if err := p.wait(context.Background()); err != nil { // nor for ever, when there is none
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (&idleWatcher{watched: tuner}).wait(ctx); err != context.Canceled {
		t.Errorf("cancelled: got %v", err)
	}
}

// nudge asks a session for next to nothing.
func nudge(s *session.Session) error {
	a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
	if err == nil {
		a.Finalize()
	}
	return err
}

// roll runs a program of so many steps, each of which needs the one before, and
// waits for its end.
func roll(s *session.Session, steps int) error {
	g := NewGraph(s.Backend(), "roll")
	number := func(g *Graph, name string) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32)) }
	state := func(g *Graph) []*Node { return []*Node{number(g, "left"), number(g, "seed")} }
	more := NewClosure(g, func(g *Graph) []*Node { return []*Node{GreaterThan(state(g)[0], Const(g, int32(0)))} })
	next := NewClosure(g, func(g *Graph) []*Node {
		l := state(g)
		return []*Node{AddScalar(l[0], -1), AddScalar(MulScalar(l[1], 1103515245), 12345)}
	})
	if err := g.Compile(While(more, next, state(g)...)...); err != nil {
		return err
	}
	p, err := s.Compile(g.Executable().(*session.Executable).Program(), session.Options{})
	if err != nil {
		return err
	}
	var in []*session.Array
	for _, n := range []int{steps, 1} {
		a, err := s.Put([]int32{int32(n)}, shapes.Make(dtypes.Int32), 0)
		if err != nil {
			return err
		}
		defer a.Finalize()
		in = append(in, a)
	}
	out, err := p.Run(session.Call{Inputs: in})
	if err != nil {
		return err
	}
	return out[1].Values(make([]int32, 1))
}
