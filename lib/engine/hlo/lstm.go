package hlo

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/lstm"
)

// LSTM goes through all time steps of sequences by package lstm, which has the names: z [length n
// 4·units], biases [4·units], recurrent [units 4·units], h0 and c0 [n units]. The results are h
// and c [length n units], and gates, z's shape, in its memory, which XLA copies first if it is
// not to change. float32 only.
func (f *Function) LSTM(z, biases, recurrent, h0, c0 compute.Value) ([]compute.Value, error) {
	in, every, err := f.lstmOperands("LSTM", []compute.Value{z, biases, recurrent, h0, c0})
	if err != nil {
		return nil, err
	}
	n, units := every.Dimensions[1], every.Dimensions[2]
	one := shapes.Make(dtypes.Float32, n, units)
	if !in[1].shape.Equal(shapes.Make(dtypes.Float32, 4*units)) || !in[2].shape.Equal(shapes.Make(dtypes.Float32, units, 4*units)) ||
		!in[3].shape.Equal(one) || !in[4].shape.Equal(one) {
		return nil, fmt.Errorf("hlo: LSTM: got z %s, biases %s, recurrent %s, h0 %s and c0 %s, want [length n 4·units], [4·units], [units 4·units] and [n units]",
			in[0].shape, in[1].shape, in[2].shape, in[3].shape, in[4].shape)
	}
	return f.through(in, []shapes.Shape{every, every, in[0].shape}, 2, 24, 5)
}

// LSTMBack is its way back: from gates, as LSTM gave them, recurrent, c0, c and the gradient v of
// h to the gradient of what the gates got, which is z's: in the memory of gates, as there.
func (f *Function) LSTMBack(gates, recurrent, c0, c, v compute.Value) (compute.Value, error) {
	in, every, err := f.lstmOperands("LSTMBack", []compute.Value{gates, recurrent, c0, c, v})
	if err != nil {
		return nil, err
	}
	n, units := every.Dimensions[1], every.Dimensions[2]
	if !in[1].shape.Equal(shapes.Make(dtypes.Float32, units, 4*units)) || !in[2].shape.Equal(shapes.Make(dtypes.Float32, n, units)) ||
		!in[3].shape.Equal(every) || !in[4].shape.Equal(every) {
		return nil, fmt.Errorf("hlo: LSTMBack: got gates %s, recurrent %s, c0 %s, c %s and v %s, want [length n 4·units], [units 4·units], [n units] and [length n units]",
			in[0].shape, in[1].shape, in[2].shape, in[3].shape, in[4].shape)
	}
	out, err := f.through(in, []shapes.Shape{in[0].shape}, 0, 22, 1)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// lstmOperands are the operands of a call, and the shape [length n units] of one number a unit.
func (f *Function) lstmOperands(name string, operands []compute.Value) (in []*value, every shapes.Shape, err error) {
	if in, err = f.operands(name, operands...); err != nil {
		return nil, every, err
	}
	z := in[0].shape
	if z.DType != dtypes.Float32 || z.Rank() != 3 || z.Dimensions[2]%4 != 0 || z.Size() == 0 {
		return nil, every, fmt.Errorf("hlo: %s: got %s for all time steps, want float32 [length n 4·units]", name, z)
	}
	return in, shapes.Make(dtypes.Float32, z.Dimensions[0], z.Dimensions[1], z.Dimensions[2]/4), nil
}

// through is a call, whose result number alias is its first operand's memory. It counts as XLA's
// ops for it: the products, and so many others and tanh for each unit and place.
func (f *Function) through(in []*value, out []shapes.Shape, alias int, others, tanh float64) ([]compute.Value, error) {
	z := in[0].shape
	n, units := z.Dimensions[1], z.Dimensions[2]/4
	numbers := float64(z.Size() / 4)
	scratch := shapes.Make(dtypes.Float32, lstm.Scratch(n, units, f.builder.Threads))
	all, err := f.CustomCall(lstm.Target, values(in), append(out, scratch), CallConfig{
		Aliases: map[int]int{alias: 0},
		Cost:    Cost{FLOPs: numbers * (8*float64(units) + others), Transcendentals: numbers * tanh, Bytes: bytesOf(shapesOf(in)...) + bytesOf(out...)},
	})
	if err != nil {
		return nil, err
	}
	return all[:len(out)], nil
}
