package hlo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

// reduction is an op that joins two elements, and the element that leaves
// every other one as it is.
type reduction struct {
	text    string
	initial number
}

var reductions = map[compute.OpType]reduction{
	compute.OpTypeReduceSum:        {"stablehlo.add", zero},
	compute.OpTypeReduceProduct:    {"stablehlo.multiply", one},
	compute.OpTypeReduceMax:        {"stablehlo.maximum", lowest},
	compute.OpTypeReduceMin:        {"stablehlo.minimum", highest},
	compute.OpTypeReduceBitwiseAnd: {"stablehlo.and", ones},
	compute.OpTypeReduceBitwiseOr:  {"stablehlo.or", zero},
	compute.OpTypeReduceBitwiseXor: {"stablehlo.xor", zero},
	compute.OpTypeReduceLogicalAnd: {"stablehlo.and", ones},
	compute.OpTypeReduceLogicalOr:  {"stablehlo.or", zero},
	compute.OpTypeReduceLogicalXor: {"stablehlo.xor", zero},
}

// kinds are the reductions that GoMLX chooses by a value.
var kinds = map[compute.ReduceOpType]reduction{
	compute.ReduceOpSum:     reductions[compute.OpTypeReduceSum],
	compute.ReduceOpProduct: reductions[compute.OpTypeReduceProduct],
	compute.ReduceOpMax:     reductions[compute.OpTypeReduceMax],
	compute.ReduceOpMin:     reductions[compute.OpTypeReduceMin],
}

// body writes a region that joins two scalars. Its names cannot meet those of
// the text around it, which are numbers.
func (r reduction) body(dtype dtypes.DType) string {
	t := string(appendType(nil, shapes.Shape{DType: dtype}))
	return "{\n^bb0(%a: " + t + ", %b: " + t + "):\n  %c = " + r.text + " %a, %b : " + t + "\n  stablehlo.return %c : " + t + "\n}"
}

func (f *Function) reduce(t compute.OpType, x compute.Value, axes []int) (compute.Value, error) {
	in, err := f.operands(t.String(), x)
	if err != nil {
		return nil, err
	}
	from := in[0].shape
	if err := checkAxes(t.String(), from, axes); err != nil {
		return nil, err
	}
	logical := strings.HasPrefix(t.String(), "ReduceLogical")
	bitwise := strings.HasPrefix(t.String(), "ReduceBitwise")
	if logical && from.DType != dtypes.Bool || bitwise && !from.DType.IsInt() {
		return nil, fmt.Errorf("hlo: %s: got %s, which cannot be reduced so", t, from)
	}
	if len(axes) == 0 {
		axes = make([]int, from.Rank())
		for i := range axes {
			axes[i] = i
		}
	}
	if len(axes) == 0 {
		return in[0], nil
	}
	axes = slices.Sorted(slices.Values(axes))
	shape, err := infer(t.String(), func() (shapes.Shape, error) { return shapeinference.Reduce(from, axes) })
	if err != nil {
		return nil, err
	}
	r := reductions[t]
	initial, err := f.number(t.String(), r.initial, from.DType)
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.reduce", form: formReduce, in: []*value{in[0], initial},
		attrs: " applies " + r.text + " across dimensions = " + list(axes),
		cost:  reduceCost(from, shape),
	}, shape), nil
}

// The reductions of compute.Function: they join the elements along axes, which go; no axes
// mean all. Max and Min are NaN if an element is.

func (f *Function) ReduceSum(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceSum, x, axes)
}
func (f *Function) ReduceProduct(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceProduct, x, axes)
}
func (f *Function) ReduceMax(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMax, x, axes)
}
func (f *Function) ReduceMin(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMin, x, axes)
}
func (f *Function) ReduceBitwiseAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseAnd, x, axes)
}
func (f *Function) ReduceBitwiseOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseOr, x, axes)
}
func (f *Function) ReduceBitwiseXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseXor, x, axes)
}
func (f *Function) ReduceLogicalAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalAnd, x, axes)
}
func (f *Function) ReduceLogicalOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalOr, x, axes)
}
func (f *Function) ReduceLogicalXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalXor, x, axes)
}

