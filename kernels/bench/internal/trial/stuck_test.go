package trial

import (
	"strings"
	"testing"
)

// TestStuck holds that the session has its arrays after each program that fails, and that
// one which does not fail is told. No CPU's plugin knows these kernels: it refuses them.
func TestStuck(t *testing.T) {
	d := serve(t)
	if err := d.stuck(); err != nil {
		t.Error(err)
	}
	list, err := d.s.List("")
	if err != nil || len(list) != 0 {
		t.Errorf("got arrays %v and %v, want none left", list, err)
	}
}

// TestBroken holds that the texts are written as Triton's are, and are not what package
// triton would refuse before: they reach the compiler.
func TestBroken(t *testing.T) {
	for _, k := range broken() {
		if !strings.Contains(k.text, "tt.func public @"+k.name+"(%in0: !tt.ptr<i32>") || strings.Contains(k.text, "%!") {
			t.Errorf("%s: got %s", k.name, k.text)
		}
	}
}
