package session

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLargeArrays holds where results on a CPU are that have no room in a heap of
// one of glibc's threads: in the first thread's, which keeps its pages for the next ones.
func TestLargeArrays(t *testing.T) {
	t.Setenv("GLIBC_TUNABLES", "") // an allocator of the user's is left alone
	p := serve(t)
	s := p.open("large")
	if s.Welcome().Platform != "cpu" {
		t.Skip("needs a session on a CPU: unset GAIDEN_DEVICE, or let GAIDEN_PLUGIN be the CPU's plugin")
	}
	if b, _ := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail"); !strings.Contains(string(b), "errno") {
		t.Skip("needs a Linux that filters system calls: a kernel with CONFIG_SECCOMP_FILTER, as distributions have it")
	}
	worker := p.worker(s)
	const n = 24 << 20 // 96 MB
	x := addOne(t, s, Options{}, f32(n))
	in, err := s.Put(make([]float32, n), f32(n), 0)
	if err != nil {
		t.Fatal(err)
	}
	before := heap(t, worker)
	out, err := x.Run(Call{Inputs: []*Array{in}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	// The result begins in what was free at the heap's end, which may be some MB.
	if got, want := heap(t, worker)-before, 3*n; got < want {
		t.Errorf("the heap has grown by %d bytes, want at least %d for a result of %d in it", got, want, 4*n)
	}
	if got := values(t, out[0])[n-1]; got != 1 {
		t.Errorf("got %g, want 1", got)
	}
}

// heap is the size in bytes of what a process has asked for by brk.
func heap(t *testing.T, pid int) (size int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(line, "[heap]\n") {
			var from, to int
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				t.Fatal(err)
			}
			size += to - from
		}
	}
	return size
}
