package session

import (
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
)

// TestPulse holds that a client learns of what others ask for, also of those that have
// gone, and not of what it asks for itself.
func TestPulse(t *testing.T) {
	p := serve(t)
	a, b, c := p.open("pulse"), p.open("pulse"), p.open("elsewhere")
	pulse := func() int {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			asked, busy, err := a.Pulse()
			if err != nil {
				t.Fatal(err)
			}
			if !busy {
				return asked
			}
			if time.Now().After(end) {
				t.Fatal("busy for 10 s with nothing to do")
			}
		}
	}
	last := pulse()
	for _, tt := range []struct {
		name string
		do   func()
		more bool
	}{
		{"its own array", func() { put(t, a, 1) }, false},
		{"a list", func() { b.List("") }, false},
		{"an array", func() { put(t, b, 1); b.Wait() }, true},
		{"an array of another notebook", func() { put(t, c, 1); c.Wait() }, true},
		{"nothing", func() {}, false},
	} {
		tt.do()
		if now := pulse(); now > last != tt.more {
			t.Errorf("%s: got %d after %d, want more: %t", tt.name, now, last, tt.more)
		} else {
			last = now
		}
	}
	program, made := long(t, b), make(chan error, 1)
	go func() {
		_, err := b.Compile(program, Options{})
		made <- err
	}()
	looks, seen := 0, 0
	for done := false; !done; {
		_, busy, err := a.Pulse()
		if err != nil {
			t.Fatal(err)
		}
		if looks++; busy {
			seen++
		}
		select {
		case err := <-made:
			if done = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	if seen < looks/2 || seen == 0 {
		t.Errorf("while a program is compiled for another: got busy %d times of %d, want most times", seen, looks)
	}
	last = pulse()
	b.Close()
	if now := pulse(); now < last {
		t.Errorf("when a client has gone: got %d after %d, want what it had asked for to count still", now, last)
	}
}

// long is a program that takes a while to be compiled.
func long(t *testing.T, s *Session) *hlo.Program {
	g := NewGraph(s.Backend(), "long")
	x := Parameter(g, "x", f32(7, 7))
	y := x
	for range 300 {
		y = Sin(MatMul(MatMul(y, x), Exp(y)))
	}
	if err := g.Compile(y); err != nil {
		t.Fatal(err)
	}
	return g.Executable().(*Executable).Program()
}
