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

// list writes axes or sizes as [1, 2].
func list(ns []int) string { return "[" + joined(ns) + "]" }

// array writes them as array<i64: 1, 2>.
func array(ns []int) string {
	if len(ns) == 0 {
		return "array<i64>"
	}
	return "array<i64: " + joined(ns) + ">"
}

func joined(ns []int) string {
	var b []byte
	for i, n := range ns {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

// Reshape gives x other dimensions, of the same size in all.
func (f *Function) Reshape(x compute.Value, dims ...int) (compute.Value, error) {
	in, err := f.operands("Reshape", x)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Reshape", func() (shapes.Shape, error) { return shapeinference.Reshape(in[0].shape, dims) })
	if err != nil {
		return nil, err
	}
	if err := writable("Reshape", shape); err != nil {
		return nil, err
	}
	return f.reshape(in[0], shape), nil
}

func (f *Function) reshape(x *value, shape shapes.Shape) *value {
	if slices.Equal(x.shape.Dimensions, shape.Dimensions) {
		return x
	}
	return f.one(&statement{op: "stablehlo.reshape", form: formPlain, in: []*value{x}}, shape)
}

// Transpose makes axis i of the result from axis permutation[i] of x.
func (f *Function) Transpose(x compute.Value, permutation ...int) (compute.Value, error) {
	in, err := f.operands("Transpose", x)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Transpose", func() (shapes.Shape, error) {
		return shapeinference.Transpose(in[0].shape, permutation)
	})
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.transpose", form: formPlain, in: in, attrs: ", dims = " + list(permutation),
		cost: movementCost(in[0].shape, shape),
	}, shape), nil
}

// BroadcastInDim makes axis i of x axis broadcastAxes[i] of the result; axes
// of length 1 are repeated, and the other axes of the result are new.
func (f *Function) BroadcastInDim(x compute.Value, shape shapes.Shape, broadcastAxes []int) (compute.Value, error) {
	in, err := f.operands("BroadcastInDim", x)
	if err != nil {
		return nil, err
	}
	if err := writable("BroadcastInDim", shape); err != nil {
		return nil, err
	}
	shape, err = infer("BroadcastInDim", func() (shapes.Shape, error) {
		if shape.DType != in[0].shape.DType {
			return shape, fmt.Errorf("got %s to become %s, want one element type", in[0].shape, shape)
		}
		return shape, shapeinference.BroadcastInDim(in[0].shape, shape, broadcastAxes, nil)
	})
	if err != nil {
		return nil, err
	}
	return f.broadcast(in[0], shape, broadcastAxes), nil
}

// Iota counts 0, 1, 2… along an axis.
func (f *Function) Iota(shape shapes.Shape, axis int) (compute.Value, error) {
	if err := f.open("Iota"); err != nil {
		return nil, err
	}
	if err := writable("Iota", shape); err != nil {
		return nil, err
	}
	if axis < 0 || axis >= shape.Rank() || shape.DType == dtypes.Bool {
		return nil, fmt.Errorf("hlo: Iota: got axis %d of %s, want an axis of a shape of numbers", axis, shape)
	}
	return f.iota(shape.DType, shape.Dimensions, axis), nil
}

func (f *Function) iota(dtype dtypes.DType, dims []int, axis int) *value {
	shape := shapes.Shape{DType: dtype, Dimensions: slices.Clone(dims)}
	return f.one(&statement{
		op: "stablehlo.iota dim = " + strconv.Itoa(axis), cost: Cost{Bytes: bytesOf(shape)},
	}, shape)
}

// Slice takes the elements from starts up to limits, in steps of strides;
// nil strides are ones.
func (f *Function) Slice(x compute.Value, starts, limits, strides []int) (compute.Value, error) {
	in, err := f.operands("Slice", x)
	if err != nil {
		return nil, err
	}
	if len(strides) == 0 {
		strides = repeat(1, in[0].shape.Rank())
	}
	shape, err := infer("Slice", func() (shapes.Shape, error) {
		return shapeinference.Slice(in[0].shape, starts, limits, strides)
	})
	if err != nil {
		return nil, err
	}
	return f.slice(in[0], shape, starts, limits, strides), nil
}

func (f *Function) slice(x *value, shape shapes.Shape, starts, limits, strides []int) *value {
	return f.one(&statement{
		op: "stablehlo.slice", form: formGeneric, in: []*value{x},
		attrs: "start_indices = " + array(starts) + ", limit_indices = " + array(limits) + ", strides = " + array(strides),
		cost:  movementCost(shape, shape),
	}, shape)
}

func repeat(n, times int) []int { return slices.Repeat([]int{n}, times) }

