package device

import (
	"slices"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestAllocator holds that a CPU's worker gets the allocator, and that WithoutAllocator
// takes it away again.
func TestAllocator(t *testing.T) {
	t.Setenv("GLIBC_TUNABLES", "")
	got := Allocator(Plugin{Device: "cpu"})
	if !slices.Equal(got, []string{AllocatorEnv}) {
		t.Errorf("a CPU: got %q", got)
	}
	if got := WithoutAllocator(append([]string{"A=b"}, got...)); !slices.Equal(got, []string{"A=b"}) {
		t.Errorf("got %q without it, want the rest", got)
	}
	if got := Allocator(Plugin{Device: "cuda"}); got != nil {
		t.Errorf("a GPU: got %q", got)
	}
	t.Setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
	if got := Allocator(Plugin{Device: "cpu"}); got != nil {
		t.Errorf("the user's allocator: got %q", got)
	}
}

// TestInBlocks holds that the memory of a program without very large arrays is made of
// blocks.
func TestInBlocks(t *testing.T) {
	// 11 is float32.
	sized := func(numbers int) []wire.Type { return []wire.Type{{DType: 11, Dims: []int{numbers}}} }
	for _, tt := range []struct {
		name    string
		in, out int // numbers
		want    bool
	}{
		{"small", 10, 10, true}, {"as large as a block", block / 4, 1, true}, {"a larger parameter", block/4 + 1, 1, false}, {"a larger result", 1, block, false},
	} {
		if got := inBlocks(&wire.ProgramBody{Inputs: sized(tt.in), Outputs: sized(tt.out)}); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
