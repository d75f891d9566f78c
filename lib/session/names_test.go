package session

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

func TestNamesOutlive(t *testing.T) {
	p := serve(t)
	s := p.open("one.ipynb")
	a := put(t, s, 1, 2, 3)
	if err := s.Bind([]string{"w"}, []*Array{a}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := s.Array("w"); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "used after Close") {
		t.Errorf("a closed session: got %v", err)
	}
	again := p.open("one.ipynb")
	b, err := again.Array("w")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(values(t, b)); got != "[1 2 3]" {
		t.Errorf("got %s", got)
	}
	other := p.open("two.ipynb")
	if _, err := other.Array("w"); !errors.Is(err, wire.NotFound) {
		t.Errorf("another notebook sees the name: got %v", err)
	}
	l, err := other.ArraysOf("one.ipynb", "w")
	if err != nil || fmt.Sprint(values(t, l[0])) != "[1 2 3]" {
		t.Errorf("another notebook by name: got %v", err)
	}
	_, err = again.Array("v")
	var e *wire.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), `; did you mean "w"?`) || e.Hint() == "" {
		t.Errorf("got %v, want a suggestion", err)
	}
	if n, err := again.Delete("w"); n != 1 || err != nil {
		t.Errorf("delete: got %d, %v", n, err)
	}
	if got := fmt.Sprint(values(t, b)); got != "[1 2 3]" {
		t.Errorf("a handle after its name was deleted: got %s", got)
	}
}

