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

// DotGeneral multiplies lhs and rhs and sums over the contracting axes. The
// result has the batch axes, then the other axes of lhs, then those of rhs.
//
// Sums are kept in config.AccumulatorDType, which defaults to the operands'
// type; XLA sums float16 and bfloat16 in float32 and 8-bit integers in int32
// by itself, and for other types the operands are converted first. The result
// is of config.OutputDType, which defaults to the operands' type.
func (f *Function) DotGeneral(lhs compute.Value, lhsContracting, lhsBatch []int,
	rhs compute.Value, rhsContracting, rhsBatch []int, config compute.DotGeneralConfig) (compute.Value, error) {
	in, err := f.operands("DotGeneral", lhs, rhs)
	if err != nil {
		return nil, err
	}
	shape, err := infer("DotGeneral", func() (shapes.Shape, error) {
		return shapeinference.DotGeneral(in[0].shape, lhsContracting, lhsBatch, in[1].shape, rhsContracting, rhsBatch, config)
	})
	if err != nil {
		return nil, err
	}
	if err := writable("DotGeneral", shape); err != nil {
		return nil, err
	}
	from := in[0].shape.DType
	sum := config.AccumulatorDType
	if sum == dtypes.InvalidDType {
		sum = from
	}
	if _, ok := elementTypes[sum]; !ok {
		return nil, fmt.Errorf("hlo: DotGeneral: got accumulator type %s, which is not an element type of XLA", sum)
	}
	wide := from.IsFloat() && from.Bits() <= 16 && sum == dtypes.Float32 || from.IsInt() && from.Bits() <= 8 && sum == dtypes.Int32
	if sum != from && !wide {
		in[0], in[1] = f.convert(in[0], sum), f.convert(in[1], sum)
	}
	if sum == dtypes.Float32 && from == sum {
		if in, err = f.narrow("DotGeneral", in); err != nil {
			return nil, err
		}
	}
	depth := 1
	for _, axis := range lhsContracting {
		depth *= in[0].shape.Dimensions[axis]
	}
	var attrs string
	if len(lhsBatch) > 0 {
		attrs = ", batching_dims = " + list(lhsBatch) + " x " + list(rhsBatch)
	}
	attrs += ", contracting_dims = " + list(lhsContracting) + " x " + list(rhsContracting)
	if f.builder.Precision == HighestPrecision && sum.IsFloat() {
		attrs += ", precision = [HIGHEST, HIGHEST]"
	}
	product := shapes.Shape{DType: sum, Dimensions: shape.Dimensions}
	if wide && from.IsFloat() && shape.DType == from { // a GPU rounds the sums as it writes them
		product.DType = from
	}
	out := f.one(&statement{
		op: "stablehlo.dot_general", form: formPlain, in: in, attrs: attrs,
		cost: dotCost(in[0].shape, in[1].shape, product, depth),
	}, product)
	if product.DType != shape.DType {
		out = f.convert(out, shape.DType)
	}
	return out, nil
}

// narrow is both operands of a float32 product as they were before they were converted,
// if that was from one type of 16 bits: two such numbers have a product that float32
// holds, and devices have faster units for them. The gradients of products, which GoMLX
// makes in float32, are of this kind.
func (f *Function) narrow(op string, in []*value) ([]*value, error) {
	out := make([]*value, len(in))
	for i, v := range in {
		if v.stmt == nil || v.stmt.op != "stablehlo.convert" {
			return in, nil
		}
		was := v.stmt.in[0]
		if t := was.shape.DType; !t.IsFloat() || t.Bits() != 16 || t != in[0].stmt.in[0].shape.DType {
			return in, nil
		}
		var err error
		if out[i], err = f.adopt(op, was); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ConvGeneral slides kernel over the spatial axes of input. Strides and
// dilations default to 1, paddings to none, group counts to 1.
func (f *Function) ConvGeneral(input, kernel compute.Value, axes compute.ConvolveAxesConfig,
	strides []int, paddings [][2]int, inputDilations, kernelDilations []int,
	channelGroups, batchGroups int) (compute.Value, error) {
	in, err := f.operands("ConvGeneral", input, kernel)
	if err != nil {
		return nil, err
	}
	spatial := max(0, in[0].shape.Rank()-2)
	c := convolution{
		input: in[0].shape, kernel: in[1].shape, axes: axes,
		strides: orOnes(strides, spatial), paddings: paddings,
		inputDilations: orOnes(inputDilations, spatial), kernelDilations: orOnes(kernelDilations, spatial),
		channelGroups: max(1, channelGroups), batchGroups: max(1, batchGroups),
	}
	if len(paddings) == 0 {
		c.paddings = make([][2]int, spatial)
	}
	c.output, err = infer("ConvGeneral", func() (shapes.Shape, error) {
		if c.input.DType != c.kernel.DType {
			return c.input, fmt.Errorf("got input %s and kernel %s, want one element type", c.input, c.kernel)
		}
		return shapeinference.ConvGeneral(c.input, c.kernel, c.axes, c.strides, c.paddings,
			c.inputDilations, c.kernelDilations, c.channelGroups, c.batchGroups)
	})
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.convolution", form: formCall, in: in,
		attrs: c.text(f.builder.Precision), cost: c.cost(),
	}, c.output), nil
}

func orOnes(ns []int, rank int) []int {
	if len(ns) == 0 {
		return repeat(1, rank)
	}
	return ns
}

// convolution holds the arguments of ConvGeneral, with the defaults filled in.
type convolution struct {
	input, kernel, output           shapes.Shape
	axes                            compute.ConvolveAxesConfig
	strides                         []int
	paddings                        [][2]int
	inputDilations, kernelDilations []int
	channelGroups, batchGroups      int
}

func (c *convolution) text(precision Precision) string {
	// dims says what each axis is for: [b, 0, 1, f].
	dims := func(rank, first int, firstName string, second int, secondName string, spatial []int) string {
		names := make([]string, rank)
		names[first], names[second] = firstName, secondName
		for i, axis := range spatial {
			names[axis] = strconv.Itoa(i)
		}
		return "[" + strings.Join(names, ", ") + "]"
	}
	rank, a := c.input.Rank(), c.axes
	var b strings.Builder
	b.WriteString(" dim_numbers = " + dims(rank, a.InputBatch, "b", a.InputChannels, "f", a.InputSpatial) +
		"x" + dims(rank, a.KernelInputChannels, "i", a.KernelOutputChannels, "o", a.KernelSpatial) +
		"->" + dims(rank, a.OutputBatch, "b", a.OutputChannels, "f", a.OutputSpatial))
	pairs := make([]string, len(c.paddings))
	for i, p := range c.paddings {
		pairs[i] = list(p[:])
	}
	b.WriteString(", window = {stride = " + list(c.strides) + ", pad = [" + strings.Join(pairs, ", ") + "]")
	if slices.Max(c.inputDilations) > 1 {
		b.WriteString(", lhs_dilate = " + list(c.inputDilations))
	}
	if slices.Max(c.kernelDilations) > 1 {
		b.WriteString(", rhs_dilate = " + list(c.kernelDilations))
	}
	fmt.Fprintf(&b, "} {batch_group_count = %d : i64, feature_group_count = %d : i64", c.batchGroups, c.channelGroups)
	if precision == HighestPrecision {
		b.WriteString(", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]")
	}
	b.WriteString("}")
	return b.String()
}
