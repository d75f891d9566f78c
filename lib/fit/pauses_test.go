package fit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/session"
)

// TestPauses: nothing is tried in the background while the process asks for
// something, be it of no net, waits for an answer, or trains the net itself.
func TestPauses(t *testing.T) {
	s := open(t)
	defer func(was time.Duration) { pause = was }(pause)
	pause = 300 * time.Millisecond // in which a busy machine lets everybody do something
	var mu sync.Mutex
	for _, tt := range []struct {
		name string
		work func(until func() bool)
	}{
		{"arrays", func(until func() bool) {
			for !until() {
				a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				a.Finalize()
				time.Sleep(time.Millisecond)
			}
		}},
		{"answers", func(until func() bool) {
			for !until() {
				if _, err := s.List(""); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}},
		{"an answer that is long in coming", func(until func() bool) {
			steps := 1 << 20
			for done := until(); !done; {
				began := time.Now()
				if err := roll(s, steps); err != nil {
					t.Error(err)
					return
				}
				if time.Since(began) < 3*pause && steps < 1<<30 {
					steps *= 2
					continue
				}
				done = until()
			}
		}},
		{"a net's training", func(until func() bool) {
			mu.Lock()
			defer mu.Unlock()
			for !until() {
				time.Sleep(time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pauses{watched: s}
			var over atomic.Bool
			end, begun := time.Now().Add(8*pause), make(chan struct{})
			var begin sync.Once
			go tt.work(func() bool {
				begin.Do(func() { close(begun) })
				if time.Now().After(end) {
					over.Store(true)
				}
				return over.Load()
			})
			<-begun
			if p.wait(&mu); !over.Load() {
				t.Error("it does not wait for the work's end")
			}
			p.wait(&mu) // nor for ever, when there is none
		})
	}
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