// Pad adds fillValue, a scalar, before, after and between the elements.
// Axes without a config stay as they are; negative padding cuts.
func (f *Function) Pad(x, fillValue compute.Value, axes ...compute.PadAxis) (compute.Value, error) {
	in, err := f.operands("Pad", x, fillValue)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Pad", func() (shapes.Shape, error) { return shapeinference.Pad(in[0].shape, axes...) })
	if err != nil {
		return nil, err
	}
	if fill := in[1].shape; !fill.IsScalar() || fill.DType != shape.DType {
		return nil, fmt.Errorf("hlo: Pad: got fill value %s, want a scalar of %s", fill, shape.DType)
	}
	low, high, interior := repeat(0, shape.Rank()), repeat(0, shape.Rank()), repeat(0, shape.Rank())
	for i, a := range axes {
		low[i], high[i], interior[i] = a.Start, a.End, a.Interior
	}
	s := &statement{
		op: "stablehlo.pad", form: formPlain, in: in,
		attrs: ", low = " + list(low) + ", high = " + list(high) + ", interior = " + list(interior),
		cost:  movementCost(in[0].shape, shape),
	}
	if isZero(in[1].literal) && !slices.ContainsFunc(slices.Concat(interior, low, high), func(n int) bool { return n < 0 }) && slices.Max(append(interior, 0)) == 0 {
		s.framed = low
	}
	return f.one(s, shape), nil
}

// isZero says whether a constant is one of zeros.
func isZero(literal string) bool {
	number, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(literal, "dense<"), ">"), 64)
	return err == nil && number == 0
}

// addFramed is the sum of two values in frames of zeros, if one begins on an axis where the other
// ends: both, one after the other, in one frame. The gradients of slices of an array are such.
func (f *Function) addFramed(a, b *value) (sum compute.Value, err error) {
	if a.stmt == nil || b.stmt == nil || a.stmt.framed == nil || b.stmt.framed == nil || !a.shape.Equal(b.shape) || a.home != f || b.home != f {
		return nil, nil
	}
	axis := -1
	for i, low := range a.stmt.framed {
		x, y := a.stmt.in[0].shape.Dimensions[i], b.stmt.in[0].shape.Dimensions[i]
		switch from := b.stmt.framed[i]; {
		case from == low && x == y:
		case axis < 0 && low+x == from:
			axis = i
		case axis < 0 && from+y == low:
			axis = i
			a, b = b, a
		default:
			return nil, nil
		}
	}
	if axis < 0 {
		return nil, nil
	}
	inner, err := f.Concatenate(axis, a.stmt.in[0], b.stmt.in[0])
	if err != nil || inner.(*value).shape.Equal(a.shape) {
		return inner, err
	}
	frame := make([]compute.PadAxis, a.shape.Rank())
	for i, low := range a.stmt.framed {
		frame[i] = compute.PadAxis{Start: low, End: a.shape.Dimensions[i] - low - inner.(*value).shape.Dimensions[i]}
	}
	return f.Pad(inner, a.stmt.in[1], frame...)
}

// Concatenate joins operands along an axis.
func (f *Function) Concatenate(axis int, operands ...compute.Value) (compute.Value, error) {
	in, err := f.operands("Concatenate", operands...)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Concatenate", func() (shapes.Shape, error) {
		return shapeinference.Concatenate(shapesOf(in), axis)
	})
	if err != nil {
		return nil, err
	}
	if len(in) == 1 {
		return in[0], nil
	}
	return f.one(&statement{
		op: "stablehlo.concatenate", form: formPlain, in: in, attrs: ", dim = " + strconv.Itoa(axis),
		cost: movementCost(shape, shape),
	}, shape), nil
}

// Reverse turns the order of the elements around along axes.
func (f *Function) Reverse(x compute.Value, axes ...int) (compute.Value, error) {
	in, err := f.operands("Reverse", x)
	if err != nil {
		return nil, err
	}
	shape := in[0].shape
	if err := checkAxes("Reverse", shape, axes); err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.reverse", in: in, attrs: ", dims = " + list(axes), cost: movementCost(shape, shape),
	}, shape), nil
}

// checkAxes reports an axis that shape does not have, or one named twice.
func checkAxes(op string, shape shapes.Shape, axes []int) error {
	for i, a := range axes {
		if a < 0 || a >= shape.Rank() {
			return fmt.Errorf("hlo: %s: got axis %d of %s, want 0 to %d", op, a, shape, shape.Rank()-1)
		}
		if slices.Contains(axes[:i], a) {
			return fmt.Errorf("hlo: %s: got axis %d twice in %v", op, a, axes)
		}
	}
	return nil
}

