package fused

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// recurrentCells are the kernels' cells, by the kinds of layers.
var recurrentCells = map[string]struct {
	cell  kernels.Cell
	gates int
}{"LSTM": {kernels.LSTM, 4}, "GRU": {kernels.GRU, 3}, "SimpleRNN": {kernels.RNN, 1}}

// noRecurrence is why there are no kernels for a recurrence; "": there are.
func noRecurrence(r models.Recurrence) string {
	act, known := r.Act.Activation()
	units := r.Recurrent.Shape().Dimensions[0]
	switch {
	case units > kernels.LargestUnits:
		return fmt.Sprintf("%s of %d units: kernels have up to %d", r.Kind, units, kernels.LargestUnits)
	case r.Carried:
		return fmt.Sprintf("%s: it is Stateful, and kernels begin with zeros", r.Kind)
	case r.Act != nil && !(known && act.FromResult()):
		return fmt.Sprintf("%s: no kernel for its activation", r.Kind)
	case r.Z.DType() != dtypes.Float32 && r.Z.DType() != dtypes.BFloat16:
		return fmt.Sprintf("%s of %s: kernels have Float32 and BFloat16", r.Kind, r.Z.DType())
	}
	return ""
}

// Recurrence runs a recurrent layer's cell over a sequence, in float32: [length n units]. It
// has a gradient; with kernels, the whole sequence is one kernel each way. They have
// their own tilings, but where XLA's form is the faster one in one direction, it is in
// both: the backward pass needs what was kept, which that form does not keep.
//
// The plain form is the loop of the layer, of Compute's type.
func (o Ops) Recurrence(r models.Recurrence) *Node {
	of, d := recurrentCells[r.Kind], r.Z.Shape().Dimensions
	if w := r.Recurrent.Shape().Dimensions; of.gates == 0 || len(d) != 3 || len(w) != 2 || w[1] != of.gates*w[0] || d[2] != w[1] {
		panic(fmt.Errorf("fused: %s: got z %s and recurrent %s, want [length n %d·units] and [units %d·units]", r.Kind, r.Z.Shape(), r.Recurrent.Shape(), of.gates, of.gates))
	}
	if noRecurrence(r) != "" {
		return o.plainRecurrence(r)
	}
	act, _ := r.Act.Activation()
	l := kernels.Recurrence{Cell: of.cell, Act: act, Length: d[0], Batch: d[1], Units: d[2] / of.gates, Compute: o.Compute}
	forward, is := choose(o, l)
	back, both := choose(o, kernels.RecurrenceBack{Recurrence: l})
	if !is || !both {
		return o.plainRecurrence(r)
	}
	if r.Kind == "LSTM" && r.Biases != nil { // it adds them to what the inputs give
		r.Z, r.Biases = Add(r.Z, ExpandLeftToRank(r.Biases, 3)), nil
	}
	in := []*Node{to(r.Z, dtypes.Float32), to(r.Recurrent, dtypes.Float32)}
	if r.Biases != nil {
		in = append(in, to(r.Biases, dtypes.Float32))
	}
	return gradient.Lowered(in, func(in []*Node) *Node {
		out := o.call(forward.Kernel(), in...)
		h := out[0]
		return gradient.Define(h, in, func(v *Node) []*Node {
			operands := []*Node{v}
			switch l.Cell {
			case kernels.LSTM:
				operands = append(operands, out[2], out[1])
			case kernels.GRU:
				operands = append(operands, out[1], h)
			default:
				operands = append(operands, h)
			}
			got := o.call(back.Kernel(), append(operands, in[1])...)
			dz, dproducts := got[0], got[len(back.Kernel().Outputs)-1]
			all := []*Node{dz, ZerosLike(in[1])}
			if l.Length > 1 {
				before, after := Slice(h, AxisRange(0, l.Length-1)), Slice(dproducts, AxisRange(1, l.Length))
				rows := (l.Length - 1) * l.Batch
				all[1] = Einsum("ru,rg->ug", Reshape(before, rows, l.Units), Reshape(after, rows, d[2]))
			}
			if len(in) > 2 {
				all = append(all, ReduceSum(dproducts, 0, 1))
			}
			return all
		})
	}, func(in []*Node) *Node {
		r := r
		if r.Z, r.Recurrent = in[0], in[1]; len(in) > 2 {
			r.Biases = in[2]
		}
		return o.plainRecurrence(r)
	})
}

// plainRecurrence is Recurrence in GoMLX's ops: a loop, or time step after time step for a
// backend without DynamicSlice, which is the Go backend of tests.
func (o Ops) plainRecurrence(r models.Recurrence) *Node {
	r.Z, r.Recurrent = to(r.Z, o.Compute), to(r.Recurrent, o.Compute)
	if r.Biases != nil {
		r.Biases = to(r.Biases, o.Compute)
	}
	var l models.Lowering = models.Plain{}
	if r.Z.Graph().Backend().Capabilities().Operations[compute.OpTypeDynamicSlice] {
		l = xla.Lowering{}
	}
	return to(r.By(l), dtypes.Float32)
}