// ArgMinMax returns where the least (or greatest) element along axis is: the
// first one, or a NaN if there is one. A negative axis counts from the end.
func (f *Function) ArgMinMax(x compute.Value, axis int, outputDType dtypes.DType, isMin bool) (compute.Value, error) {
	in, err := f.operands("ArgMinMax", x)
	if err != nil {
		return nil, err
	}
	from := in[0].shape
	if axis < 0 {
		axis += from.Rank()
	}
	shape, err := infer("ArgMinMax", func() (shapes.Shape, error) {
		if from.DType == dtypes.Bool { // GoMLX's inference refuses them, and its layers use them
			from.DType = dtypes.Uint8
		}
		return shapeinference.ArgMinMax(from, axis, outputDType)
	})
	from = in[0].shape
	if err != nil {
		return nil, err
	}
	direction, initial := "GT", lowest
	if isMin {
		direction, initial = "LT", highest
	}
	first, err := f.number("ArgMinMax", initial, from.DType)
	if err != nil {
		return nil, err
	}
	index, err := f.number("ArgMinMax", zero, outputDType)
	if err != nil {
		return nil, err
	}
	results := f.add(&statement{
		op: "stablehlo.reduce", form: formGeneric,
		in:    []*value{in[0], f.iota(outputDType, from.Dimensions, axis), first, index},
		attrs: "dimensions = " + array([]int{axis}),
		body:  argBody(from.DType, outputDType, direction),
		cost:  reduceCost(from, shape),
	}, shapes.Shape{DType: from.DType, Dimensions: shape.Dimensions}, shape)
	return results[1], nil
}

// argBody keeps the pair (value, index) that comes first in the direction.
// For floats, a NaN comes before all: it is the one that differs from itself.
func argBody(dtype, indexDType dtypes.DType, direction string) string {
	v := string(appendType(nil, shapes.Shape{DType: dtype}))
	i := string(appendType(nil, shapes.Shape{DType: indexDType}))
	kind := compareType(dtype, false)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	fmt.Fprintf(&b, "{\n^bb0(%%a: %s, %%i: %s, %%b: %s, %%j: %s):\n", v, i, v, i)
	line("%%before = stablehlo.compare %s, %%a, %%b, %s : (%s, %s) -> tensor<i1>", direction, kind, v, v)
	line("%%equal = stablehlo.compare EQ, %%a, %%b, %s : (%s, %s) -> tensor<i1>", kind, v, v)
	wins, tie := "%before", "%equal"
	if dtype.IsFloat() {
		line("%%an = stablehlo.compare NE, %%a, %%a, %s : (%s, %s) -> tensor<i1>", kind, v, v)
		line("%%bn = stablehlo.compare NE, %%b, %%b, %s : (%s, %s) -> tensor<i1>", kind, v, v)
		line("%%bnot = stablehlo.not %%bn : tensor<i1>")
		line("%%only = stablehlo.and %%an, %%bnot : tensor<i1>")
		line("%%both = stablehlo.and %%an, %%bn : tensor<i1>")
		line("%%wins = stablehlo.or %%before, %%only : tensor<i1>")
		line("%%tie = stablehlo.or %%equal, %%both : tensor<i1>")
		wins, tie = "%wins", "%tie"
	}
	line("%%lesser = stablehlo.minimum %%i, %%j : %s", i)
	line(`%%else = "stablehlo.select"(%s, %%lesser, %%j) : (tensor<i1>, %s, %s) -> %s`, tie, i, i, i)
	line(`%%index = "stablehlo.select"(%s, %%i, %%else) : (tensor<i1>, %s, %s) -> %s`, wins, i, i, i)
	line(`%%value = "stablehlo.select"(%s, %%a, %%b) : (tensor<i1>, %s, %s) -> %s`, wins, v, v, v)
	line("stablehlo.return %%value, %%index : %s, %s", v, i)
	b.WriteString("}")
	return b.String()
}

// padding writes pairs of paddings as a constant matrix.
func padding(pairs [][2]int) string {
	rows := make([]string, len(pairs))
	for i, p := range pairs {
		rows[i] = "[" + strconv.Itoa(p[0]) + ", " + strconv.Itoa(p[1]) + "]"
	}
	return "dense<[" + strings.Join(rows, ", ") + "]> : tensor<" + strconv.Itoa(len(pairs)) + "x2xi64>"
}

