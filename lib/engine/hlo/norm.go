package hlo

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// normalization checks the operands of a batch normalization: first x, then
// vectors as long as the feature axis, then, for the gradient, one of the
// shape of x. It returns the attributes and the shape of the vectors.
func normalization(op string, in []*value, vectors int, epsilon float32, axis int) (string, shapes.Shape, error) {
	x := in[0].shape
	if err := checkAxes(op, x, []int{axis}); err != nil {
		return "", x, err
	}
	if !x.DType.IsFloat() {
		return "", x, fmt.Errorf("hlo: %s: got %s, want floats", op, x)
	}
	vector := shapes.Shape{DType: x.DType, Dimensions: []int{x.Dimensions[axis]}}
	for i, v := range in[1:] {
		want := vector
		if i >= vectors {
			want = x
		}
		if !equalShapes([]shapes.Shape{v.shape}, []shapes.Shape{want}) {
			return "", x, fmt.Errorf("hlo: %s: got operand %d of shape %s for %s, want %s", op, i+1, v.shape, x, want)
		}
	}
	e := appendFloat(nil, float64(epsilon), 32, 0)
	return "epsilon = " + string(e) + " : f32, feature_index = " + strconv.Itoa(axis) + " : i64", vector, nil
}

// BatchNormForInference normalizes x with the given mean and variance of each
// feature: (x-mean)/√(variance+epsilon)·scale + offset.
func (f *Function) BatchNormForInference(x, scale, offset, mean, variance compute.Value, epsilon float32, axis int) (compute.Value, error) {
	in, err := f.operands("BatchNormForInference", x, scale, offset, mean, variance)
	if err != nil {
		return nil, err
	}
	attrs, vector, err := normalization("BatchNormForInference", in, 4, epsilon, axis)
	if err != nil {
		return nil, err
	}
	return f.one(&statement{
		op: "stablehlo.batch_norm_inference", form: formGeneric, in: in, attrs: attrs,
		cost: normCost(in[0].shape, vector, 4, 2),
	}, in[0].shape), nil
}

// BatchNormForTraining normalizes x with its own mean and variance of each
// feature, which it returns too.
func (f *Function) BatchNormForTraining(x, scale, offset compute.Value, epsilon float32, axis int) (
	normalized, mean, variance compute.Value, err error) {
	in, err := f.operands("BatchNormForTraining", x, scale, offset)
	if err != nil {
		return nil, nil, nil, err
	}
	attrs, vector, err := normalization("BatchNormForTraining", in, 2, epsilon, axis)
	if err != nil {
		return nil, nil, nil, err
	}
	if f.builder.WriteNorms {
		n, in, back := f.writtenNorm(in, axis)
		y, mean, variance := n.training(in[0], in[1], in[2], epsilon)
		return back(y), back(mean), back(variance), nil
	}
	out := f.add(&statement{
		op: "stablehlo.batch_norm_training", form: formGeneric, in: in, attrs: attrs,
		cost: normCost(in[0].shape, vector, 7, 3),
	}, in[0].shape, vector, vector)
	return out[0], out[1], out[2], nil
}

// BatchNormGradient returns the gradients of BatchNormForTraining with respect
// to x, scale and offset.
func (f *Function) BatchNormGradient(x, scale, mean, variance, gradOutput compute.Value, epsilon float32, axis int) (
	gradX, gradScale, gradOffset compute.Value, err error) {
	in, err := f.operands("BatchNormGradient", x, scale, mean, variance, gradOutput)
	if err != nil {
		return nil, nil, nil, err
	}
	attrs, vector, err := normalization("BatchNormGradient", in, 3, epsilon, axis)
	if err != nil {
		return nil, nil, nil, err
	}
	if f.builder.WriteNorms {
		n, in, back := f.writtenNorm(in, axis)
		x, scale, offset := n.gradient(in[0], in[1], in[2], in[3], in[4], epsilon)
		return back(x), back(scale), back(offset), nil
	}
	out := f.add(&statement{
		op: "stablehlo.batch_norm_grad", form: formGeneric, in: in, attrs: attrs,
		cost: normCost(in[0].shape, vector, 11, 5),
	}, in[0].shape, vector, vector)
	return out[0], out[1], out[2], nil
}

// FFT transforms the last len(lengths) axes of x. The real kinds take and give
// half of the last axis: lengths[last]/2 + 1 complex numbers.
func (f *Function) FFT(x compute.Value, kind compute.FFTType, lengths []int) (compute.Value, error) {
	in, err := f.operands("FFT", x)
	if err != nil {
		return nil, err
	}
	from := in[0].shape
	name := map[compute.FFTType]string{
		compute.FFTForward: "FFT", compute.FFTInverse: "IFFT", compute.FFTForwardReal: "RFFT", compute.FFTInverseReal: "IRFFT",
	}[kind]
	if name == "" || len(lengths) < 1 || len(lengths) > 3 || len(lengths) > from.Rank() {
		return nil, fmt.Errorf("hlo: FFT: got kind %s and lengths %v for %s, want 1 to 3 lengths, no more than axes", kind, lengths, from)
	}
	want := append(slices.Clone(from.Dimensions[:from.Rank()-len(lengths)]), lengths...)
	last := len(want) - 1
	half := want[last]/2 + 1
	to := shapes.Shape{DType: from.DType, Dimensions: slices.Clone(want)}
	switch {
	case kind == compute.FFTForwardReal && from.DType == dtypes.Float32:
		to.DType, to.Dimensions[last] = dtypes.Complex64, half
	case kind == compute.FFTForwardReal && from.DType == dtypes.Float64:
		to.DType, to.Dimensions[last] = dtypes.Complex128, half
	case kind == compute.FFTInverseReal && from.DType.IsComplex():
		to.DType, want[last] = from.DType.RealDType(), half
	case kind == compute.FFTForwardReal || !from.DType.IsComplex():
		return nil, fmt.Errorf("hlo: FFT: got %s for %s, want Float32 or Float64 for ForwardReal, complex numbers for others", from, kind)
	}
	if !slices.Equal(from.Dimensions, want) {
		return nil, fmt.Errorf("hlo: FFT: got %s for lengths %v, want dimensions %v", from, lengths, want)
	}
	return f.one(&statement{
		op: "stablehlo.fft", form: formPlain, in: in, attrs: ", type = " + name + ", length = " + list(lengths),
		cost: fftCost(from, to, lengths),
	}, to), nil
}

// RNGBitGenerator fills shape with random bits by the Philox algorithm
// (Salmon et al., 2011), and returns the next state with them. The state is a
// vector of 2 or 3 uint64.
func (f *Function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (newState, bits compute.Value, err error) {
	in, err := f.operands("RNGBitGenerator", state)
	if err != nil {
		return nil, nil, err
	}
	if err := writable("RNGBitGenerator", shape); err != nil {
		return nil, nil, err
	}
	s := in[0].shape
	if s.DType != dtypes.Uint64 || s.Rank() != 1 || s.Dimensions[0] != 2 && s.Dimensions[0] != 3 {
		return nil, nil, fmt.Errorf("hlo: RNGBitGenerator: got state %s, want 2 or 3 Uint64", s)
	}
	if !shape.DType.IsInt() && !shape.DType.IsFloat() {
		return nil, nil, fmt.Errorf("hlo: RNGBitGenerator: got %s, want integers or floats", shape)
	}
	out := f.add(&statement{
		op: "stablehlo.rng_bit_generator", form: formPlain, in: in, attrs: ", algorithm = PHILOX",
		cost: movementCost(s, shape),
	}, s, shape)
	return out[0], out[1], nil
}