// Bitcast reads the bits of x as another type. Where the sizes differ, a last
// axis appears or goes.
func (f *Function) Bitcast(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	in, err := f.operands("Bitcast", x)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Bitcast", func() (shapes.Shape, error) {
		from := in[0].shape
		if elementTypes[dtype] == "" || dtype != from.DType && (dtype == dtypes.Bool || from.DType == dtypes.Bool || dtype.IsComplex() || from.DType.IsComplex()) {
			return from, fmt.Errorf("got %s to become %s, want integers and floats", from, dtype)
		}
		if dtype.Bits() > from.DType.Bits() && from.Rank() == 0 {
			return from, fmt.Errorf("got the scalar %s to become %s, want a last axis of %d", from, dtype, dtype.Bits()/from.DType.Bits())
		}
		return shapeinference.Bitcast(from, dtype)
	})
	if err != nil {
		return nil, err
	}
	if shape.DType == in[0].shape.DType {
		return in[0], nil
	}
	if err := writable("Bitcast", shape); err != nil {
		return nil, err
	}
	return f.one(&statement{op: "stablehlo.bitcast_convert", form: formPlain, in: in}, shape), nil
}

// DynamicSlice takes sliceDims elements from startIndices on: one scalar for
// each axis, or one vector. Starts are moved so that the slice fits.
func (f *Function) DynamicSlice(x compute.Value, startIndices []compute.Value, sliceDims []int) (compute.Value, error) {
	in, err := f.operands("DynamicSlice", append([]compute.Value{x}, startIndices...)...)
	if err != nil {
		return nil, err
	}
	shape, err := infer("DynamicSlice", func() (shapes.Shape, error) {
		return shapeinference.DynamicSlice(in[0].shape, sliceDims)
	})
	if err != nil {
		return nil, err
	}
	if err := writable("DynamicSlice", shape); err != nil {
		return nil, err
	}
	starts, err := f.starts("DynamicSlice", in[0].shape, in[1:])
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.dynamic_slice", form: formPlain, in: append(in[:1:1], starts...), attrs: ", sizes = " + list(sliceDims),
		cost: movementCost(shape, shape),
	}, shape), nil
}

// DynamicUpdateSlice writes update into x from startIndices on: one scalar for
// each axis, or one vector. Starts are moved so that the update fits.
func (f *Function) DynamicUpdateSlice(x, update compute.Value, startIndices []compute.Value) (compute.Value, error) {
	in, err := f.operands("DynamicUpdateSlice", append([]compute.Value{x, update}, startIndices...)...)
	if err != nil {
		return nil, err
	}
	part := in[1].shape
	shape, err := infer("DynamicUpdateSlice", func() (shapes.Shape, error) {
		shape, err := shapeinference.DynamicUpdateSlice(in[0].shape, part)
		for i := 0; err == nil && i < shape.Rank(); i++ {
			if part.Dimensions[i] > shape.Dimensions[i] {
				err = fmt.Errorf("got an update %s for %s, want one that fits", part, shape)
			}
		}
		return shape, err
	})
	if err != nil {
		return nil, err
	}
	starts, err := f.starts("DynamicUpdateSlice", shape, in[2:])
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.dynamic_update_slice", form: formPlain, in: append(in[:2:2], starts...),
		cost: movementCost(part, part), // XLA updates in place
	}, shape), nil
}

// starts returns one scalar for each axis of shape.
func (f *Function) starts(op string, shape shapes.Shape, given []*value) ([]*value, error) {
	for _, v := range given {
		if !v.shape.DType.IsInt() || v.shape.DType != given[0].shape.DType {
			return nil, fmt.Errorf("hlo: %s: got starts %v, want integers of one type", op, shapesOf(given))
		}
	}
	if len(given) == 1 && given[0].shape.Rank() == 1 && given[0].shape.Dimensions[0] == shape.Rank() {
		all := make([]*value, shape.Rank())
		for i := range all {
			one := shapes.Shape{DType: given[0].shape.DType, Dimensions: []int{1}}
			all[i] = f.reshape(f.slice(given[0], one, []int{i}, []int{i + 1}, []int{1}), shapes.Shape{DType: one.DType})
		}
		return all, nil
	}
	for _, v := range given {
		if !v.shape.IsScalar() || len(given) != shape.Rank() {
			return nil, fmt.Errorf("hlo: %s: got starts %v for %s, want a scalar for each axis or one vector", op, shapesOf(given), shape)
		}
	}
	if len(given) != shape.Rank() {
		return nil, fmt.Errorf("hlo: %s: got no starts for %s, want a scalar for each axis", op, shape)
	}
	return given, nil
}
