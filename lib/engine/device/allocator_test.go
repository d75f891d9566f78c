package device

import (
	"slices"
	"testing"
)

// TestAllocator holds that a CPU's worker gets the allocator and the blocks, behind which
// the user's options come, and that WithoutAllocator takes them away again.
func TestAllocator(t *testing.T) {
	t.Setenv("GLIBC_TUNABLES", "")
	for flags, want := range map[string]string{"": "XLA_FLAGS=" + blocks, "--xla_a=1": "XLA_FLAGS=" + blocks + " --xla_a=1"} {
		t.Setenv("XLA_FLAGS", flags)
		got := Allocator(Plugin{Device: "cpu"})
		if !slices.Equal(got, []string{AllocatorEnv, want}) {
			t.Errorf("flags %q: got %q", flags, got)
		}
		plain := []string{"A=b"}
		if flags != "" {
			plain = append(plain, "XLA_FLAGS="+flags)
		}
		if got := WithoutAllocator(append([]string{"A=b"}, got...)); !slices.Equal(got, plain) {
			t.Errorf("flags %q: got %q without it, want %q", flags, got, plain)
		}
	}
	if got := Allocator(Plugin{Device: "cuda"}); got != nil {
		t.Errorf("a GPU: got %q", got)
	}
	t.Setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
	if got := Allocator(Plugin{Device: "cpu"}); got != nil {
		t.Errorf("the user's allocator: got %q", got)
	}
}
