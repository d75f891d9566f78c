package fit

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// Activations are what layers return for a set or examples, by patterns of names: conv1,
// block/*/attention, */weights for attention's.
func (n *Net) Activations(x any, patterns ...string) (all Tensors, err error) {
	err = n.withExamples("Activations", x, func(ctx context.Context, s *Set) error {
		all, err = n.activations(ctx, s, patterns)
		return err
	})
	return all, err
}

func (n *Net) activations(ctx context.Context, s *Set, patterns []string) ([]Tensor, error) {
	size := plan.TestBatch(s.N, s.size)
	in := &Set{N: s.N, arrays: s.inputs()}
	watched := models.Watched{Patterns: patterns}
	program, err := n.trace("activations", func(t *trace) []*Node {
		variables := t.variables()
		sources := t.sources(in)
		from := Parameter(t.g, "from", shapes.Make(dtypes.Int32))
		b := t.gather(size, in, sources, window(from, size, t.scalar(int32(0))))
		t.set(variables)
		models.SetWatched(t.g, &watched)
		y := t.apply(b.in, false)
		var nodes []*Node
		for _, x := range watched.Nodes {
			nodes = append(nodes, t.float(x))
		}
		if len(nodes) == 0 {
			nodes = []*Node{y} // refused below
		}
		return nodes
	})
	if err != nil {
		return nil, err
	}
	if bad := watched.Unmatched(); bad != "" || len(patterns) == 0 {
		got := fmt.Sprintf("no layer is called %q", bad)
		if len(patterns) == 0 {
			got = "got no name of a layer"
		}
		return nil, fmt.Errorf("fit: %s: Activations: %s: want some of %s", n.name, got, strings.Join(watched.Names, ", "))
	}
	for i, shape := range program.Outputs {
		if shape.Rank() == 0 || shape.Dimensions[0] != size {
			return nil, fmt.Errorf("fit: %s: Activations: %s returns %s for %d examples: want layers that return a row for each", n.name, watched.Found[i], shape, size)
		}
	}
	f := n.prepare(fmt.Sprintf("activations/%s/%d/%q", in.key(), size, patterns), func() (*hlo.Program, error) { return program, nil }, nil)
	all, err := n.runRows(ctx, in, size, f)
	for i := range all {
		all[i].Name = watched.Found[i]
	}
	return all, err
}
