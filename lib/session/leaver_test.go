package session

import (
	"os"
	"os/exec"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// leaver is a program that ends right after its last call: it waits for nothing,
// reads no answer and closes nothing. Its addend is large enough to go through a
// window, so that the session has something to answer to nobody.
func leaver(socket string) error {
	s, err := Config{Socket: socket, Space: "left"}.Open()
	if err != nil {
		return err
	}
	x, err := s.Array("x")
	if err != nil {
		return err
	}
	g := NewGraph(s.Backend(), "leaver")
	if err := g.Compile(Add(Parameter(g, "x", f32(bulk)), Parameter(g, "y", f32(bulk)))); err != nil {
		return err
	}
	p, err := s.Compile(g.Executable().(*Executable).Program(), Options{Donate: []bool{true, false}})
	if err != nil {
		return err
	}
	one := make([]float32, bulk)
	for i := range one {
		one[i] = 1
	}
	y, err := s.Put(one, f32(bulk), 0)
	if err != nil {
		return err
	}
	_, err = p.Run(Call{Inputs: []*Array{x, y}, Names: []string{"x"}})
	return err
}

// TestSurvivesExit: what a program has asked for happens, also when the program
// ends before the session has heard of it.
func TestSurvivesExit(t *testing.T) {
	p := serve(t)
	s := p.open("left")
	bindAll(t, s, map[string][]float32{"x": make([]float32, bulk)})
	for i := range times(200, 40) {
		cmd := exec.Command("/proc/self/exe", p.socket)
		cmd.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=leaver")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("program %d: %v: %s", i, err, out)
		}
		if ans := askAll(t, s, wire.AskBody{Verb: wire.Drain, PID: cmd.Process.Pid}); len(ans.Errors) > 0 {
			t.Fatalf("program %d: %v", i, ans.Errors)
		}
		x, err := s.Array("x")
		if err != nil {
			t.Fatal(err)
		}
		if v := values(t, x); v[0] != float32(i+1) || v[bulk-1] != float32(i+1) {
			t.Fatalf("after program %d: x is %v and %v, want %d", i, v[0], v[bulk-1], i+1)
		}
	}
}
