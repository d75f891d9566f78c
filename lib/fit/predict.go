package fit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/data"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// Predict runs the net on a set, on examples, on what Data.X may be, or on rows of the table that
// it was trained on: *data.Table, data.Row, []data.Row.
func (n *Net) Predict(x any) (p *Prediction, err error) {
	err = n.withExamples("Predict", x, func(ctx context.Context, s *Set) error {
		p, err = n.predict(ctx, s)
		return err
	})
	return p, err
}

// withExamples does something with a set, or with examples that are on the device meanwhile.
func (n *Net) withExamples(name string, x any, do func(context.Context, *Set) error) error {
	ctx := n.Context()
	n.mu.Lock()
	defer n.mu.Unlock()
	var encoder *data.Encoder
	if d, is := x.(Data); is {
		x, encoder = d.X, d.Encoder
	}
	x, err := n.encode(x)
	if err != nil {
		return err
	}
	if err := n.infer(x); err != nil {
		return err
	}
	if err := n.open(); err != nil {
		return err
	}
	s, is := x.(*Set)
	what := "what " + name + " got"
	if is {
		what, encoder = s.Name, s.Encoder
	}
	if err := n.suitsEncoder(what, encoder, false); err != nil {
		return err
	}
	if !is {
		if s, err = n.examples(name, x); err != nil {
			return fmt.Errorf("%w, or a *fit.Set", err)
		}
		if err := n.fitsBF16(s.rounding.found); err != nil {
			return err
		}
		for i := range s.arrays {
			a := &s.arrays[i]
			if a.Array, err = n.session.Put(a.flat, a.shape, 0); err != nil {
				return err
			}
			defer a.Finalize()
		}
	} else if err := cmp.Or(n.refuseStream(s, "predictions"), n.fits(s)); err != nil {
		return err
	}
	return do(ctx, s)
}

// classifies says whether what the net returns for a set are numbers of classes, for each
// example or each of its positions.
func (n *Net) classifies(s *Set) bool {
	switch n.config.Loss.(type) {
	case nil:
		return len(n.output) == 1 || len(n.output) > 1 && (s.positions > 0 || n.model.TakesIntegers())
	case losses.CrossEntropy:
		return len(n.output) > 0
	case losses.Joint, losses.Contrastive, losses.Cosine, losses.CTC:
		return false
	}
	return len(n.output) == 1
}

func (n *Net) predict(ctx context.Context, s *Set) (*Prediction, error) {
	size := plan.TestBatch(s.N, s.size)
	in := &Set{N: s.N, arrays: s.inputs()}
	f := n.prepare(fmt.Sprintf("predict/%s/%d", in.key(), size), func() (*hlo.Program, error) { return n.predictProgram(in, size) }, nil)
	outputs, err := n.runRows(ctx, in, size, f)
	if err != nil {
		return nil, err
	}
	result := &Prediction{Width: shapes.Make(dtypes.Float32, n.output...).Size(), Output: outputs[0].Data}
	width := result.Width
	if classes := n.classes(); n.classifies(s) && classes > 1 {
		for i := range len(result.Output) / classes {
			row, best := result.Output[i*classes:(i+1)*classes], 0
			for k, x := range row {
				if x != x {
					return nil, fmt.Errorf("fit: %s: number %d of the output for example %d of %s is NaN, so there is no most likely class: want weights and examples that are finite", n.name, i*classes%width+k, i*classes/width, s.Name)
				}
				if x > row[best] {
					best = k
				}
			}
			result.Classes = append(result.Classes, int32(best))
		}
	}
	return result, n.named(result)
}

// runRows runs a program of the net, such as predictProgram's, on size examples at a time. All
// of its results have a row for each example.
func (n *Net) runRows(ctx context.Context, in *Set, size int, f *future) ([]Tensor, error) {
	p, err := n.wait(ctx, f, nil)
	if err != nil {
		return nil, err
	}
	state, err := n.used()
	if err != nil {
		return nil, err
	}
	defer free(state...)
	var results []Tensor
	for done := 0; done < in.N; done += size {
		from := min(done, in.N-size)
		scalars, err := n.integers(0, from)
		if err != nil {
			return nil, err
		}
		out, err := p.Run(session.Call{Inputs: append(append(append([]*session.Array{}, state...), in.all()...), scalars...)})
		if err != nil {
			return nil, err
		}
		for i, a := range out {
			shape, err := a.Shape()
			if err != nil {
				return nil, err
			}
			row := shape.Size() / size
			if done == 0 {
				results = append(results, Tensor{Dims: append([]int{in.N}, shape.Dimensions[1:]...), Data: make([]float32, in.N*row)})
			}
			if err := during(ctx, nil, func() error { return a.Values(results[i].Data[from*row : (from+size)*row]) }); err != nil {
				return nil, err
			}
		}
		free(append(scalars, out...)...)
	}
	return results, nil
}

// predictProgram runs the net on size rows: variables, x, from → [size output…].
func (n *Net) predictProgram(s *Set, size int) (*hlo.Program, error) {
	return n.trace("predict", func(t *trace) []*Node {
		variables := t.variables()
		sources := t.sources(s)
		from := Parameter(t.g, "from", shapes.Make(dtypes.Int32))
		b := t.gather(size, s, sources, window(from, size, t.scalar(int32(0))))
		t.set(variables)
		return []*Node{t.apply(b.in, false)}
	})
}
