package fit

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// sequences says whether the net has layers of LSTM that kernels can do: not too
// wide, and with no more wishes than package fused knows. Such a net has no plan; its
// gradient is GoMLX's, with two kernels for each of these layers.
func (n *Net) sequences() bool {
	return slices.ContainsFunc(n.model.Layers, func(l models.Layer) bool {
		_, is := plainLSTM(l)
		return is
	})
}

// plainLSTM is a layer's LSTM, if it says nothing but name, units and first
// values.
func plainLSTM(layer models.Layer) (l models.LSTM, is bool) {
	if l, is = layer.(models.LSTM); !is || l.Units > kernels.LargestUnits {
		return l, false
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Name", "Units", "Init":
		default:
			if !v.Field(i).IsZero() {
				return l, false
			}
		}
	}
	return l, true
}

// withKernels is the net with kernels in place of loops over sequences, and of
// XLA's batch norms.
func (t *trace) withKernels() models.Net {
	net := t.net.model.Normalized(t.ops().Normalizer())
	if !t.net.sequences() {
		return net
	}
	for i, layer := range net.Layers {
		if l, is := plainLSTM(layer); is {
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
