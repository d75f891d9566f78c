package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestKernels holds that every operation can be written with its kernel, once, and that
// sanitize.py finds the kernels and knows the values of all their integer inputs.
func TestKernels(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range kernelOps() {
		if seen[op.Key()] {
			t.Errorf("%s: there are two of that name", op.Key())
		}
		seen[op.Key()] = true
	}
	dir := t.TempDir()
	if err := run([]string{"kernels", "-texts", dir}, t.Output(), t.Output()); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: apt-get install python3")
	}
	out, err := exec.Command("python3", "sanitize.py", dir, "--list").CombinedOutput()
	if err != nil {
		t.Fatalf("got %v, want that the integers of all kernels are known:\n%s", err, out)
	}
	for _, want := range []string{"\thead\t3:below 10\n", "\tsoftmax\t1:below 1000\n", "\tend_sigmoid\t1:below 10\n", "\tlinear_relu\n", "\tlstm\n", "\tparts_adam\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got no kernel %q in\n%s", want, out)
		}
	}
}
