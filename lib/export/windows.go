package export

import (
	"slices"

	"github.com/gomlx/compute"

	"gaiden/lib/portable"
)

// convolve is a Conv between transposes: ONNX has channels before the spatial axes.
func convolve(g *graph) []string {
	order := func(fields ...string) (axes []int) {
		for _, name := range fields {
			x := g.field(2, name)
			if l, is := x.([]any); is {
				axes = append(axes, g.intsOf(l)...)
			} else if x != nil {
				axes = append(axes, g.intsOf([]any{x})...)
			} else {
				axes = append(axes, 0)
			}
		}
		return axes
	}
	if g.integer(8) > 1 {
		g.fail("with groups of examples")
	}
	images, kernel, out := order("InputBatch", "InputChannels", "InputSpatial"), order("KernelOutputChannels", "KernelInputChannels", "KernelSpatial"), order("OutputBatch", "OutputChannels", "OutputSpatial")
	spatial := len(images) - 2
	x := g.transpose(g.in(0), images)
	dims := permuted(g.dims(g.number(0)), images)
	dilations := g.filled(5, spatial)
	for i, step := range dilations {
		x, dims = g.spread(x, dims, 2+i, step, g.like(0))
	}
	pads := g.pairs(4, spatial)
	attributes := map[string]any{"strides": g.filled(3, spatial), "dilations": g.filled(6, spatial), "group": max(1, g.integer(7))}
	flat := make([]int, 2*spatial)
	negative := false
	for i, p := range pads {
		flat[i], flat[spatial+i] = p[0], p[1]
		negative = negative || p[0] < 0 || p[1] < 0
	}
	if negative { // which Conv does not take
		all := append(append([]int{0, 0}, flat[:spatial]...), append([]int{0, 0}, flat[spatial:]...)...)
		x = g.do("Pad", map[string]any{"mode": "constant"}, x, g.integers(all...), g.like(0))
	} else {
		attributes["pads"] = flat
	}
	y := g.do("Conv", attributes, x, g.transpose(g.in(1), kernel))
	return one(g.transpose(y, inverse(out)))
}

// permuted are dimensions in another order.
func permuted(dims []portable.Dim, order []int) []portable.Dim {
	l := make([]portable.Dim, len(dims))
	for i, axis := range order {
		l[i] = dims[axis]
	}
	return l
}

// inverse is the order that undoes one.
func inverse(order []int) []int {
	l := make([]int, len(order))
	for i, axis := range order {
		l[axis] = i
	}
	return l
}

// reduceWindow is a pool. Its spatial axes are those along which windows are longer than 1 or
// move; if the others are two, they are where ONNX wants them, and else they are joined.
func reduceWindow(g *graph) []string {
	dims, out := g.dims(g.number(0)), g.dims(g.op.Out[0])
	rank := len(dims)
	window, strides, pads := g.ints(2), g.filled(3, rank), g.pairs(6, rank)
	if len(g.ints(3)) == 0 {
		strides = slices.Clone(window) // as package compute has it
	}
	within, dilations := g.filled(4, rank), g.filled(5, rank)
	var others, spatial []int
	for i := range rank {
		if within[i] != 1 {
			g.fail("with spread inputs")
		}
		if window[i] == 1 && strides[i] == 1 && pads[i] == [2]int{} {
			others = append(others, i)
		} else {
			spatial = append(spatial, i)
		}
	}
	if len(spatial) == 0 {
		return one(g.in(0))
	}
	order := append(slices.Clone(others), spatial...)
	x := g.transpose(g.in(0), order)
	inside := permuted(dims, order)[len(others):]
	if len(others) != 2 {
		joined := portable.Dim{B: 1}
		for _, axis := range others {
			d := dims[axis]
			joined = portable.Dim{A: joined.A*d.B + joined.B*d.A, B: joined.B * d.B} // n is the length of one axis at most
		}
		x = g.reshape(x, append([]portable.Dim{joined, {B: 1}}, inside...))
	}
	kernel, steps, flat, dilated := []int{}, []int{}, make([]int, 2*len(spatial)), []int{}
	size, wide := 1, false
	for i, axis := range spatial {
		kernel, steps, dilated = append(kernel, window[axis]), append(steps, strides[axis]), append(dilated, dilations[axis])
		flat[i], flat[len(spatial)+i] = pads[axis][0], pads[axis][1]
		size, wide = size*window[axis], wide || dilations[axis] != 1
	}
	attributes := map[string]any{"kernel_shape": kernel, "strides": steps, "pads": flat}
	if !g.kind(g.op.Out[0]).IsFloat() {
		g.fail("for integers")
	}
	var y string
	switch kind := compute.ReduceOpType(g.integer(1)); kind {
	case compute.ReduceOpMax, compute.ReduceOpMin:
		attributes["dilations"] = dilated
		if kind == compute.ReduceOpMin {
			x = g.do("Neg", nil, x)
		}
		if y = g.do("MaxPool", attributes, x); kind == compute.ReduceOpMin {
			y = g.do("Neg", nil, y)
		}
	case compute.ReduceOpSum:
		if wide {
			g.fail("of sums with dilations")
		}
		attributes["count_include_pad"] = 1
		y = g.do("Mul", nil, g.do("AveragePool", attributes, x), g.like(float64(size)))
	default:
		g.fail("of products")
	}
	if len(others) != 2 {
		y = g.reshape(y, permuted(out, order))
	}
	return one(g.transpose(y, inverse(order)))
}
