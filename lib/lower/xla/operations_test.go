package xla

import (
	_ "embed"
	"encoding/json"
	"math"
	"sort"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/models"
)

// differentiable are operations of GoMLX as nets call them, of 24 numbers that are all different.
var differentiable = map[string]func(x *Node) *Node{
	// one number
	"Abs": Abs, "Neg": Neg, "Exp": Exp, "Expm1": Expm1, "Log": Log, "Log1p": Log1p, "Sin": Sin, "Cos": Cos, "Tanh": Tanh, "Sqrt": Sqrt, "Rsqrt": Rsqrt, "Square": Square,
	"Sigmoid": Sigmoid, "Erf": Erf, "Inverse": Inverse, "Softplus": Softplus, "OneMinus": OneMinus, "MirroredLog1p": MirroredLog1p,
	"Sign": func(x *Node) *Node { return Mul(x, Sign(AddScalar(x, -1))) }, "Floor": func(x *Node) *Node { return Mul(x, Floor(x)) },
	"Ceil": func(x *Node) *Node { return Mul(x, Ceil(x)) }, "Round": func(x *Node) *Node { return Mul(x, Round(x)) },
	"SignPlusOrMinus":   func(x *Node) *Node { return Mul(x, SignPlusOrMinus(AddScalar(x, -1))) },
	"PositiveIndicator": func(x *Node) *Node { return Mul(x, PositiveIndicator(AddScalar(x, -1))) },
	"IsFinite":          func(x *Node) *Node { return Where(IsFinite(x), Square(x), x) }, "IsNaN": func(x *Node) *Node { return Where(IsNaN(x), x, Square(x)) },
	"ConvertDType": func(x *Node) *Node { return ConvertDType(Square(ConvertDType(x, dtypes.Float64)), dtypes.Float64) },
	"mask": func(x *Node) *Node {
		return Mul(x, ConvertDType(GreaterThan(x, ScalarOne(x.Graph(), x.DType())), x.DType()))
	},
	"integers": func(x *Node) *Node { return Mul(x, ConvertDType(ConvertDType(x, dtypes.Int32), x.DType())) },
	// two numbers
	"Add": func(x *Node) *Node { return Mul(Add(x, Square(x)), x) }, "Sub": func(x *Node) *Node { return Sub(x, Square(x)) }, "Div": func(x *Node) *Node { return Div(x, AddScalar(Square(x), 1)) },
	"Pow": func(x *Node) *Node { return Pow(x, Sin(x)) }, "PowScalar": func(x *Node) *Node { return PowScalar(x, 3) }, "Max": func(x *Node) *Node { return Max(x, Sin(MulScalar(x, 3))) },
	"Min": func(x *Node) *Node { return Min(x, Sin(MulScalar(x, 3))) }, "MaxScalar": func(x *Node) *Node { return MaxScalar(x, 1) }, "Mod": func(x *Node) *Node { return Mod(x, MulScalar(x, 0.3)) },
	"Atan2": func(x *Node) *Node { return Atan2(x, AddScalar(Square(x), 1)) }, "LogAddExp": func(x *Node) *Node { return LogAddExp(x, Square(x)) },
	"Clip": func(x *Node) *Node { return Mul(x, ClipScalar(x, 0.5, 1.5)) }, "Where": func(x *Node) *Node { return Where(GreaterThan(x, OnesLike(x)), Square(x), Sin(x)) },
	// reductions
	"ReduceSum": func(x *Node) *Node { return ReduceSum(Square(at(x)), 1) }, "ReduceMean": func(x *Node) *Node { return ReduceMean(Square(at(x)), 0, 2) },
	"ReduceMax": func(x *Node) *Node { return ReduceMax(at(x), 1) }, "ReduceMin": func(x *Node) *Node { return ReduceMin(at(x), 2) }, "ReduceMultiply": func(x *Node) *Node { return ReduceMultiply(at(x), 1) },
	"ReduceVariance": func(x *Node) *Node { return ReduceVariance(at(x), 1) }, "ReduceSkewness": func(x *Node) *Node { return ReduceSkewness(at(x), 1) },
	"MaskedReduceMax": func(x *Node) *Node { x = at(x); return MaskedReduceMax(x, LessThan(x, AddScalar(OnesLike(x), 0.5)), 1) },
	"MaskedReduceMean": func(x *Node) *Node {
		x = at(x)
		return MaskedReduceMean(x, LessThan(x, AddScalar(OnesLike(x), 0.5)), 1)
	},
	"L1Norm": func(x *Node) *Node { return L1Norm(at(x), 1) }, "L2Norm": func(x *Node) *Node { return L2Norm(at(x), 1) }, "L2Normalize": func(x *Node) *Node { return L2Normalize(at(x), 1) },
	"Softmax": func(x *Node) *Node { return Softmax(at(x), -1) }, "LogSoftmax": func(x *Node) *Node { return LogSoftmax(at(x), 1) },
	"MaskedSoftmax":    func(x *Node) *Node { x = at(x); return MaskedSoftmax(x, LessThan(x, AddScalar(OnesLike(x), 0.5)), 1) },
	"CosineSimilarity": func(x *Node) *Node { return CosineSimilarity(at(x), Square(at(x)), 1) },
	"ArgMax":           func(x *Node) *Node { return Mul(ReduceSum(at(x), 1), ConvertDType(ArgMax(at(x), 1), x.DType())) },
	"CumSum":           func(x *Node) *Node { return CumSum(at(x), 1) }, "ConsecutiveDifference": func(x *Node) *Node { return ConsecutiveDifference(at(x), 2, true) },
	// shapes
	"Reshape": func(x *Node) *Node { return Reshape(Square(x), 4, 6) }, "Transpose": func(x *Node) *Node { return TransposeAllAxes(at(x), 2, 0, 1) }, "Reverse": func(x *Node) *Node { return Reverse(at(x), 1) },
	"Slice": func(x *Node) *Node { return Slice(at(x), AxisRange(), AxisRange(0, 3).Stride(2), AxisRange(1)) }, "Concatenate": func(x *Node) *Node { return Concatenate([]*Node{at(x), Square(at(x))}, 1) },
	"Stack": func(x *Node) *Node { return Stack([]*Node{x, Square(x)}, 1) }, "Split": func(x *Node) *Node { return Split(at(x), 2, 2)[1] }, "BroadcastToDims": func(x *Node) *Node { return BroadcastToDims(Reshape(x, 24, 1), 24, 3) },
	"Pad": func(x *Node) *Node {
		return Pad(at(x), Scalar(x.Graph(), x.DType(), 3), compute.PadAxis{Start: 1}, compute.PadAxis{End: 2, Interior: 1}, compute.PadAxis{})
	},
	"Pad less": func(x *Node) *Node {
		return Pad(at(x), Scalar(x.Graph(), x.DType(), 3), compute.PadAxis{Start: 1}, compute.PadAxis{Start: -1, End: 2, Interior: 1}, compute.PadAxis{End: -1})
	},
	"Pad fill": func(x *Node) *Node {
		return Pad(at(x), ReduceAllSum(x), compute.PadAxis{Start: 1}, compute.PadAxis{End: 2}, compute.PadAxis{})
	},
	"Shift": func(x *Node) *Node { return ShiftLeft(at(x), 1, 0) }, "GrowRight": func(x *Node) *Node { return GrowRight(at(x), 1, 2, 1) }, "Triangle": func(x *Node) *Node { return TakeLowerTriangular(Reshape(x, 4, 6), 0) },
	"Squeeze": func(x *Node) *Node { return Squeeze(InsertAxes(Square(x), 0), 0) },
	"DynamicSlice": func(x *Node) *Node {
		return DynamicSlice(at(x), []*Node{Const(x.Graph(), int32(1)), Const(x.Graph(), int32(0)), Const(x.Graph(), int32(1))}, []int{1, 2, 2})
	},
	"DynamicUpdateSlice": func(x *Node) *Node {
		return DynamicUpdateSlice(at(x), Square(Slice(at(x), AxisRange(0, 1), AxisRange(0, 2), AxisRange(0, 2))), []*Node{Const(x.Graph(), int32(1)), Const(x.Graph(), int32(0)), Const(x.Graph(), int32(1))})
	},
	// indices and order
	"Gather": func(x *Node) *Node { return Gather(Reshape(x, 8, 3), Const(x.Graph(), [][]int32{{1}, {7}, {1}})) },
	"GatherSlices": func(x *Node) *Node {
		return GatherSlices(at(x), []int{1}, Const(x.Graph(), [][]int32{{0}, {1}}), []int{2}, true)
	},
	"Scatter": func(x *Node) *Node {
		return Scatter(Const(x.Graph(), [][]int32{{1}, {3}, {1}}), Reshape(x, 3, 8), shapes.Make(x.DType(), 5, 8), false, false)
	},
	"ScatterSum": func(x *Node) *Node {
		return ScatterSum(Square(Reshape(x, 3, 8)), Const(x.Graph(), [][]int32{{1}, {2}, {1}}), Reshape(x, 3, 8), false, false)
	},
	"ScatterMax": func(x *Node) *Node {
		return ScatterMax(Zeros(x.Graph(), shapes.Make(x.DType(), 3, 8)), Const(x.Graph(), [][]int32{{1}, {2}, {1}}), Reshape(x, 3, 8), false, false)
	},
	"ScatterUpdate": func(x *Node) *Node {
		return ScatterUpdate(Square(Reshape(x, 3, 8)), Const(x.Graph(), [][]int32{{1}}), Slice(Reshape(x, 3, 8), AxisRange(2)), true, true)
	},
	"Sort": func(x *Node) *Node { return Sort(at(x), 1, true) }, "TopK": func(x *Node) *Node { v, _ := TopK(at(x), 2, 1); return v }, "BottomK": func(x *Node) *Node { v, _ := BottomK(at(x), 2, 2); return v },
	"TopKMask": func(x *Node) *Node { return Where(TopKMask(at(x), 1, 1), Square(at(x)), at(x)) }, "OneHot": func(x *Node) *Node {
		return Mul(Reshape(x, 24, 1), OneHot(ConvertDType(x, dtypes.Int32), 4, x.DType()))
	},
	// products
	"MatMul": func(x *Node) *Node { return MatMul(Reshape(x, 4, 6), Reshape(Square(x), 6, 4)) }, "Dot": func(x *Node) *Node { return Dot(x, Square(x)).Product() },
	"Einsum": func(x *Node) *Node { return Einsum("bij,bjk->bik", at(x), Reshape(Sin(x), 2, 4, 3)) }, "EinsumAxes": func(x *Node) *Node { return EinsumAxes(at(x), Square(at(x)), [][2]int{{1, 1}}, [][2]int{{0, 0}}) },
	// convolutions and pools
	"Convolve":           func(x *Node) *Node { return Convolve(images(x), kernel(x, 2, 2, 1, 3)).PadSame().Done() },
	"Convolve strides":   func(x *Node) *Node { return Convolve(images(x), kernel(x, 2, 2, 1, 3)).Strides(2).PadSame().Done() },
	"Convolve dilations": func(x *Node) *Node { return Convolve(images(x), kernel(x, 2, 2, 1, 3)).Dilations(2).PadSame().Done() },
	"Convolve transposed": func(x *Node) *Node {
		return Convolve(images(x), kernel(x, 2, 2, 1, 3)).InputDilationPerAxis(2, 2).PaddingPerDim([][2]int{{1, 1}, {1, 1}}).Done()
	},
	"Convolve groups": func(x *Node) *Node {
		return Convolve(Reshape(x, 1, 3, 2, 4), kernel(x, 2, 2, 1, 4)).ChannelGroupCount(4).PadSame().Done()
	},
	"Convolve 1D": func(x *Node) *Node { return Convolve(Reshape(x, 1, 12, 2), kernel(x, 3, 2, 4)).PadSame().Done() }, "Convolve 3D": func(x *Node) *Node {
		return Convolve(Reshape(x, 1, 2, 3, 4, 1), kernel(x, 2, 2, 2, 1, 3)).PadSame().Done()
	},
	"MaxPool": func(x *Node) *Node { return MaxPool(images(x)).Window(2).Done() }, "MaxPool same": func(x *Node) *Node { return MaxPool(images(x)).Window(3).Strides(1).PadSame().Done() },
	"MinPool": func(x *Node) *Node { return MinPool(images(x)).Window(2).Done() }, "MeanPool": func(x *Node) *Node { return MeanPool(images(x)).Window(2).PadSame().Done() },
	"SumPool": func(x *Node) *Node { return SumPool(images(x)).Window(2).Strides(1).Done() }, "ConcatPool": func(x *Node) *Node { return ConcatPool(images(x)).Window(2).Done() },
	"Convolve cut": func(x *Node) *Node {
		return Convolve(images(x), kernel(x, 2, 2, 1, 3)).PaddingPerDim([][2]int{{3, 0}, {0, 4}}).Done()
	},
	"Convolve batch groups": func(x *Node) *Node {
		axes := ConvolveAxesConfig{InputBatch: 0, InputSpatial: []int{1, 2}, InputChannels: 3, KernelSpatial: []int{0, 1}, KernelInputChannels: 2, KernelOutputChannels: 3, OutputBatch: 0, OutputSpatial: []int{1, 2}, OutputChannels: 3}
		return ConvGeneral(Reshape(x, 2, 3, 4, 1), kernel(x, 2, 2, 1, 4), axes, nil, nil, nil, nil, 1, 2)
	},
	"Convolve dilations of both": func(x *Node) *Node {
		return Convolve(images(x), kernel(x, 2, 2, 1, 3)).InputDilationPerAxis(2, 1).DilationPerAxis(1, 3).PaddingPerDim([][2]int{{1, 0}, {2, 1}}).Done()
	},
	// interpolation
	"Interpolate": func(x *Node) *Node { return Interpolate(images(x), 1, 8, 12, 1).Done() }, "Interpolate smaller": func(x *Node) *Node { return Interpolate(images(x), 1, 2, 3, 1).Done() },
	"Interpolate nearest": func(x *Node) *Node { return Interpolate(images(x), 1, 8, 9, 1).Nearest().Done() }, "Interpolate corners": func(x *Node) *Node {
		return Interpolate(images(x), 1, 7, 9, 1).HalfPixelCenters(false).AlignCorner(true).Done()
	},
	"Interpolate small": func(x *Node) *Node { return Interpolate(Reshape(x, 2, 2, 3, 2), 2, 4, 6, 2).Bilinear().Done() }, "Interpolate one axis": func(x *Node) *Node { return Interpolate(Reshape(x, 2, 6, 2), 2, 9, NoInterpolation).Done() },
	"Interpolate channels": func(x *Node) *Node { return Interpolate(Reshape(x, 1, 2, 4, 3), 1, 4, 8, 3).Done() }, "Interpolate one number": func(x *Node) *Node { return Interpolate(Reshape(x, 24, 1, 1, 1), 24, 2, 2, 1).Done() },
	// frequencies
	"FFT": func(x *Node) *Node { y := FFT(Complex(at(x), Square(at(x)))); return Add(Real(y), Square(Imag(y))) }, "InverseFFT": func(x *Node) *Node {
		y := InverseFFT(Complex(at(x), Square(at(x))))
		return Add(Real(y), Square(Imag(y)))
	},
	"RealFFT": func(x *Node) *Node { y := RealFFT(at(x)); return Add(Square(Real(y)), Square(Imag(y))) }, "InverseRealFFT": func(x *Node) *Node { return InverseRealFFT(RealFFT(Square(at(x)))) },
	"Abs of complex": func(x *Node) *Node { return Abs(Complex(x, Square(x))) }, "product of complex": func(x *Node) *Node { y := Mul(Complex(x, Square(x)), Complex(Sin(x), x)); return Add(Real(y), Imag(y)) },
	"Conj": func(x *Node) *Node {
		y := Mul(Complex(x, Square(x)), Conj(Complex(Sin(x), x)))
		return Add(Real(y), Imag(y))
	},
	"quotient of complex": func(x *Node) *Node { y := Div(Complex(x, Square(x)), Complex(Sin(x), x)); return Add(Real(y), Imag(y)) }, "Exp of complex": func(x *Node) *Node { y := Exp(Complex(x, Square(x))); return Add(Real(y), Imag(y)) },
	"sum of complex": func(x *Node) *Node {
		y := ReduceSum(Complex(at(x), Square(at(x))), 1)
		return Add(Real(y), Square(Imag(y)))
	},
	"product of complex matrices": func(x *Node) *Node {
		y := MatMul(Complex(Reshape(x, 4, 6), Reshape(Square(x), 4, 6)), Complex(Reshape(x, 6, 4), Reshape(Sin(x), 6, 4)))
		return Add(Real(y), Square(Imag(y)))
	},
	// others
	"OptimizationBarrier": func(x *Node) *Node { return OptimizationBarrier(Square(x)) }, "Identity": func(x *Node) *Node { return Identity(Square(x)) },
}

