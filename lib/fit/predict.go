package fit

import (
	"context"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// Predict runs the net on a set, or on examples in the form of Data.X.
func (n *Net) Predict(x any) (*Prediction, error) {
	ctx := n.context()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	s, is := x.(*Set)
	if !is {
		var err error
		if x, err = n.examples("Predict", x); err != nil {
			return nil, fmt.Errorf("%w, or a *fit.Set", err)
		}
		count, kind := length(x)
		size := shapes.Make(dtypes.Float32, n.model.Input...).Size()
		if count == 0 || count%size != 0 {
			return nil, n.shapeError("Predict", "examples", fmt.Sprintf("%d numbers", count),
				fmt.Sprintf("one or more times %d, for layer %s of %s takes %v", size, n.model.Names()[0], n.model.Name, n.model.Input))
		}
		if n.config.BF16 {
			if err := n.fitsBF16(roundedIntegers("Predict", x, size)); err != nil {
				return nil, err
			}
		}
		s = &Set{Name: "Predict", N: count / size, size: size}
		if s.x, err = n.session.Put(x, shapes.Make(kind, s.N, size), 0); err != nil {
			return nil, err
		}
		defer s.x.Finalize()
	} else if err := n.fits(s); err != nil {
		return nil, err
	}
	return n.predict(ctx, s)
}

// classifies says whether what the net returns for a set are numbers of classes, for each
// example or each of its positions.
func (n *Net) classifies(s *Set) bool {
	switch n.config.Loss.(type) {
	case nil:
		return len(n.output) == 1 || len(n.output) > 1 && (s.positions > 0 || n.model.TakesIntegers())
	case losses.CrossEntropy:
		return len(n.output) > 0
	}
	return len(n.output) == 1
}

func (n *Net) predict(ctx context.Context, s *Set) (*Prediction, error) {
	size := plan.TestBatch(s.N, s.size)
	kind, _ := s.x.Shape()
	f := n.prepare(fmt.Sprintf("predict/%s/%d", kind, size), func() (*hlo.Program, error) { return n.predictProgram(kind, size) }, nil)
	p, err := n.wait(ctx, f, nil)
	if err != nil {
		return nil, err
	}
	state, err := n.used()
	if err != nil {
		return nil, err
	}
	defer free(state...)
	width := shapes.Make(dtypes.Float32, n.output...).Size()
	result := &Prediction{Width: width, Output: make([]float32, s.N*width)}
	for done := 0; done < s.N; done += size {
		from := min(done, s.N-size)
		scalars, err := n.integers(0, from)
		if err != nil {
			return nil, err
		}
		out, err := p.Run(session.Call{Inputs: append(append(append([]*session.Array{}, state...), s.x), scalars...)})
		if err != nil {
			return nil, err
		}
		if err := during(ctx, nil, func() error { return out[0].Values(result.Output[from*width : (from+size)*width]) }); err != nil {
			return nil, err
		}
		free(append(scalars, out...)...)
	}
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
	return result, nil
}

// predictProgram runs the net on size rows: variables, x, from → [size output…].
func (n *Net) predictProgram(x shapes.Shape, size int) (*hlo.Program, error) {
	return n.trace("predict", func(t *trace) []*Node {
		variables := t.variables()
		source := Parameter(t.g, "x", x)
		from := Parameter(t.g, "from", shapes.Make(dtypes.Int32))
		pick := window(from, size, t.scalar(int32(0)))
		t.mark("data/gather")
		rows := pick(source)
		if rows.DType() == dtypes.Uint8 {
			rows = MulScalar(ConvertDType(rows, dtypes.Float32), 1.0/255)
		}
		t.set(variables)
		return []*Node{t.apply(Reshape(rows, append([]int{size}, n.model.Input...)...), false)}
	})
}
