package session

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// cell is the body of the process that TestKilledCell kills.
func cell(socket string) {
	s, err := Config{Socket: socket, Space: "killed"}.Open()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := s.Arrays("a", "b")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	g := NewGraph(s.Backend(), "cell")
	a, b := Parameter(g, "a", f32(1000)), Parameter(g, "b", f32(1000))
	if err := g.Compile(AddScalar(a, 1), AddScalar(b, 1)); err != nil {
		os.Exit(1)
	}
	x, err := s.Compile(g.Executable().(*Executable).Program(), Options{Donate: []bool{true, true}})
	for err == nil {
		l, err = x.Run(Call{Inputs: l, Names: []string{"a", "b"}})
	}
}

func TestKilledCell(t *testing.T) {
	p := serve(t)
	s := p.open("killed")
	zero := make([]float32, 1000)
	a, b := put(t, s, zero...), put(t, s, zero...)
	if err := s.Bind([]string{"a", "b"}, []*Array{a, b}); err != nil {
		t.Fatal(err)
	}
	a.Finalize()
	b.Finalize()
	r := rand.New(rand.NewPCG(9, 10))
	last, window := float32(0), 150
	for i := range times(1000, 20) {
		cmd := exec.Command("/proc/self/exe", p.socket)
		cmd.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=cell")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+r.IntN(window)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		askAll(t, s, wire.AskBody{Verb: wire.Drain, PID: cmd.Process.Pid})
		l, err := s.Arrays("a", "b")
		if err != nil {
			t.Fatal(err)
		}
		v, w := values(t, l[0]), values(t, l[1])
		for k := range v {
			if v[k] != v[0] || w[k] != v[0] {
				t.Fatalf("after kill %d: arrays are mixed: %v and %v", i, v[k], w[k])
			}
		}
		if v[0] < last {
			t.Fatalf("after kill %d: %v is older than %v", i, v[0], last)
		}
		if v[0] == last { // with -race, or beside other work, a cell takes longer to its first step
			window = min(2*window, 5000)
		} else {
			window = 150
		}
		last = v[0]
	}
	if last == 0 {
		t.Error("no cell has done a step before it was killed: the test has tested nothing")
	}
	st, _ := s.Status()
	if st.Bytes > 4*4000 {
		t.Errorf("%d bytes are alive: killed cells leak", st.Bytes)
	}
}
