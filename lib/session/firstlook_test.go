package session

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestFirstLook holds that a program for a first look is another one than that
// which is compiled well, on disk too, and does the same; and that flags that are
// given come first.
func TestFirstLook(t *testing.T) {
	p := serve(t)
	s := p.open("net")
	build := func(in []*Node) []*Node { return []*Node{Exp(in[0])} }
	answers := func(x *Program) string {
		out, err := x.Run(Call{Inputs: []*Array{put(t, s, 0, 1, 2, 3)}})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%.4f", values(t, out[0]))
	}
	well := answers(compile(t, s, Options{}, build, f32(4)))
	for _, tt := range []struct {
		name string
		o    Options
		from wire.Source
	}{
		{"first look", Options{FirstLook: true}, wire.Compiled},
		{"first look, again", Options{FirstLook: true}, wire.Memory},
		{"by its flags", Options{Flags: FirstLook("cpu")}, wire.Memory},
		{"compiled well", Options{}, wire.Memory},
		{"first look, but optimized", Options{FirstLook: true, Flags: map[string]any{"xla_backend_optimization_level": 2}}, wire.Compiled},
	} {
		x := compile(t, s, tt.o, build, f32(4))
		if x.From != tt.from {
			t.Errorf("%s: got a %s, want a %s", tt.name, x.From, tt.from)
		}
		if got := answers(x); got != well {
			t.Errorf("%s: got %s, want %s", tt.name, got, well)
		}
	}
}
