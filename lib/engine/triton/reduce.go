package triton

import (
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"
)

// reduced is v's type without an axis.
func (v Value) reduced(op string, axis int) Type {
	v.use(op)
	if v.typ.Dims == nil || axis < 0 || axis >= len(v.typ.Dims) || v.typ.Pointer || v.typ.DType == dtypes.Uint8 {
		v.b.refuse(op, "got axis %d of %s, want numbers and one of its axes", axis, v.typ)
	}
	t := v.typ
	t.Dims = slices.Delete(slices.Clone(t.Dims), axis, axis+1)
	if len(t.Dims) == 0 {
		t.Dims = nil
	}
	return t
}

// fold writes a reduction along an axis by one op of two elements.
func (v Value) fold(op string, axis int, float, integer string) Value {
	t := v.reduced(op, axis)
	name := float
	if v.typ.isInt() {
		name = integer
	} else if !v.typ.isFloat() {
		v.b.refuse(op, "got %s, want numbers", v.typ)
	}
	b, e := v.b, element(v.typ.DType)
	r := b.value(t)
	x, y, z := b.fresh(), b.fresh(), b.fresh()
	b.line(`%s = "tt.reduce"(%s) <{axis = %d : i32}> ({`, r.name, v.name, axis)
	b.line("^bb0(%s: %s, %s: %s):", x, e, y, e)
	b.line("  %s = %s %s, %s : %s", z, name, x, y, e)
	b.line("  tt.reduce.return %s : %s", z, e)
	b.line("}) : (%s) -> %s", v.typ, t)
	return r
}

// Sum adds up along an axis, which disappears.
func (v Value) Sum(axis int) Value { return v.fold("Sum", axis, "arith.addf", "arith.addi") }

// SumTogether is Sum along an axis that lies across a block's warps, as the parts of a
// product's depth do. Each thread is given all numbers of its sums first, all at once
// through shared memory, and adds them up; Triton's own reduction passes them from warp
// to warp with a barrier for each.
func (v Value) SumTogether(axis int) Value {
	t := v.reduced("SumTogether", axis)
	if t.Dims == nil || !v.typ.isFloat() {
		v.b.refuse("SumTogether", "got axis %d of %s, want floating-point numbers, and another axis", axis, v.typ)
	}
	order := ""
	for i := range v.typ.Dims {
		if i != axis {
			order += strconv.Itoa(i) + ", "
		}
	}
	n := v.typ.Dims[axis]
	x := v.b.op(t.last(n), "tt.trans %s {order = array<i32: %s%d>} : %s -> %s", v.name, order, axis, v.typ, t.last(n))
	for ; n > 1; n /= 2 {
		x = x.Reshape(t.last(n/2, 2).Dims...)
		half := t.last(n / 2)
		even, odd := v.b.value(half), v.b.value(half)
		v.b.line("%s, %s = tt.split %s : %s -> %s", even.name, odd.name, x.name, x.typ, half)
		x = even.Add(odd)
	}
	return x.Reshape(t.Dims...)
}

// last is the type with more sides at its end.
func (t Type) last(dims ...int) Type {
	t.Dims = append(slices.Clone(t.Dims), dims...)
	return t
}

// Largest is the largest along an axis, which disappears. A NaN wins.
func (v Value) Largest(axis int) Value {
	return v.fold("Largest", axis, "arith.maximumf", "arith.maxsi")
}

// ArgMax is the first place of the largest along an axis, int32, and the
// largest itself. Without NaNs.
func (v Value) ArgMax(axis int) (place, largest Value) {
	t := v.reduced("ArgMax", axis)
	b := v.b
	n := len(v.typ.Dims)
	at := b.Range(v.typ.Dims[axis])
	for i := range n {
		if i != axis {
			at = at.Expand(min(i, len(at.typ.Dims)))
		}
	}
	at = at.Spread(v.typ.Dims...)
	e, more, same := element(v.typ.DType), "arith.cmpf ogt", "arith.cmpf oeq"
	if v.typ.isInt() {
		more, same = "arith.cmpi sgt", "arith.cmpi eq"
	} else if !v.typ.isFloat() {
		b.refuse("ArgMax", "got %s, want numbers", v.typ)
	}
	largest, place = b.value(t), b.value(t.of(dtypes.Int32))
	two := "%top" + place.name[1:]
	largest.name, place.name = two+"#0", two+"#1"
	x, i, y, k := b.fresh(), b.fresh(), b.fresh(), b.fresh()
	above, equal, before, first, wins, best, where := b.fresh(), b.fresh(), b.fresh(), b.fresh(), b.fresh(), b.fresh(), b.fresh()
	b.line(`%s:2 = "tt.reduce"(%s, %s) <{axis = %d : i32}> ({`, two, v.name, at.name, axis)
	b.line("^bb0(%s: %s, %s: i32, %s: %s, %s: i32):", x, e, i, y, e, k)
	b.line("  %s = %s, %s, %s : %s", above, more, x, y, e)
	b.line("  %s = %s, %s, %s : %s", equal, same, x, y, e)
	b.line("  %s = arith.cmpi slt, %s, %s : i32", before, i, k)
	b.line("  %s = arith.andi %s, %s : i1", first, equal, before)
	b.line("  %s = arith.ori %s, %s : i1", wins, above, first)
	b.line("  %s = arith.select %s, %s, %s : %s", best, wins, x, y, e)
	b.line("  %s = arith.select %s, %s, %s : i32", where, wins, i, k)
	b.line("  tt.reduce.return %s, %s : %s, i32", best, where, e)
	b.line("}) : (%s, %s) -> (%s, %s)", v.typ, at.typ, largest.typ, place.typ)
	return place, largest
}
