package tiling

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/session"
)

// Mark is how far from exact an operation may be whose products' factors are rounded to
// a type. TF32 rounds a factor by 2⁻¹² on average and bfloat16 by 2⁻⁹: outputs of
// all ops that were compared on an H200 are off by 5e-4 at most, and in bfloat16 by
// 2.5e-3. To leave out one of 1,000 columns is an error of 3e-2.
func Mark(compute dtypes.DType) float64 {
	if compute == dtypes.BFloat16 {
		return 2e-2
	}
	return 2e-3
}

// changed is how many times as far a change of weights may be: Adam and AdaDelta divide
// a gradient by its size, and with that what is nearly 0 counts as much as the rest.
const changed = 5

// chance is how many elements of an output of choices may differ in any case: where there are
// few, one is a large share.
const chance = 3

// Distance is how far an operation's outputs are from those of its plain form with exact
// products.
type Distance struct {
	// Outputs are their errors: the norm of the difference over the norm of what is
	// right, or, of a choice (see Form.Choices), the share of elements that differ.
	Outputs []float64 `json:"outputs"`
	// Changes are, of outputs that take an input's place, the errors over how far the
	// right output is from that input: 1 is a kernel that did nothing. One that is to stay
	// as it was is not among them: its error says all.
	Changes map[int]float64 `json:"changes,omitempty"`
	Mark    float64         `json:"mark"`
}

// Wrong says whether the numbers are others, and not only rounded otherwise.
func (d Distance) Wrong() bool {
	over := func(mark float64) func(float64) bool { return func(e float64) bool { return !(e <= mark) } }
	return slices.ContainsFunc(d.Outputs, over(d.Mark)) || slices.ContainsFunc(slices.Collect(maps.Values(d.Changes)), over(changed*d.Mark))
}

func (d Distance) String() string {
	var w []string
	for _, e := range d.Outputs {
		w = append(w, fmt.Sprintf("%.1e", e))
	}
	s := "off by " + strings.Join(w, " ")
	if len(d.Changes) > 0 {
		s += fmt.Sprintf(", of changes by %.1e", slices.Max(slices.Collect(maps.Values(d.Changes))))
	}
	return s
}

// Compare does the form's operation twice on the session's device, from the inputs that
// Put has made: in its plain form with exact products, and with the kernel of op. It is
// one program, whose results are a few numbers: outputs may be gigabytes.
func (f Form) Compare(s *session.Session, op kernels.Op, in []*session.Array) (Distance, error) {
	d := Distance{Mark: Mark(f.Compute)}
	p, err := f.comparison(lower.TargetOf(s.Welcome()), op)
	if err != nil {
		return d, err
	}
	x, err := s.Compile(p, session.Options{Origin: "tiling"})
	if err != nil {
		return d, err
	}
	out, err := x.Run(session.Call{Inputs: in})
	if err != nil {
		return d, err
	}
	shape, err := out[0].Shape()
	if err != nil {
		return d, err
	}
	sums := make([]float64, shape.Size())
	if err := out[0].Values(sums); err != nil {
		return d, err
	}
	d.Outputs, d.Changes = f.errors(sums)
	return d, nil
}

// Numbers of an output's row in what a comparison gives: sums of squares, or counts.
const (
	off = iota // of the difference
	size
	way // from the input whose place it takes
	columns
)

// comparison is Compare's program: inputs → [outputs columns].
func (f Form) comparison(target lower.Target, op kernels.Op) (*hlo.Program, error) {
	return Write("compare "+op.Key(), target, hlo.DefaultPrecision, f.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
		g := in[0].Graph()
		b.Precision = hlo.HighestPrecision
		want := f.Build(fused.Ops{}, in)
		b.Precision = hlo.DefaultPrecision
		// What is right is there before the kernel begins, which might write where it must not.
		held := OptimizationBarriers(append(slices.Clone(in), want...)...)
		got := f.with(b, op, func(o fused.Ops) []*Node { return f.Build(o, held[:len(in)]) })
		want = held[len(in):]
		var rows []*Node
		for i := range want {
			row := []*Node{off: nil, size: nil, way: Scalar(g, dtypes.Float64, 0)}
			w, y := ConvertDType(want[i], dtypes.Float64), ConvertDType(got[i], dtypes.Float64)
			if f.chooses(i) {
				row[off] = ReduceAllSum(ConvertDType(NotEqual(y, w), dtypes.Float64))
				row[size] = Scalar(g, dtypes.Float64, w.Shape().Size())
			} else {
				row[off], row[size] = squares(Sub(y, w)), squares(w)
			}
			if from, is := f.Chain[i]; is {
				row[way] = squares(Sub(w, ConvertDType(held[from], dtypes.Float64)))
			}
			rows = append(rows, Stack(row, 0))
		}
		return []*Node{Stack(rows, 0)}
	})
}

func squares(x *Node) *Node { return ReduceAllSum(Square(x)) }

func (f Form) chooses(output int) bool { return slices.Contains(f.Choices, output) }

// errors are the distances in what a comparison gave.
func (f Form) errors(sums []float64) (outputs []float64, changes map[int]float64) {
	changes = map[int]float64{}
	i := 0
	for row := range slices.Chunk(sums, columns) {
		switch {
		case f.chooses(i):
			outputs = append(outputs, max(0, row[off]-chance)/row[size])
		default:
			outputs = append(outputs, Over(row[off], row[size]))
		}
		if row[way] > 0 {
			changes[i] = Over(row[off], row[way])
		}
		i++
	}
	return outputs, changes
}

// Over is a norm over another, of sums of squares; where it is no number, the largest that
// JSON has a word for.
func Over(off, size float64) float64 {
	e := math.Sqrt(off / max(size, 1e-30))
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return math.MaxFloat64
	}
	return e
}
