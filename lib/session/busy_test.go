package session

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// endless is a program that ends while the device is at work for it, for ever.
func endless(socket string) error {
	s, err := Config{Socket: socket, Space: "endless"}.Open()
	if err != nil {
		return err
	}
	g := NewGraph(s.Backend(), "spin")
	even := func(g *Graph) *Node { return Parameter(g, "even", shapes.Make(dtypes.Int32)) }
	cond := NewClosure(g, func(g *Graph) []*Node { return []*Node{NotEqual(even(g), Const(g, int32(7)))} })
	body := NewClosure(g, func(g *Graph) []*Node { return []*Node{AddScalar(even(g), 2)} })
	if err := g.Compile(While(cond, body, even(g))...); err != nil {
		return err
	}
	p, err := s.Compile(g.Executable().(*Executable).Program(), Options{})
	if err != nil {
		return err
	}
	x, err := s.Put([]int32{0}, shapes.Make(dtypes.Int32), 0)
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := p.Run(Call{Inputs: []*Array{x}}); err != nil {
			return err
		}
	}
	return nil
}

// TestStatusOfEndless: what keeps the device busy is in the status, also when
// nobody waits for it any more.
func TestStatusOfEndless(t *testing.T) {
	p := serve(t)
	s := p.open("other")
	clients := func() string {
		st, err := s.Status()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(st.Clients, "\n")
	}
	if got := clients(); strings.Contains(got, " for ") {
		t.Errorf("nothing runs: got %q", got)
	}
	cmd := exec.Command("/proc/self/exe", p.socket)
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=endless")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := regexp.MustCompile(fmt.Sprintf(`\(process %d, gone, notebook "endless", since [0-9:]+\): spin for [0-9.]+m?s`, cmd.Process.Pid))
	within(t, want.String(), func() bool { return want.MatchString(clients()) })
	if v := values(t, put(t, s, 3)); v[0] != 3 {
		t.Errorf("another client's array is %v, want 3", v)
	}
}
