package session

import (
	"os"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
)

// TestWishes holds that a flag which is a wish is followed where the plugin knows
// it and its value, and left out where it does not; another that is unknown is
// refused by name.
func TestWishes(t *testing.T) {
	s := serve(t).open("net")
	dumped := t.TempDir()
	for i, tt := range []struct {
		flag  string
		value any
		want  string
	}{
		{"xla_dump_to?", dumped, ""},
		{"xla_no_such_option?", true, ""},
		{"xla_gpu_command_buffer_scheduling_mode?", "NO_SUCH_MODE", ""},
		{"xla_no_such_option", true, "xla_no_such_option"},
	} {
		g := NewGraph(s.Backend(), tt.flag)
		if err := g.Compile(AddScalar(Parameter(g, "x", f32(4)), float64(i))); err != nil {
			t.Fatal(err)
		}
		_, err := s.Compile(g.Executable().(*Executable).Program(), Options{Flags: map[string]any{tt.flag: tt.value}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s=%v: got error %v, want %q", tt.flag, tt.value, err, tt.want)
		}
	}
	files, err := os.ReadDir(dumped)
	if err != nil || len(files) == 0 {
		t.Errorf("xla_dump_to: got %d files, error %v: want those that XLA writes when it is set", len(files), err)
	}
}
