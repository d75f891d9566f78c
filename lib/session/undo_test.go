package session

import (
	"errors"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestUndo takes back what a cell has done: arrays that programs have replaced
// and were given, arrays that are new or deleted.
func TestUndo(t *testing.T) {
	p := serve(t)
	s := p.open("undo")
	if _, err := s.Undo(); !errors.Is(err, wire.NotFound) {
		t.Errorf("undo of nothing: got %v", err)
	}
	mark := func() {
		t.Helper()
		if err := s.MarkCell("cell"); err != nil {
			t.Fatal(err)
		}
	}
	undo := func(want string) {
		t.Helper()
		if _, err := s.Undo(); err != nil {
			t.Fatal(err)
		}
		if got := look(t, s); got != want {
			t.Errorf("after undo: got %s, want %s", got, want)
		}
	}
	bindAll(t, s, map[string][]float32{"w": {0, 0}, "b": {7}, "old": {8}})
	mark()
	x := addOne(t, s, Options{Donate: []bool{true}}, f32(2))
	l, err := s.Arrays("w")
	for range 5 {
		if err == nil {
			l, err = x.Run(Call{Inputs: l, Names: []string{"w"}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete("b"); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"new": {1}})
	const before, after = "b[7] old[8] w[0 0]", "new[1] old[8] w[5 5]"
	mark()
	undo(before)
	undo(after)
	mark() // a cell that changes nothing is not undone
	mark()
	undo(before)
	mark() // only the last cell that has changed something is kept
	bindAll(t, s, map[string][]float32{"b": {9}})
	undo(before)
	for i := range 20 {
		mark()
		bindAll(t, s, map[string][]float32{"w": {float32(i), 0}, "b": {9}, "old": {8}})
	}
	l[0].Finalize()
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	if st.Arrays > 80 { // with those that the garbage collector has not seen yet
		t.Errorf("%d arrays are alive after 20 cells: undo leaks", st.Arrays)
	}
}

// TestUndoGivesWay: what is kept for an undo is given up where a quota needs the
// room, and after a restart.
func TestUndoGivesWay(t *testing.T) {
	p := serve(t)
	s := p.open("way")
	bindAll(t, s, map[string][]float32{"w": make([]float32, 1000)})
	if err := s.MarkCell("1"); err != nil {
		t.Fatal(err)
	}
	x := addOne(t, s, Options{Donate: []bool{true}}, f32(1000))
	l, err := s.Arrays("w")
	if err == nil {
		l, err = x.Run(Call{Inputs: l, Names: []string{"w"}})
	}
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	ans := askAll(t, s, wire.AskBody{Verb: wire.Spaces})
	if err := s.Quota(ans.Spaces[0].Bytes + 100); err != nil { // no third one
		t.Fatal(err)
	}
	put(t, s, make([]float32, 1000)...)
	if err := s.Wait(); err != nil {
		t.Fatalf("an array for which there is room: %v", err)
	}
	if _, err := s.Undo(); !errors.Is(err, wire.Gone) || !strings.Contains(err.Error(), "quota") {
		t.Errorf("undo of what was given up: got %v", err)
	}
	if v := values(t, l[0]); v[0] != 1 {
		t.Errorf("w is %v, want 1", v[0])
	}
	if _, err := s.Ask(wire.AskBody{Verb: wire.Stop}); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	p.again()
	s = p.open("way")
	if _, err := s.Undo(); !errors.Is(err, wire.NotFound) {
		t.Errorf("undo after a restart: got %v", err)
	}
	if l, err := s.List(""); err != nil || len(l) != 1 {
		t.Errorf("%d arrays are there after a restart, %v, want 1", len(l), err)
	}
}

// TestUndoJob: what a job has changed is what its cell has changed.
func TestUndoJob(t *testing.T) {
	p := serve(t)
	s := p.open("job")
	add := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Add(in[0], in[0])} }, f32(2))
	bindAll(t, s, map[string][]float32{"x": {1, 2}})
	if err := s.MarkCell("job"); err != nil {
		t.Fatal(err)
	}
	j := Job{Name: "j", Turns: 5, Scratch: "scratch/", Steps: []JobStep{
		{Program: add, Inputs: Named("x"), Names: []string{"scratch/x"}},
		{Program: add, Inputs: Named("scratch/x"), Names: []string{"x"}},
	}}
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	if info, _ := follow(t, s, "j"); info.State != wire.JobDone {
		t.Fatalf("got %+v, want a job that is done", info)
	}
	read := func() []float32 {
		a, err := s.Array("x")
		if err != nil {
			t.Fatal(err)
		}
		return values(t, a)
	}
	if got := read(); got[0] != 1024 {
		t.Errorf("after the job: got %v, want 1024 times as much", got)
	}
	for i, want := range []float32{1, 1024, 1} { // the undo can be undone
		if n, err := s.Undo(); err != nil || n != 1 || read()[0] != want {
			t.Errorf("undo %d: got %d arrays, %v, x %v, want 1 and %g", i, n, err, read(), want)
		}
	}
}
