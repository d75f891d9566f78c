package fit

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// The gradients of float16 are those of the loss multiplied by a scale, for small ones would
// become 0. As PyTorch's GradScaler does, a step whose gradients are not finite is left out and
// halves the scale, and goodSteps others in a row double it.

// lossScale is the name of a variable of three numbers: the scale divided by firstScale, less 1;
// the finite steps in a row; and the steps that were left out. They begin with 0.
const lossScale = "loss_scale"

var lossScaleShape = shapes.Make(dtypes.Float32, 3)

const (
	firstScale = 65536
	leastScale = 1.0 / 256
	goodSteps  = 2000
)

// narrows says whether a net computes in floats that are narrower than float32.
func (c Config) narrows() bool { return c.BF16 || c.F16 }

// float is the type of the floats that a net computes in.
func (c Config) float() dtypes.DType {
	switch {
	case c.BF16:
		return dtypes.BFloat16
	case c.F16:
		return dtypes.Float16
	}
	return dtypes.Float32
}

// scaleOf is the index of the variable lossScale, its parts, and the scale; -1: there is none.
func (t *trace) scaleOf(variables []*Node) (i int, parts [3]*Node, scale *Node) {
	i = slices.IndexFunc(t.net.layout.variables, func(v slot) bool { return v.name == lossScale })
	if i >= 0 {
		for k := range parts {
			parts[k] = Reshape(Slice(variables[i], AxisRange(k, k+1)))
		}
		scale = MulScalar(AddScalar(parts[0], 1), firstScale)
	}
	return i, parts, scale
}

// scaled is a loss, multiplied by the scale where there is one.
func (t *trace) scaled(loss *Node, variables []*Node) *Node {
	if i, _, scale := t.scaleOf(variables); i >= 0 {
		return Mul(loss, scale)
	}
	return loss
}

// unscale divides gradients by the scale, and decides whether the step is left out.
func (t *trace) unscale(f *stepResult) {
	at, parts, scale := t.scaleOf(f.variables)
	if at < 0 {
		return
	}
	wrong := t.scalar(float32(0))
	for i, g := range f.gradients {
		wrong = Max(wrong, t.anyNotFinite(g))
		f.gradients[i] = Div(g, scale)
	}
	zero := t.scalar(float32(0))
	skip := GreaterThan(wrong, zero)
	good := AddScalar(parts[1], 1)
	grows := GreaterOrEqual(good, t.scalar(float32(t.net.growthInterval())))
	next := Where(skip, MaxScalar(MulScalar(scale, 0.5), leastScale), Where(grows, MulScalar(scale, 2), scale))
	f.variables = slices.Clone(f.variables)
	f.variables[at] = Stack([]*Node{AddScalar(DivScalar(next, firstScale), -1), Where(LogicalOr(skip, grows), zero, good), Add(parts[2], wrong)}, 0)
	f.skip, f.skipped = skip, parts[2]
}

// growthInterval is goodSteps, but for a test.
func (n *Net) growthInterval() int {
	if n.growth > 0 {
		return n.growth
	}
	return goodSteps
}
