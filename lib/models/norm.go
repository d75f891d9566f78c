package models

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// BatchNorm normalizes each channel, the last axis, over a batch while the net
// is trained, and by running means otherwise (Ioffe and Szegedy, 2015).
type BatchNorm struct {
	Name     string
	Momentum float64 // of the running means; default: 0.9
	Epsilon  float64 // added to the variance; default: 1e-5
	Act      Act
}

// Title names the layer.
func (l BatchNorm) Title() (name, kind string) { return l.Name, "BatchNormalization" }

// Apply takes any x. The running variance is that of the population, the
// batch's times n/(n-1), as in PyTorch and Chainer.
func (l BatchNorm) Apply(scope *model.Scope, x *Node) *Node {
	momentum, epsilon := l.Momentum, float32(l.Epsilon)
	if momentum == 0 {
		momentum = 0.9
	}
	if epsilon == 0 {
		epsilon = 1e-5
	}
	g, d := x.Graph(), x.Shape().Dimensions
	axis := len(d) - 1
	channels := shapes.Make(dtypes.Float32, d[axis])
	scale := float(variable(scope, g, "scale", nil, Fill(1), d[axis]))
	offset := float(variable(scope, g, "offset", nil, Fill(0), d[axis]))
	mean := scope.WithInitializer(Zeros).VariableWithShape("mean", channels).SetTrainable(false)
	variance := scope.WithInitializer(Ones).VariableWithShape("variance", channels).SetTrainable(false)
	kind := x.DType()
	x = float(x) // sums of many bfloat16 would lose their last bits
	var y *Node
	if scope.IsTraining(g) {
		var m, v *Node
		y, m, v = InternalBatchNormForTraining(x, scale, offset, epsilon, axis)
		n := float64(x.Shape().Size() / d[axis])
		running := func(old *model.Variable, now *Node) {
			old.SetNodeValue(Add(MulScalar(old.NodeValue(g), momentum), MulScalar(StopGradient(now), 1-momentum)))
		}
		running(mean, m)
		running(variance, MulScalar(v, n/max(1, n-1)))
	} else {
		y = InternalBatchNormForInference(x, scale, offset, mean.NodeValue(g), variance.NodeValue(g), epsilon, axis)
	}
	if kind != dtypes.Float32 {
		y = ConvertDType(y, kind)
	}
	return l.Act.of(y)
}

func float(x *Node) *Node {
	if x.DType() == dtypes.Float32 {
		return x
	}
	return ConvertDType(x, dtypes.Float32)
}
