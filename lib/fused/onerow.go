package fused

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// OneRow is that of xla.Calls. The gradient is that of the plain form.
func (o Ops) OneRow(f xla.OneRow) []*Node {
	op, is := oneRow(f)
	if is {
		op, is = choose(o, op)
	}
	if !is {
		return nil
	}
	in := f.Operands()
	all := o.call(op.Kernel(), in...)
	for i, y := range all[:len(f.Layers)] {
		all[i] = gradient.Define(y, in, func(v *Node) []*Node {
			return gradient.Of(func(in []*Node) *Node { return f.With(in).Plain()[i] }, in, v)
		})
	}
	return all[:len(f.Layers)]
}

// oneRow is the kernel's sizes, if there is one.
func oneRow(f xla.OneRow) (op kernels.OneRow, is bool) {
	d, first := f.X.Shape().Dimensions, f.Layers[0]
	op = kernels.OneRow{
		In: d[1], Norm: f.Scale != nil, Offset: f.Offset != nil, Epsilon: f.Epsilon,
		Biases: first.Biases != nil, Residual: f.Residual != nil, X: f.X.DType(), W: first.W.DType(),
	}
	if f.Scale != nil {
		op.Scale = f.Scale.DType()
	}
	if len(f.Layers) > len(op.Units) || d[0] > 1 || op.Norm && op.In > kernels.LargestNorm || !op.X.IsFloat() || op.X.Bits() > 32 {
		return op, false
	}
	units := 0
	for i, l := range f.Layers {
		act, known := kernels.Identity, true
		if l.Act != nil {
			act, known = l.Act.Activation()
		}
		if i == 0 {
			op.Act = act
		}
		if !known || act != op.Act || (l.Biases != nil) != op.Biases || l.W.DType() != op.W || op.W != op.X || l.Biases != nil && l.Biases.DType() != op.W {
			return op, false
		}
		op.Units[i] = l.W.Shape().Dimensions[1]
		units += op.Units[i]
	}
	if units > kernels.LargestRow {
		return op, false
	}
	return op, f.Offset == nil || f.Offset.DType() == op.Scale
}

// AttendCached is that of xla.Calls.
func (o Ops) AttendCached(q, k, v, keys, values *Node, at models.CachePlace, a models.Attending) (y, newKeys, newValues *Node) {
	d, cache := q.Shape().Dimensions, keys.Shape().Dimensions
	op := kernels.CachedAttention{
		Rows: d[0], Heads: d[2], Groups: cache[1], Size: d[3], Slots: cache[2], Window: a.Window, Scale: a.ScaleOf(d[3]), SoftCap: a.SoftCap, X: q.DType(),
	}
	op, is := choose(o, op)
	if !is || d[2]/cache[1] > kernels.MostQueries || !op.X.IsFloat() || op.X.Bits() > 32 || k.DType() != op.X || v.DType() != op.X {
		return nil, nil, nil
	}
	flat := func(x *Node) *Node { return Reshape(x, d[0], x.Shape().Size()/d[0]) }
	out := o.call(op.Kernel(), flat(q), flat(k), flat(v), keys, values, at.At, at.Position, at.Slot)
	return Reshape(out[0], d...), out[1], out[2]
}

// PlainCached is AttendCached in operations that every backend has.
func PlainCached(q, k, v, keys, values *Node, at models.CachePlace, a models.Attending) (y, newKeys, newValues *Node) {
	d := keys.Shape().Dimensions
	slots := Iota(q.Graph(), shapes.Make(dtypes.Int32, d...), 2)
	put := func(all, one *Node) *Node {
		return Where(Equal(slots, BroadcastToDims(at.Slot, d...)), BroadcastToDims(Reshape(one, d[0], d[1], 1, d[3]), d...), all)
	}
	keys, values = put(keys, k), put(values, v)
	position := BroadcastToDims(InsertAxes(at.Position, -1), d[0], d[2])
	seen := LogicalAnd(GreaterOrEqual(at.At, ZerosLike(at.At)), LessOrEqual(at.At, position))
	if a.Window > 0 {
		seen = LogicalAnd(seen, GreaterThan(at.At, AddScalar(position, -float64(a.Window))))
	}
	a.Causal, a.Window = false, 0
	a.KeySegments, a.QuerySegments = ConvertDType(seen, dtypes.Int32), Ones(q.Graph(), shapes.Make(dtypes.Int32, d[0], 1))
	first := func(x *Node) *Node { return TransposeAllAxes(x, 0, 2, 1, 3) }
	return models.Attend(q, first(keys), first(values), a), keys, values
}
