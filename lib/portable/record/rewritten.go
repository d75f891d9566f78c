package record

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// The operations of this file are recorded as others that GoMLX's pure-Go backend has.

// writing chains calls: after the first error it makes none.
type writing struct {
	f   *function
	err error
}

func (w *writing) do(call func() (compute.Value, error)) compute.Value {
	if w.err != nil {
		return nil
	}
	v, err := call()
	w.err = err
	return v
}

func (f *function) Identity(x compute.Value) (compute.Value, error) { return f.in(x), nil }

func (f *function) OptimizationBarrier(operands ...compute.Value) ([]compute.Value, error) {
	operands = append([]compute.Value{}, operands...)
	f.ins(operands)
	return operands, nil
}

func (f *function) SchedulingBarrier(x compute.Value, _ ...compute.Value) (compute.Value, error) {
	return f.in(x), nil
}

func (f *function) Clamp(low, x, high compute.Value) (compute.Value, error) {
	w := &writing{f: f}
	y := w.do(func() (compute.Value, error) { return f.Max(low, x) })
	y = w.do(func() (compute.Value, error) { return f.Min(y, high) })
	return y, w.err
}

// BatchNormForInference is (x − mean) · scale/√(variance + ε) + offset.
func (f *function) BatchNormForInference(x, scale, offset, mean, variance compute.Value, epsilon float32, axis int) (compute.Value, error) {
	shape, err := f.Shape(x)
	if err != nil {
		return nil, err
	}
	w := &writing{f: f}
	along := func(v compute.Value) compute.Value { // of a value for each channel, dimensions as x has
		dims := make([]int, shape.Rank())
		for i := range dims {
			dims[i] = 1
		}
		dims[axis] = shape.Dimensions[axis]
		return w.do(func() (compute.Value, error) { return f.Reshape(v, dims...) })
	}
	small := w.do(func() (compute.Value, error) { return f.Constant([]float32{epsilon}, 1) })
	d := w.do(func() (compute.Value, error) { return f.Add(variance, small) })
	d = w.do(func() (compute.Value, error) { return f.Rsqrt(d) })
	d = w.do(func() (compute.Value, error) { return f.Mul(d, scale) })
	middle, factor, last := along(mean), along(d), along(offset)
	y := w.do(func() (compute.Value, error) { return f.Sub(x, middle) })
	y = w.do(func() (compute.Value, error) { return f.Mul(y, factor) })
	y = w.do(func() (compute.Value, error) { return f.Add(y, last) })
	return y, w.err
}

// DynamicSlice is a Gather of one window.
func (f *function) DynamicSlice(x compute.Value, starts []compute.Value, dims []int) (compute.Value, error) {
	w := &writing{f: f}
	var all []compute.Value
	axes := make([]int, len(starts))
	for i, s := range starts {
		axes[i] = i
		at := w.do(func() (compute.Value, error) { return f.ConvertDType(s, dtypes.Int32) })
		all = append(all, w.do(func() (compute.Value, error) { return f.Reshape(at, 1) }))
	}
	at := w.do(func() (compute.Value, error) { return f.Concatenate(0, all...) })
	y := w.do(func() (compute.Value, error) { return f.Gather(x, at, 0, axes, nil, axes, dims, false) })
	return y, w.err
}

// Closures of other operations.

func (f *function) While(cond, body compute.Function, state ...compute.Value) ([]compute.Value, error) {
	return f.call("While", []any{cond, body, state})
}

func (f *function) If(pred compute.Value, onTrue, onFalse compute.Function) ([]compute.Value, error) {
	return f.call("If", []any{pred, onTrue, onFalse})
}

func (f *function) Sort(comparator compute.Function, axis int, stable bool, inputs ...compute.Value) ([]compute.Value, error) {
	return f.call("Sort", []any{comparator, axis, stable, inputs})
}