func at(x *Node) *Node     { return Reshape(x, 2, 3, 4) }
func images(x *Node) *Node { return Reshape(x, 1, 4, 6, 1) }

func kernel(x *Node, dims ...int) *Node {
	k := Cos(IotaFull(x.Graph(), shapes.Make(x.DType(), dims...)))
	return Mul(k, ReduceAllMean(x)) // so that it has a gradient, too
}

// TestTies holds the gradients of equal maxima to PyTorch's amax, and those at a corner to what
// the functions that are made of them have.
func TestTies(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	for name, tt := range map[string]struct {
		of      func(x *Node) *Node
		x, want []float32
	}{
		"max(x, 0) + log(1 + exp(-|x|))": {func(x *Node) *Node { return Add(Max(x, ZerosLike(x)), Log1p(Exp(Neg(Abs(x))))) }, []float32{0, 0}, []float32{0.5, 0.5}},
		"MaxPool2D":                      {pool(2), []float32{1, 0, 1, 1, 2, 0, 2, 2, 0, 3, 3, 3, 0, 0, 3, 3}, []float32{0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0}},
		"MaxPool1D":                      {func(x *Node) *Node { return models.MaxPool1D{Window: 2}.Apply(nil, Reshape(x, 1, 6, 1)) }, []float32{1, 1, 2, 3, 3, 2}, []float32{1, 0, 0, 1, 1, 0}},
		"MaxPool1D of 3":                 {func(x *Node) *Node { return models.MaxPool1D{Window: 3, Stride: 1}.Apply(nil, Reshape(x, 1, 4, 1)) }, []float32{1, 1, 1, 1}, []float32{1, 1, 0, 0}},
		"MaxPool2D of 4":                 {pool(4), []float32{0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1}, []float32{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
		"BinaryCrossEntropy":             {func(x *Node) *Node { return losses.Mean(losses.BinaryCrossEntropy{}, x, AddScalar(ZerosLike(x), 0.25)) }, []float32{0}, []float32{0.25}},
		"BinaryCrossEntropy, focal": {func(x *Node) *Node {
			return losses.Mean(losses.BinaryCrossEntropy{Gamma: 2, Positive: 3}, x, OnesLike(x))
		}, []float32{0}, []float32{-3 * (0.125 + 0.25*math.Ln2)}},
		"MaskedSoftmax of nothing": {func(x *Node) *Node {
			x = Reshape(x, 1, 2)
			return MaskedSoftmax(x, LessThan(x, ZerosLike(x)))
		}, []float32{1, 2}, []float32{0, 0}},
		"MaskedLogSoftmax of nothing": {func(x *Node) *Node {
			x = Reshape(x, 1, 2)
			there := LessThan(x, ZerosLike(x))
			return Where(there, MaskedLogSoftmax(x, there), ZerosLike(x))
		}, []float32{1, 2}, []float32{0, 0}},
		"BinaryCrossEntropy, right for sure": {func(x *Node) *Node {
			return losses.Mean(losses.BinaryCrossEntropy{Gamma: 0.5}, x, OnesLike(x))
		}, []float32{100}, []float32{0}},
		"SiLU": {models.SiLU, []float32{0}, []float32{0.5}}, "GELU": {models.GELU, []float32{0}, []float32{0.5}}, "GELUTanh": {models.GELUTanh, []float32{0}, []float32{0.5}},
		"Softplus": {Softplus, []float32{0}, []float32{0.5}}, "Sigmoid": {Sigmoid, []float32{0}, []float32{0.25}}, "Tanh": {Tanh, []float32{0}, []float32{1}},
		"ReduceAllMax":  {ReduceAllMax, []float32{1, 1, -2, 1}, []float32{1. / 3, 1. / 3, 0, 1. / 3}},
		"GlobalMaxPool": {func(x *Node) *Node { return models.GlobalMaxPool{}.Apply(nil, Reshape(x, 1, 4, 1)) }, []float32{1, 1, -2, 1}, []float32{1. / 3, 1. / 3, 0, 1. / 3}},
	} {
		got := MustExecOnce(backend, func(x *Node) *Node { return Gradient(ReduceAllSum(tt.of(x)), x)[0] }, tt.x).Value().([]float32)
		for i, w := range tt.want {
			if math.Abs(float64(got[i]-w)) > 1e-6 {
				t.Errorf("%s: the gradient at %v is %v, want %v", name, tt.x, got, tt.want)
				break
			}
		}
	}
}

//go:embed testdata/kinks.json
var kinksJSON []byte

// TestKinks holds gradients at corners, ties and poles to PyTorch's, or to limits of these where
// PyTorch has none, and their own gradients to be finite where they are.
func TestKinks(t *testing.T) {
	of := func(l losses.Loss) func(in ...*Node) *Node {
		return func(in ...*Node) *Node { return losses.Mean(l, InsertAxes(in[0], 0), InsertAxes(in[1], 0)) }
	}
	one := func(f func(x *Node) *Node) func(in ...*Node) *Node {
		return func(in ...*Node) *Node { return f(in[0]) }
	}
	rows := func(f func(x *Node) *Node) func(in ...*Node) *Node {
		return one(func(x *Node) *Node { return f(Reshape(x, 2, 2)) })
	}
	two := func(f func(x, y *Node) *Node) func(in ...*Node) *Node {
		return func(in ...*Node) *Node { return f(in[0], in[1]) }
	}
	second := func(y *Node) *Node { return Slice(y, AxisRange(), AxisElem(1)) }
	cases := map[string]func(in ...*Node) *Node{
		"Max": two(Max), "Min": two(Min), "Pow": two(Pow), "LogAddExp": two(LogAddExp),
		"ReLU": one(models.ReLU), "LeakyReLU": one(models.LeakyReLU), "ELU": one(models.ELU), "Hardswish": one(models.Hardswish), "Abs": one(Abs), "Sqrt": one(Sqrt), "Rsqrt": one(Rsqrt), "Log": one(Log), "Softplus": one(Softplus), "ReduceMultiply": one(ReduceAllMultiply),
		"Abs of complex":    two(func(x, y *Node) *Node { return Abs(Complex(x, y)) }),
		"MaxScalar":         one(func(x *Node) *Node { return MaxScalar(x, 1) }),
		"MinScalar":         one(func(x *Node) *Node { return MinScalar(x, 1) }),
		"ClipScalar":        one(func(x *Node) *Node { return ClipScalar(x, 0, 1) }),
		"Sign":              one(func(x *Node) *Node { return Mul(x, Sign(x)) }),
		"L1Norm":            one(func(x *Node) *Node { return L1Norm(x) }),
		"L2Norm":            one(func(x *Node) *Node { return L2Norm(x) }),
		"L2Norm of rows":    rows(func(x *Node) *Node { return L2Norm(x, 1) }),
		"distance":          two(func(x, y *Node) *Node { return L2Norm(Sub(x, y)) }),
		"deviation":         one(func(x *Node) *Node { return Sqrt(ReduceVariance(x)) }),
		"deviation of rows": rows(func(x *Node) *Node { return Sqrt(ReduceVariance(x, 1)) }),
		"Pow of itself":     one(func(x *Node) *Node { return Pow(x, x) }),
		"PowScalar 0":       one(func(x *Node) *Node { return PowScalar(x, 0) }),
		"PowScalar 2":       one(func(x *Node) *Node { return PowScalar(x, 2) }),
		"PowScalar 0.5":     one(func(x *Node) *Node { return PowScalar(x, 0.5) }),
		"Atan2":             two(Atan2),
		"LogSumExp":         rows(func(x *Node) *Node { return Log(ReduceSum(Exp(x), 1)) }),
		"Softmax":           rows(func(x *Node) *Node { return second(Softmax(x)) }),
		"LogSoftmax":        rows(func(x *Node) *Node { return second(LogSoftmax(x)) }),
		"ReduceMax":         one(func(x *Node) *Node { return ReduceMax(x, 0) }),
		"ReduceMin":         rows(func(x *Node) *Node { return ReduceMin(x, 1) }),
		"Sort":              one(func(x *Node) *Node { return Mul(Sort(x, 0, true), IotaFull(x.Graph(), x.Shape())) }),
		"CosineSimilarity":  two(func(x, y *Node) *Node { return CosineSimilarity(x, y, 0) }),
		"MAE":               of(losses.MAE{}), "MSE": of(losses.MSE{}), "Huber": of(losses.Huber{}), "Hinge": of(losses.Hinge{}), "Poisson": of(losses.Poisson{}), "Cosine": of(losses.Cosine{}),
		"BinaryCrossEntropy": of(losses.BinaryCrossEntropy{}), "focal": of(losses.BinaryCrossEntropy{Gamma: 2}), "KLDivergence": of(losses.KLDivergence{}),
		"CrossEntropy": one(func(x *Node) *Node {
			return losses.Mean(losses.CrossEntropy{}, InsertAxes(x, 0), Const(x.Graph(), []int32{1}))
		}),
	}
	targets := map[string]bool{"MAE": true, "MSE": true, "Huber": true, "Hinge": true, "Poisson": true, "Cosine": true, "BinaryCrossEntropy": true, "KLDivergence": true, "focal": true}
	var want map[string]struct{ X, Slopes [][]any }
	if err := json.Unmarshal(kinksJSON, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(cases) {
		t.Errorf("got %d cases, want %d", len(cases), len(want))
	}
	floats := func(l []any) (all []float32) {
		for _, x := range l {
			switch x := x.(type) {
			case float64:
				all = append(all, float32(x))
			case string:
				all = append(all, float32(math.Inf(1-2*strings.Count(x, "-"))))
			default:
				all = append(all, float32(math.NaN()))
			}
		}
		return all
	}
	backend := cpu(t)
	for name, w := range want {
		var x []any
		for _, l := range w.X {
			x = append(x, floats(l))
		}
		slopes := func(in []*Node) []*Node { return Gradient(ReduceAllSum(cases[name](in...)), in...) }
		got := MustExecOnceN(backend, func(in []*Node) []*Node {
			all := slopes(in)
			for _, s := range all[:len(in)] {
				all = append(all, Gradient(ReduceAllSum(Mul(s, Sin(AddScalar(s, 1)))), in[0])[0])
			}
			return all
		}, x...)
		for i, l := range w.Slopes {
			if i == 1 && targets[name] {
				continue
			}
			slopes, second := got[i].Value().([]float32), got[len(w.Slopes)].Value().([]float32)
			for k, s := range floats(l) {
				g := slopes[k]
				if !(g == s || math.Abs(float64(g-s)) < 1e-6 || g != g && s != s) {
					t.Errorf("%s of %v: the gradient for input %d is %v, want %v", name, w.X, i, slopes, l)
					break
				}
				if i == 0 && !math.IsInf(float64(s), 0) && s == s && second[k] != second[k] {
					t.Errorf("%s of %v: the gradient's gradient is %v", name, w.X, second)
					break
				}
			}
		}
	}
}

func pool(window int) func(x *Node) *Node {
	return func(x *Node) *Node { return models.MaxPool2D{Window: window}.Apply(nil, Reshape(x, 1, 4, 4, 1)) }
}

// TestDifferentiable holds the gradients of operations to finite differences.
func TestDifferentiable(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	const n = 24
	x := make([]float64, n)
	for i := range x {
		x[i] = 0.2 + math.Mod(float64(i)*0.618034, 1)*2.5
	}
	var names []string
	for name := range differentiable {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f := differentiable[name]
		exec, err := NewExec(backend, func(x *Node) []*Node {
			y := f(x)
			y = ReduceAllSum(Mul(y, Sin(AddScalar(IotaFull(x.Graph(), y.Shape()), 0.5))))
			return []*Node{y, Gradient(y, x)[0]}
		})
		if err != nil {
			t.Fatal(err)
		}
		call := func(x []float64) (float64, []float64, error) {
			out, err := exec.Call(x)
			if err != nil {
				return 0, nil, err
			}
			return out[0].Value().(float64), out[1].Value().([]float64), nil
		}
		_, got, err := call(x)
		if err != nil {
			t.Errorf("%s: %.300v", name, err)
			continue
		}
		for i := range n {
			const h = 1e-5
			up, down := append([]float64{}, x...), append([]float64{}, x...)
			up[i], down[i] = x[i]+h, x[i]-h
			a, _, _ := call(up)
			b, _, _ := call(down)
			if want := (a - b) / (2 * h); !(math.Abs(got[i]-want) <= 1e-5*max(1, math.Abs(want))) {
				t.Errorf("%s: the gradient for number %d is %v: want %v", name, i, got[i], want)
				break
			}
		}
	}
}
