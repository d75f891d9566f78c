package hlo

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// writtenNorm writes the operations of a batch normalization; see
// Builder.WriteNorms. Sums are float32, or float64 where x is.
//
// XLA's own op is two sums of columns in each direction. XLA 0.11.2's CUDA compiler divides
// columns into parts only above 4,096 rows, adds up the parts of each sum with a separate
// kernel, and may read the array twice. Here the parts are in the text, and the two sums are
// one operation.
//
// The factor and the summand of x are vectors of the features, computed before the operations
// on all elements, so that XLA need not keep other arrays for them.
type writtenNorm struct {
	f     *Function
	shape shapes.Shape // of x, with the type of the sums
	axis  int          // of the features
}

// writtenNorm takes operands to the type of the sums. back says whether it is the backward pass.
func (f *Function) writtenNorm(in []*value, axis int) (n writtenNorm, wide []*value, back func(*value) *value) {
	kind := in[0].shape.DType
	back = func(v *value) *value { return v }
	if kind != dtypes.Float32 && kind != dtypes.Float64 {
		wide = make([]*value, len(in))
		for i, v := range in {
			wide[i] = f.convert(v, dtypes.Float32)
		}
		in, back = wide, func(v *value) *value { return f.convert(v, kind) }
	}
	return writtenNorm{f, in[0].shape, axis}, in, back
}

// training is what BatchNormForTraining returns.
func (n writtenNorm) training(x, scale, offset *value, epsilon float32) (y, mean, variance *value) {
	sum, squares := n.sums(x, n.mul(x, x))
	mean = n.mul(sum, n.share())
	variance = n.op(compute.OpTypeMax, n.sub(n.mul(squares, n.share()), n.mul(mean, mean)), n.number(0))
	factor := n.mul(scale, n.rstd(variance, epsilon))
	shift := n.sub(offset, n.mul(mean, factor))
	return n.add(n.mul(x, n.spread(factor)), n.spread(shift)), mean, variance
}

// gradient is what BatchNormGradient returns.
func (n writtenNorm) gradient(x, scale, mean, variance, g *value, epsilon float32) (gradX, gradScale, gradOffset *value) {
	rstd := n.rstd(variance, epsilon)
	gradOffset, product := n.sums(g, n.mul(g, n.sub(x, n.spread(mean))))
	gradScale = n.mul(product, rstd)
	// scale·rstd · (g - Σg/n - (x-mean)·rstd · gradScale/n), x and g once each
	factor := n.mul(scale, rstd)
	slope := n.mul(n.mul(n.mul(gradScale, n.share()), rstd), factor)
	shift := n.sub(n.mul(mean, slope), n.mul(n.mul(gradOffset, n.share()), factor))
	gradX = n.add(n.sub(n.mul(g, n.spread(factor)), n.mul(x, n.spread(slope))), n.spread(shift))
	return gradX, gradScale, gradOffset
}

// rows is how many numbers a feature has.
func (n writtenNorm) rows() int { return n.shape.Size() / max(1, n.shape.Dimensions[n.axis]) }

func (n writtenNorm) share() *value { return n.number(1 / float64(max(1, n.rows()))) }

// sums adds up x and y over all but the features, in one go.
func (n writtenNorm) sums(x, y *value) (a, b *value) {
	rows, last := n.rows(), n.shape.Rank()-1
	if k := normParts(rows); n.axis == last && k > 1 {
		cut := shapes.Shape{DType: n.shape.DType, Dimensions: []int{k, rows / k, n.shape.Dimensions[last]}}
		x, y = n.reduce(n.f.reshape(x, cut), n.f.reshape(y, cut), []int{1})
		return n.reduce(x, y, []int{0})
	}
	var axes []int
	for i := range n.shape.Rank() {
		if i != n.axis {
			axes = append(axes, i)
		}
	}
	return n.reduce(x, y, axes)
}

// normParts is how many equal parts rows are cut into. A part has the 128 rows
// that a block of XLA's kernels for sums of columns takes at once, or more.
func normParts(rows int) int {
	for k := min(rows/128, 256); k > 1; k-- {
		if rows%k == 0 {
			return k
		}
	}
	return 1
}

// reduce adds up two arrays of one shape.
func (n writtenNorm) reduce(x, y *value, axes []int) (a, b *value) {
	if len(axes) == 0 {
		return x, y
	}
	to := shapes.Shape{DType: x.shape.DType}
	for i, d := range x.shape.Dimensions {
		if !slices.Contains(axes, i) {
			to.Dimensions = append(to.Dimensions, d)
		}
	}
	zero := n.number(0)
	out := n.f.add(&statement{
		op: "stablehlo.reduce", form: formGeneric, in: []*value{x, y, zero, zero},
		attrs: "dimensions = " + array(axes), body: pairBody(x.shape.DType), cost: reduceCost(x.shape, to).plus(reduceCost(y.shape, to)),
	}, to, to)
	return out[0], out[1]
}

// pairBody adds two pairs of numbers.
func pairBody(dtype dtypes.DType) string {
	t := string(appendType(nil, shapes.Shape{DType: dtype}))
	return fmt.Sprintf("{\n^bb0(%%a: %[1]s, %%b: %[1]s, %%c: %[1]s, %%d: %[1]s):\n  %%e = stablehlo.add %%a, %%c : %[1]s\n"+
		"  %%f = stablehlo.add %%b, %%d : %[1]s\n  stablehlo.return %%e, %%f : %[1]s, %[1]s\n}", t)
}

func (n writtenNorm) rstd(variance *value, epsilon float32) *value {
	v := n.add(variance, n.number(float64(epsilon)))
	op := unaryOps[compute.OpTypeRsqrt]
	return n.f.one(&statement{op: op.text, in: []*value{v}, cost: elementwiseCost(v.shape, op.transcendental)}, v.shape)
}

// spread has a vector of the features for all elements.
func (n writtenNorm) spread(v *value) *value { return n.f.broadcast(v, n.shape, []int{n.axis}) }

func (n writtenNorm) number(x float64) *value {
	literal, shape, err := denseLiteral([]float32{float32(x)}, nil)
	if n.shape.DType == dtypes.Float64 {
		literal, shape, err = denseLiteral([]float64{x}, nil)
	}
	if err != nil {
		panic(err) // numbers have literals
	}
	return n.f.constant(literal, shape)
}

func (n writtenNorm) add(a, b *value) *value { return n.op(compute.OpTypeAdd, a, b) }
func (n writtenNorm) sub(a, b *value) *value { return n.op(compute.OpTypeSub, a, b) }
func (n writtenNorm) mul(a, b *value) *value { return n.op(compute.OpTypeMul, a, b) }

// op is an operation on elements of arrays of one shape; b may be a number.
func (n writtenNorm) op(t compute.OpType, a, b *value) *value {
	in := []*value{a, n.f.spread(b, a.shape.Dimensions)}
	return n.f.one(&statement{op: binaryOps[t].text, in: in, cost: elementwiseCost(a.shape, false)}, a.shape)
}
