package session

import (
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestWaitAll holds that a process can wait for all that it has asked for,
// whichever connection it was asked on, and learns what failed there.
func TestWaitAll(t *testing.T) {
	p := serve(t)
	connections.Clear() // other tests leave connections behind whose sessions they killed
	before := Connections()
	a, b := p.open("first"), p.open("second")
	if got, want := Connections(), before+2; got != want {
		t.Errorf("got %d connections, want %d", got, want)
	}
	x := put(t, b, make([]float32, 1<<20)...)
	y, err := addOne(t, b, Options{}, f32(1<<20)).Run(Call{Inputs: []*Array{x}})
	if err != nil {
		t.Fatal(err)
	}
	if err := WaitAll(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	y[0].Finalize()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err == nil {
		t.Error("closed twice: got no error")
	}
	if got, want := Connections(), before+1; got != want {
		t.Errorf("after one was closed: got %d connections, want %d", got, want)
	}
	// A connection that the worker has ended says so.
	if _, err := b.Ask(wire.AskBody{Verb: wire.Stop}); err != nil {
		t.Fatal(err)
	}
	p.Wait() // the answer comes before the end
	if err := WaitAll(); err == nil {
		t.Error("the session has gone: got no error")
	}
	b.Close() // its error is the one above
	if got := Connections(); got != before {
		t.Errorf("after all were closed: got %d connections, want %d", got, before)
	}
}

// TestWaitForUnwanted: a program whose results are given back at once is waited
// for like any other.
func TestWaitForUnwanted(t *testing.T) {
	p := serve(t)
	s := p.open("unwanted")
	x := compile(t, s, Options{}, func(in []*Node) []*Node {
		y := in[0]
		for range 24 {
			y = MatMul(y, in[0])
		}
		return []*Node{y, Neg(y)}
	}, f32(512, 512))
	a, err := s.Put(make([]float32, 512*512), f32(512, 512), 0)
	if err != nil {
		t.Fatal(err)
	}
	run := func(unwanted bool) time.Duration {
		t.Helper()
		began := time.Now()
		l, err := x.Run(Call{Inputs: []*Array{a}})
		if err != nil {
			t.Fatal(err)
		}
		if unwanted {
			l[0].Finalize()
			l[1].Finalize()
		}
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	run(false)
	wanted, unwanted := time.Hour, time.Duration(0)
	for range 3 {
		wanted, unwanted = min(wanted, run(false)), max(unwanted, run(true))
	}
	if unwanted < wanted/2 {
		t.Errorf("a program is waited for %v when its results are given back, %v when they are kept", unwanted, wanted)
	}
	st, err := s.Status()
	if err != nil || st.Bytes > 9<<20 {
		t.Errorf("%d bytes are alive, %v: results that nobody wants stay", st.Bytes, err)
	}
}
