package tiling

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/session"
)

// vector is what the kernels of these tests take and give.
var (
	vector  = shapes.Make(dtypes.Float32, 128)
	vectors = []shapes.Shape{vector}
)

// program writes one with a kernel of the given body, for a GPU.
func program(body func(b *triton.Block)) (*hlo.Program, error) {
	k := triton.Kernel{Name: "own", Inputs: vectors, Outputs: vectors, Body: body}
	return Write("own", gpu, hlo.DefaultPrecision, vectors, func(b *hlo.Builder, in []*Node) []*Node { return fused.Call(b, k, in[0]) })
}

// TestFaults holds what becomes of kernels that go wrong, and of the arrays
// beside them: a malformed one is refused in Go with its line, one that the
// plugin does not know is an error of its program, and where a worker ends
// while a kernel is with it, named arrays come back.
func TestFaults(t *testing.T) {
	s := serve(t)
	weights := make([]float32, 128)
	for i := range weights {
		weights[i] = float32(i)
	}
	a, err := s.Put(weights, vector, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind([]string{"net/weights"}, []*session.Array{a}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	intact := func(s *session.Session) {
		t.Helper()
		a, err := s.Array("net/weights")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 128)
		if err := a.Values(got); err != nil || got[127] != 127 {
			t.Fatalf("got %v and error %v, want the weights as they were", got[127], err)
		}
	}

	_, err = program(func(b *triton.Block) { b.Output(0).At(b.Range(128)).Store(b.Range(64)) })
	if err == nil || !strings.Contains(err.Error(), "fault_test.go:") || !strings.Contains(err.Error(), "kernel own") {
		t.Errorf("malformed kernel: got %v, want an error with the kernel and its line", err)
	}
	intact(s)

	p, err := program(func(b *triton.Block) {
		i := b.Range(128)
		b.Output(0).At(i).Store(b.Input(0).At(i).Load())
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(s *session.Session) error {
		x, err := s.Compile(p, session.Options{})
		if err != nil {
			return err
		}
		a, err := s.Array("net/weights")
		if err != nil {
			return err
		}
		out, err := x.Run(session.Call{Inputs: []*session.Array{a}})
		if err != nil {
			return err
		}
		return out[0].Values(make([]float32, 128))
	}
	if err := run(s); err == nil || errors.Is(err, wire.Lost) {
		t.Errorf("kernel on a CPU: got %v, want an error of the program and a worker that lives", err)
	}
	intact(s)

	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	go func() { // as a kernel does that the plugin's compiler does not survive
		time.Sleep(20 * time.Millisecond)
		syscall.Kill(status.WorkerPID, syscall.SIGKILL)
	}()
	for end := time.Now().Add(20 * time.Second); !errors.Is(err, wire.Lost); err = run(s) {
		if time.Now().After(end) {
			t.Fatalf("got %v, want that the worker has ended", err)
		}
	}
	s.Close()
	intact(again(t))
}