// ReduceWindow reduces each window of x. Strides default to the window's
// dimensions, dilations to 1, paddings to none.
func (f *Function) ReduceWindow(x compute.Value, kind compute.ReduceOpType,
	windowDims, strides, inputDilations, windowDilations []int, paddings [][2]int) (compute.Value, error) {
	in, err := f.operands("ReduceWindow", x)
	if err != nil {
		return nil, err
	}
	r, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("hlo: ReduceWindow: got reduction %s, want Sum, Product, Max or Min", kind)
	}
	from := in[0].shape
	if len(windowDims) == 0 {
		windowDims = repeat(1, from.Rank())
	}
	shape, err := infer("ReduceWindow", func() (shapes.Shape, error) {
		return shapeinference.ReduceWindow(from, windowDims, strides, inputDilations, windowDilations, paddings)
	})
	if err != nil {
		return nil, err
	}
	if len(strides) == 0 {
		strides = windowDims
	}
	initial, err := f.number("ReduceWindow", r.initial, from.DType)
	if err != nil {
		return nil, err
	}
	attrs := "window_dimensions = " + array(windowDims) + ", window_strides = " + array(strides)
	if inputDilations != nil {
		attrs += ", base_dilations = " + array(inputDilations)
	}
	if windowDilations != nil {
		attrs += ", window_dilations = " + array(windowDilations)
	}
	if len(paddings) > 0 {
		attrs += ", padding = " + padding(paddings)
	}
	return f.one(&statement{
		op: "stablehlo.reduce_window", form: formGeneric, in: []*value{in[0], initial},
		attrs: attrs, body: r.body(from.DType), cost: windowCost(from, shape, windowDims),
	}, shape), nil
}

// SelectAndScatterMax adds each element of source to the place of the greatest
// element of its window of x: the gradient of max pooling.
func (f *Function) SelectAndScatterMax(x, source compute.Value, windowDims, strides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMax, "GE", x, source, windowDims, strides, paddings)
}

// SelectAndScatterMin is the same for the least element.
func (f *Function) SelectAndScatterMin(x, source compute.Value, windowDims, strides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMin, "LE", x, source, windowDims, strides, paddings)
}

func (f *Function) selectAndScatter(t compute.OpType, direction string, x, source compute.Value, windowDims, strides []int, paddings [][2]int) (compute.Value, error) {
	in, err := f.operands(t.String(), x, source)
	if err != nil {
		return nil, err
	}
	shape := in[0].shape
	windows, err := infer(t.String(), func() (shapes.Shape, error) {
		return shapeinference.ReduceWindow(shape, windowDims, strides, nil, nil, paddings)
	})
	if err != nil {
		return nil, err
	}
	if !equalShapes([]shapes.Shape{windows}, []shapes.Shape{in[1].shape}) {
		return nil, fmt.Errorf("hlo: %s: got source %s, want %s: one element for each window", t, in[1].shape, windows)
	}
	if len(windowDims) == 0 {
		windowDims = repeat(1, shape.Rank())
	}
	if len(strides) == 0 {
		strides = windowDims
	}
	initial, err := f.number(t.String(), zero, shape.DType)
	if err != nil {
		return nil, err
	}
	attrs := "window_dimensions = " + array(windowDims) + ", window_strides = " + array(strides)
	if len(paddings) > 0 {
		attrs += ", padding = " + padding(paddings)
	}
	e := string(appendType(nil, shapes.Shape{DType: shape.DType}))
	pick := "{\n^bb0(%a: " + e + ", %b: " + e + "):\n  %c = stablehlo.compare " + direction + ", %a, %b, " + compareType(shape.DType, false) +
		" : (" + e + ", " + e + ") -> tensor<i1>\n  stablehlo.return %c : tensor<i1>\n}"
	return f.one(&statement{
		op: "stablehlo.select_and_scatter", form: formGeneric, in: []*value{in[0], in[1], initial},
		attrs: attrs, body: pick + ", " + reductions[compute.OpTypeReduceSum].body(shape.DType),
		cost: windowCost(shape, windows, windowDims).plus(Cost{FLOPs: float64(windows.Size()), Bytes: bytesOf(windows)}),
	}, shape), nil
}
