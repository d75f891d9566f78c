package fit

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// withKernels is the net with kernels in place of loops over sequences.
func (t *trace) withKernels() models.Net {
	net := t.net.model
	net.Layers = slices.Clone(net.Layers)
	for i, layer := range net.Layers {
		if l, is := plan.PlainLSTM(layer); is {
			net.Layers[i] = sequence{l, t}
		}
	}
	return net
}

// sequence is an LSTM of the program that t writes.
type sequence struct {
	models.LSTM
	t *trace
}

// Apply is that of models.LSTM. The kernels' state and sums are float32, with BF16 too;
// then factors are bfloat16.
func (s sequence) Apply(scope *model.Scope, x *Node) *Node {
	d := x.Shape().Dimensions
	if x.Rank() != 3 {
		panic(fmt.Errorf("LSTM of %d units: want sequences shaped [n length inputs]", s.Units))
	}
	n, length, in := d[0], d[1], d[2]
	value := func(name string) *Node {
		return scope.GetVariable(name).NodeValue(x.Graph())
	}
	z := MatMul(Reshape(TransposeAllAxes(x, 1, 0, 2), length*n, in), value("weights"))
	z = Reshape(Add(z, ExpandLeftToRank(value("biases"), 2)), length, n, 4*s.Units)
	o := s.t.ops()
	if s.t.net.config.BF16 {
		o.Compute = dtypes.BFloat16
	}
	h := o.LSTM(s.t.float(z), s.t.float(value("recurrent")))
	if h.DType() != x.DType() {
		h = ConvertDType(h, x.DType())
	}
	return TransposeAllAxes(h, 1, 0, 2)
}