// TestMemoryGoesBack holds that arrays whose names are deleted give their memory to the
// system, though the allocator would keep it, and that a reset does.
func TestMemoryGoesBack(t *testing.T) {
	p := serve(t)
	s := p.open("large")
	worker := p.worker(s)
	const count, size = 20, 16 << 20 // what is larger the allocator takes from the system and gives back each for itself
	x := addOne(t, s, Options{}, f32(size/4))
	zeros, err := s.Put(make([]float32, size/4), f32(size/4), 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("w", i))
	}
	for _, tt := range []struct {
		name string
		free func() error
	}{
		{"deleted", func() error { _, err := s.Delete("w*"); return err }},
		{"deleted while another cell has them", func() error {
			other := p.open("large")
			if _, err := other.Arrays(names...); err != nil {
				return err
			}
			if _, err := s.Delete("w*"); err != nil {
				return err
			}
			time.Sleep(1500 * time.Millisecond) // the memory of those that nobody has is released
			return other.Close()
		}},
		{"deleted by a cell, after which there was another", func() error {
			s.Ask(wire.AskBody{Verb: wire.Mark, Names: []string{"one"}})
			if _, err := s.Delete("w*"); err != nil {
				return err
			}
			time.Sleep(1500 * time.Millisecond) // so that only the next cell can be why
			if resident(worker) < count/2*size {
				t.Error("the arrays are gone that the cell could get back by undo")
			}
			s.Ask(wire.AskBody{Verb: wire.Mark, Names: []string{"two"}})
			return s.Bind([]string{"other"}, []*Array{put(t, s, 1)})
		}},
		{"reset", func() error { _, err := s.Ask(wire.AskBody{Verb: wire.Reset}); return err }},
	} {
		for i := range count {
			out, err := x.Run(Call{Inputs: []*Array{zeros}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Bind(names[i:i+1], out); err != nil {
				t.Fatal(err)
			}
			if i == count-1 {
				values(t, out[0]) // it waits until they are there
			}
			out[0].Finalize()
		}
		full := resident(worker)
		if full < count*size {
			t.Errorf("%s: with arrays the worker takes %d bytes of memory, want %d or more", tt.name, full, count*size)
		}
		if err := tt.free(); err != nil {
			t.Fatal(err)
		}
		within(t, "the memory to go back: "+tt.name, func() bool { return resident(worker) < full-count*3/4*size })
	}
}

// TestCount: how many names begin with a prefix is told as it is, whatever has come,
// gone, or got its name twice.
func TestCount(t *testing.T) {
	p := serve(t)
	s := p.open("count")
	bindAll(t, s, map[string][]float32{"net/a": {1}, "net/b": {2}, "net/in/c": {3}, "next": {4}, "/d": {5}})
	bindAll(t, s, map[string][]float32{"net/a": {6}})
	bindAll(t, p.open("another"), map[string][]float32{"net/e": {7}})
	counts := func() (l []int) {
		for _, prefix := range []string{"net/", "net/in/", "ne", "/", "none/"} {
			_, n, err := s.ArraysUnder(prefix)
			if err != nil {
				t.Fatal(err)
			}
			l = append(l, n)
		}
		return l
	}
	for _, tt := range []struct {
		name string
		do   func() error
		want []int
	}{
		{"bind", func() error { return nil }, []int{3, 1, 4, 1, 0}},
		{"snapshot", func() error { _, err := s.Snapshot("whole"); return err }, []int{3, 1, 4, 1, 0}},
		{"delete", func() error {
			askAll(t, s, wire.AskBody{Verb: wire.Mark}) // what comes now can be undone alone
			_, err := s.Delete("net/*", "/d")
			return err
		}, []int{0, 0, 1, 0, 0}},
		{"undo", func() error { _, err := s.Undo(); return err }, []int{3, 1, 4, 1, 0}},
		{"rollback", func() error {
			bindAll(t, s, map[string][]float32{"net/f": {8}, "none/g": {9}})
			_, err := s.Rollback("whole", "")
			return err
		}, []int{3, 1, 4, 1, 0}},
	} {
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := counts(); !slices.Equal(got, tt.want) {
			t.Errorf("after %s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAtomicNames(t *testing.T) {
	p := serve(t)
	s := p.open("atomic")
	x := addOne(t, s, Options{Donate: []bool{true, true}}, f32(1), f32(1))
	a, b := put(t, s, 0), put(t, s, 0)
	if err := s.Bind([]string{"a", "b"}, []*Array{a, b}); err != nil {
		t.Fatal(err)
	}
	// Donating a bound array without replacing it would lose it.
	out, err := x.Run(Call{Inputs: []*Array{a, b}, Names: []string{"a", ""}})
	if err != nil {
		t.Fatal(err)
	}
	if err := out[0].Values(make([]float32, 1)); !errors.Is(err, wire.Invalid) {
		t.Errorf("got %v, want %v", err, wire.Invalid)
	}
	again, err := s.Arrays("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind([]string{"a2"}, again[:1]); err != nil {
		t.Fatal(err)
	}
	if out, err = x.Run(Call{Inputs: again, Names: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := out[0].Values(make([]float32, 1)); !errors.Is(err, wire.Invalid) {
		t.Errorf("an array with a second name: got %v, want %v", err, wire.Invalid)
	}
	if _, err := s.Delete("a2"); err != nil {
		t.Fatal(err)
	}
	l, err := s.Arrays("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // a second client sees both old or both new
		defer close(done)
		r := p.open("atomic")
		for range 300 {
			pair, err := r.Arrays("a", "b")
			if err != nil {
				t.Error(err)
				return
			}
			v, w := make([]float32, 1), make([]float32, 1)
			if e1, e2 := pair[0].Values(v), pair[1].Values(w); e1 == nil && e2 == nil && v[0] != w[0] {
				t.Errorf("a is %v and b is %v", v, w)
			}
		}
	}()
	for range 2000 {
		if l, err = x.Run(Call{Inputs: l, Names: []string{"a", "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if v := values(t, l[0]); v[0] != 2000 {
		t.Errorf("got %v, want 2000", v)
	}
}

// TestSpaceNames: names of notebooks that stand for no single one are refused.
func TestSpaceNames(t *testing.T) {
	p := serve(t)
	for _, tt := range []struct{ space, want string }{
		{strings.Repeat("s", 4097), "4097 bytes: limit is 4096"}, {"*", "stands for all"}, {strings.Repeat("s", 4096), ""}, {"a\nb", ""}, {"../../x", ""},
	} {
		s, err := Config{Socket: p.socket, Space: tt.space, NoStart: true}.Open()
		var e *wire.Error
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%.20q: %v", tt.space, err)
		case tt.want == "":
			s.Close()
		case !errors.As(err, &e) || e.Code != wire.Invalid || !strings.Contains(e.Text, tt.want) || e.Next == "":
			t.Errorf("%.20q: got %v, want a refusal that says %q and what next", tt.space, err, tt.want)
		}
	}
}
