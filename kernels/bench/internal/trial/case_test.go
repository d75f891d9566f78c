package trial

import (
	"fmt"
	"regexp"
	"testing"
)

// TestNames holds that no two cases have one name, and that the batches of every kind of
// operation go from one example to as many as its kernel takes.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range valueCases() {
		if seen[c.name] {
			t.Errorf("%s: there are two of that name", c.name)
		}
		seen[c.name] = true
	}
	for _, tt := range []string{
		"take 1 of .* f32", "take 1 of .* bf16", "take 4096 of .* f32", "take 4096 of .* bf16",
		"image conv 1×.* f32", "image conv 1×.* bf16", "image conv 8×.* f32", "image conv 4096×.* bf16",
		"image conv back 1×.* f32", "image conv back 1×.* bf16", "image conv back 8×.* f32", "image conv back 4096×.* bf16",
		"sequence .* b1 .*", "sequence .* b511 .*", "sequence .* b512 .*", "FCN step b1024 .* f32", "FCN step b1024 .* bf16",
	} {
		is := regexp.MustCompile(fmt.Sprintf("^%s$", tt))
		found := false
		for name := range seen {
			found = found || is.MatchString(name)
		}
		if !found {
			t.Errorf("got no case %s", tt)
		}
	}
}

// TestWinners holds how much of few winners may differ, and of many.
func TestWinners(t *testing.T) {
	for n, want := range map[int]float64{288: 0.164, 1000: 0.1, 1000000: 0.1} {
		if got := winners(n); got < want-1e-3 || got > want+1e-3 {
			t.Errorf("of %d: got %.3f, want %.3f", n, got, want)
		}
	}
}
