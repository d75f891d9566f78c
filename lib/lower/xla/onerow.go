package xla

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// OneRow is dense layers of one row, as one kernel: of X [1 in], which is normalized first
// if Scale is not nil, see models.Lowering. Residual, which may be nil, is added to what the only
// layer gives.
type OneRow struct {
	X, Scale, Offset *Node
	Epsilon          float64
	Layers           []models.Linear
	Residual         *Node
}

// Operands are all arrays of it, and With gives it others.
func (f OneRow) Operands() (all []*Node) {
	f.each(func(x **Node) { all = append(all, *x) })
	return all
}

// With is f of other operands.
func (f OneRow) With(operands []*Node) OneRow {
	f.Layers = slices.Clone(f.Layers)
	f.each(func(x **Node) { *x, operands = operands[0], operands[1:] })
	return f
}

func (f *OneRow) each(do func(x **Node)) {
	all := []**Node{&f.X, &f.Scale, &f.Offset}
	for i := range f.Layers {
		all = append(all, &f.Layers[i].W, &f.Layers[i].Biases)
	}
	for _, x := range append(all, &f.Residual) {
		if *x != nil {
			do(x)
		}
	}
}

// Plain is the same in GoMLX's operations.
func (f OneRow) Plain() (all []*Node) {
	x := f.X
	if f.Scale != nil {
		var offset *Node
		if f.Offset != nil {
			offset = float(f.Offset)
		}
		x = models.Plain{}.Norm(x, float(f.Scale), offset, f.Epsilon)
	}
	for _, y := range (models.Plain{}).Dense(x, f.Layers...) {
		if f.Residual != nil {
			y = Add(y, f.Residual)
		}
		all = append(all, y)
	}
	return all
}

// isRow says whether x is one row of which dense layers are kernels.
func (l Lowering) isRow(x *Node) bool {
	return l.Calls != nil && l.Shared != nil && l.Shared.Inference && lower.OneRow(l.Target, x.Shape().Size()/last(x))
}

// rowLayers are the results of dense layers of x [1 in]; nil: there is no kernel.
func (l Lowering) rowLayers(x *Node, layers []models.Linear) []*Node {
	if !l.isRow(x) {
		return nil
	}
	forms := []OneRow{{X: x, Layers: layers}}
	if normal, is := l.Shared.rows[unshaped(x)]; is && len(normal.Layers) == 0 {
		normal.X, normal.Layers = Reshape(normal.X, x.Shape().Dimensions...), layers
		forms = []OneRow{normal, forms[0]}
	}
	for _, f := range forms {
		if all := l.Calls.OneRow(f); all != nil {
			if len(all) == 1 {
				l.Shared.rows[all[0]] = f
			}
			return all
		}
	}
	return nil
}

// normalized notes that y is x normalized: dense layers of y may do that themselves.
func (l Lowering) normalized(y, x, scale, offset *Node, epsilon float64) {
	narrow := func(v *Node) *Node { // as it is in memory
		if v != nil && v.Type() == NodeTypeConvertDType && v.Inputs()[0].DType() == x.DType() {
			return v.Inputs()[0]
		}
		return v
	}
	l.Shared.rows[y] = OneRow{X: x, Scale: narrow(scale), Offset: narrow(offset), Epsilon: epsilon}
}

// joined is x + y where a dense layer made y, in that layer's kernel; nil: it is not.
func (l Lowering) joined(x, y *Node) *Node {
	if !l.isRow(y) {
		return nil
	}
	f, is := l.Shared.rows[unshaped(y)]
	if !is || len(f.Layers) != 1 || f.Residual != nil || x.DType() != y.DType() {
		return nil
	}
	f.Residual = Reshape(x, unshaped(y).Shape().Dimensions...)
	if all := l.Calls.OneRow(f); all != nil {
		return Reshape(all[0], y.Shape().Dimensions...)
	}
	return nil
}

// AttendCached is that of models.Lowering.
func (l Lowering) AttendCached(q, k, v, keys, values *Node, at models.CachePlace, a models.Attending) (y, newKeys, newValues *Node) {
	if l.Calls == nil || l.Shared == nil || !l.Shared.Inference || !l.Target.Triton || a.ALiBi {
		return nil, nil, nil
	}
	return l.Calls.AttendCached(q, k, v, keys, values, at, a)
}
