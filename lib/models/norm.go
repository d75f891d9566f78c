package models

import (
	"cmp"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// BatchNorm normalizes each channel, the last axis, over a batch while the net
// is trained, and by running means otherwise (Ioffe and Szegedy, 2015). A layer whose
// scale is not trainable, as it is where a layer around it has frozen its variables, is
// frozen as a whole, as in Keras: it normalizes by the running means in training too, and
// leaves them alone. Where x has a mask, the means are of the time steps that are there.
type BatchNorm struct {
	Name     string
	Momentum float64 // of the running means, less than 1; default: 0.9
	Epsilon  float64 // added to the variance; default: 1e-5
	Act      Act
}

func (l BatchNorm) Title() (name, kind string) { return l.Name, "BatchNormalization" }

// Apply takes any x. The running variance is that of the population, the
// batch's times n/(n-1), as in PyTorch and Chainer.
func (l BatchNorm) Apply(scope *model.Scope, x *Node) *Node {
	y, _ := l.apply(scope, x)
	return y
}

func (l BatchNorm) epsilon() float64 { return cmp.Or(l.Epsilon, 1e-5) }

// apply's again is nil where nothing is recomputed.
func (l BatchNorm) apply(scope *model.Scope, x *Node) (y *Node, again Again) {
	must(l)
	momentum, epsilon := l.Momentum, float32(l.epsilon())
	momentum = cmp.Or(momentum, 0.9)
	g, d := x.Graph(), x.Shape().Dimensions
	axis := len(d) - 1
	channels := shapes.Make(dtypes.Float32, d[axis])
	scale := float(variable(scope, g, "scale", nil, Fill(1), d[axis]))
	offset := float(variable(scope, g, "offset", nil, Fill(0), d[axis]))
	mean := scope.WithInitializer(Zeros).VariableWithShape("mean", channels).SetTrainable(false)
	variance := scope.WithInitializer(Ones).VariableWithShape("variance", channels).SetTrainable(false)
	running := func(m, v *Node) {
		next := func(old *model.Variable, now *Node) {
			old.SetNodeValue(Add(MulScalar(old.NodeValue(g), momentum), MulScalar(StopGradient(now), 1-momentum)))
		}
		next(mean, m)
		next(variance, v)
	}
	over := make([]int, axis)
	for i := range over {
		over[i] = i
	}
	training := scope.IsTraining(g) && scope.GetVariable("scale").Trainable
	kind, in := x.DType(), x
	x = float(x) // sums of many bfloat16 would lose their last bits
	normal := func(x, mean, variance *Node) *Node {
		return ConvertDType(InternalBatchNormForInference(x, scale, offset, mean, variance, epsilon, axis), kind)
	}
	switch mask := MaskOf(in); {
	case !training:
		y = normal(x, mean.NodeValue(g), variance.NodeValue(g))
	case mask != nil:
		z, m, v, n := normalOf(zeroed(x, mask), countOf(x, mask), l.epsilon(), over...)
		y = ConvertDType(Add(Mul(z, ExpandLeftToRank(scale, x.Rank())), ExpandLeftToRank(offset, x.Rank())), kind)
		running(Reshape(m, d[axis]), Reshape(Mul(v, Div(n, MaxScalar(AddScalar(n, -1), 1))), d[axis]))
	default:
		var m, v *Node
		y = gradient.Lowered([]*Node{x, scale, offset}, func(in []*Node) *Node {
			var y *Node
			y, m, v = InternalBatchNormForTraining(in[0], in[1], in[2], epsilon, axis)
			return y
		}, func(in []*Node) *Node { // its gradient is an operation without one
			x := Sub(in[0], ReduceAndKeep(in[0], ReduceMean, over...))
			x = Mul(x, Inverse(Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, over...), l.epsilon()))))
			return Add(Mul(x, ExpandLeftToRank(in[1], x.Rank())), ExpandLeftToRank(in[2], x.Rank()))
		})
		y = ConvertDType(y, kind)
		n := float64(x.Shape().Size() / d[axis])
		running(m, MulScalar(v, n/max(1, n-1)))
		if loweringOf(g).Recomputes(in.Shape().ByteSize()) {
			return l.Act.of(y), func(arrived *Node) *Node {
				return l.Act.of(normal(float(OptimizationBarriers(in, arrived)[0]), m, v))
			}
		}
	}
	return l.Act.of(y), nil
}

// HasBatchNorm says whether some layer of the net is a BatchNorm.
func (n Net) HasBatchNorm() bool { return holds[BatchNorm](n.Layers) }

func float(x *Node) *Node {
	if x.DType() == dtypes.Float32 {
		return x
	}
	return ConvertDType(x, dtypes.Float32)
}
