package session

import (
	"slices"
	"testing"
	"time"
)

// TestWindows: what goes through shared memory is right also where the memory
// becomes the array's: while arrays live, after they are donated or freed and
// their windows are used again, and when the client has gone.
func TestWindows(t *testing.T) {
	p := serve(t)
	s := p.open("windows")
	const n = 1 << 20
	fill := func(v float32) []float32 { return slices.Repeat([]float32{v}, n) }
	check := func(a *Array, want float32) {
		t.Helper()
		if v := values(t, a); v[0] != want || v[n/2] != want || v[n-1] != want {
			t.Fatalf("got %v, %v, %v, want %v", v[0], v[n/2], v[n-1], want)
		}
	}
	kept := put(t, s, fill(100)...)
	give := addOne(t, s, Options{Donate: []bool{true}}, f32(n))
	last := put(t, s, fill(-1)...)
	for i := range 20 {
		v := float32(i)
		a, b := put(t, s, fill(v)...), put(t, s, fill(-v)...)
		out, err := give.Run(Call{Inputs: []*Array{a}})
		if err != nil {
			t.Fatal(err)
		}
		last.Finalize()
		last = b
		check(out[0], v+1)
		check(b, -v)
		check(kept, 100)
		out[0].Finalize()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	// The answer to Wait may come before a window does: a few are in flight.
	if got := len(s.windows.all); got > 10 {
		t.Errorf("%d windows were made for 4 arrays at a time", got)
	}
	if err := s.Bind([]string{"kept", "last"}, []*Array{kept, last}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the worker takes the client's windows away
	o := p.open("windows")
	for name, want := range map[string]float32{"kept": 100, "last": -19} {
		a, err := o.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		check(a, want)
	}
}
