package session

import (
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestHandover holds that a client whose results another one takes, before the
// device has made them, is not thought to have been served at once: by that the
// worker judges how much of a program it may send ahead of other people's.
func TestHandover(t *testing.T) {
	p := serve(t)
	first, second := p.open("net"), p.open("net")
	n := 700
	build := func(in []*Node) []*Node {
		y := in[0]
		for range 4 {
			y = MulScalar(MatMul(y, y), 1/float64(n))
		}
		return []*Node{y}
	}
	x := compile(t, first, Options{Donate: []bool{true}}, build, f32(n, n))
	y := compile(t, second, Options{Donate: []bool{true}}, build, f32(n, n))
	a, err := first.Put(make([]float32, n*n), f32(n, n), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Bind([]string{"w"}, []*Array{a}); err != nil {
		t.Fatal(err)
	}
	run := func(s *Session, x *Program, times int) {
		t.Helper()
		l, err := s.Arrays("w")
		for range times {
			if err != nil {
				t.Fatal(err)
			}
			l, err = x.Run(Call{Inputs: l, Names: []string{"w"}})
		}
		if err == nil {
			_, err = s.Array("w") // it has been accepted
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	each := time.Hour
	for range 5 {
		began := time.Now()
		run(first, x, 1)
		if err := first.Wait(); err != nil {
			t.Fatal(err)
		}
		each = min(each, time.Since(began))
	}
	for range 8 {
		run(first, x, 2)
		run(second, y, 1)
		for _, s := range []*Session{first, second} {
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range askAll(t, first, wire.AskBody{Verb: wire.Programs}).Programs {
			if i.Clients == 2 && i.Pace < each/4 { // a program is never that much faster than the fastest of five
				t.Errorf("a program of %v is thought to take %v", each, i.Pace)
			}
		}
	}
}
