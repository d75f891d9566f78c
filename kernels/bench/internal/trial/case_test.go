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
		"conv 1×.* f32", "conv 1×.* bf16", "conv 4096×.* f32", "conv 4096×.* bf16", "FCN step b1024 .* f32", "FCN step b1024 .* bf16",
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
