package triton

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
)

// Value is a scalar or a tile of numbers, or of addresses, in a block. Methods
// that take any take a Value or a Go number.
type Value struct {
	b      *Block
	name   string
	typ    Type
	home   *region
	number *float64 // of a constant
	base   string   // of addresses: the parameter they are in
}

// in marks addresses as those of the array that u is in.
func (v Value) in(u Value) Value {
	v.base = u.base
	return v
}

// Type is what v is.
func (v Value) Type() Type { return v.typ }

// DType is the type of v's elements, or of what its addresses point to.
func (v Value) DType() dtypes.DType { return v.typ.DType }

// Dims are the sides of the tile; nil for a scalar.
func (v Value) Dims() []int { return slices.Clone(v.typ.Dims) }

// IsZero reports whether v is the zero Value, which is none.
func (v Value) IsZero() bool { return v.b == nil }

// use checks that v may be used here.
func (v Value) use(op string) Value {
	if v.b == nil {
		panic(&Error{Kernel: "?", Op: op, Where: outside(), Text: "got the zero Value, want one that a Block made"})
	}
	if !v.b.open.sees(v.home) {
		v.b.refuse(op, "got %s from a loop or branch that has ended; carry it out as a result", v.typ)
	}
	return v
}

// operand makes x a value that fits like: a number becomes a constant of its
// type.
func (b *Block) operand(op string, x any, like Type) Value {
	switch n := x.(type) {
	case Value:
		n.use(op)
		if n.b != b {
			b.refuse(op, "got a value of kernel %s, want one of this", n.b.kernel.Name)
		}
		return n
	case int:
		return b.constant(op, Type{DType: like.DType, Pointer: like.Pointer, Dims: like.Dims}, float64(n))
	case float64:
		return b.constant(op, Type{DType: like.DType, Pointer: like.Pointer, Dims: like.Dims}, n)
	}
	b.refuse(op, "got a %T, want a Value, an int or a float64", x)
	return Value{}
}

// Like is a number as a tile, or a scalar, of v's type.
func (v Value) Like(number float64) Value { return v.use("Like").b.operand("Like", number, v.typ) }

// stretch gives v other dimensions: a scalar is splat, sides of 1 are repeated.
func (v Value) stretch(op string, dims []int) Value {
	b, have := v.b, v.typ.Dims
	if slices.Equal(have, dims) {
		return v
	}
	t := v.typ
	t.Dims = dims
	b.checkTile(op, dims)
	if v.number != nil && !t.Pointer {
		return b.constant(op, t, *v.number)
	}
	if have == nil {
		return b.op(t, "tt.splat %s : %s -> %s", v.name, v.typ, t).in(v)
	}
	if len(have) != len(dims) {
		b.refuse(op, "got tiles of %v and %v, want one rank; make rows with Expand(0) and columns with Expand(1)", have, dims)
	}
	for i := range have {
		if have[i] != 1 && have[i] != dims[i] {
			b.refuse(op, "got tiles of %v and %v, want equal sides, or 1", have, dims)
		}
	}
	return b.op(t, "tt.broadcast %s : %s -> %s", v.name, v.typ, t).in(v)
}

// common is the dimensions that two operands have together.
func (b *Block) common(op string, x, y []int) []int {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	case len(x) != len(y):
		b.refuse(op, "got tiles of %v and %v, want one rank; make rows with Expand(0) and columns with Expand(1)", x, y)
	}
	dims := slices.Clone(x)
	for i := range dims {
		if dims[i] == 1 {
			dims[i] = y[i]
		} else if y[i] != 1 && y[i] != x[i] {
			b.refuse(op, "got tiles of %v and %v, want equal sides, or 1", x, y)
		}
	}
	return dims
}

// join gives two operands one type.
func (v Value) join(op string, y any) (Value, Value) {
	v.use(op)
	w := v.b.operand(op, y, v.typ)
	if v.typ.Pointer || w.typ.Pointer || v.typ.DType != w.typ.DType {
		v.b.refuse(op, "got %s and %s, want numbers of one type; change one with To", v.typ, w.typ)
	}
	dims := v.b.common(op, v.typ.Dims, w.typ.Dims)
	return v.stretch(op, dims), w.stretch(op, dims)
}

// Spread repeats v to the given sides.
func (v Value) Spread(dims ...int) Value { return v.use("Spread").stretch("Spread", dims) }

// Expand puts a side of 1 before axis: of a vector, Expand(0) is a row and
// Expand(1) a column.
func (v Value) Expand(axis int) Value {
	v.use("Expand")
	if v.typ.Dims == nil || axis < 0 || axis > len(v.typ.Dims) {
		v.b.refuse("Expand", "got axis %d of a tile of %v, want 0 to %d", axis, v.typ.Dims, len(v.typ.Dims))
	}
	t := v.typ
	t.Dims = slices.Insert(slices.Clone(t.Dims), axis, 1)
	return v.b.op(t, "tt.expand_dims %s {axis = %d : i32} : %s -> %s", v.name, axis, v.typ, t).in(v)
}

// Transpose swaps the last two sides.
func (v Value) Transpose() Value {
	v.use("Transpose")
	n := len(v.typ.Dims)
	if n < 2 {
		v.b.refuse("Transpose", "got a tile of %v, want rank 2 or more", v.typ.Dims)
	}
	t := v.typ
	t.Dims = slices.Clone(t.Dims)
	t.Dims[n-1], t.Dims[n-2] = t.Dims[n-2], t.Dims[n-1]
	order := "1, 0"
	if n == 3 {
		order = "0, 2, 1"
	} else if n > 3 {
		v.b.refuse("Transpose", "got a tile of %v, want rank 2 or 3", v.typ.Dims)
	}
	return v.b.op(t, "tt.trans %s {order = array<i32: %s>} : %s -> %s", v.name, order, v.typ, t).in(v)
}

// Gather takes, at each place, the element of v whose place along axis is index
// there, int32. All other sides of v and index are equal; the result has
// index's. Within a warp it is a shuffle.
func (v Value) Gather(axis int, index Value) Value {
	v.use("Gather")
	index.use("Gather")
	d, e := v.typ.Dims, index.typ.Dims
	if v.typ.Pointer || axis < 0 || axis >= len(d) || len(d) != len(e) || !index.typ.isInt() || index.typ.DType != dtypes.Int32 {
		v.b.refuse("Gather", "got axis %d of %s by %s, want numbers, one of their axes, and int32 of as many", axis, v.typ, index.typ)
	}
	for i := range d {
		if i != axis && d[i] != e[i] {
			v.b.refuse("Gather", "got tiles of %v and %v, want equal sides but for axis %d", d, e, axis)
		}
	}
	t := Type{DType: v.typ.DType, Dims: slices.Clone(e)}
	return v.b.op(t, "tt.gather %s[%s] {axis = %d : i32} : (%s, %s) -> %s", v.name, index.name, axis, v.typ, index.typ, t)
}

// Reshape gives the tile other sides; elements stay in their order.
func (v Value) Reshape(dims ...int) Value {
	v.use("Reshape")
	t := v.typ
	t.Dims = dims
	v.b.checkTile("Reshape", dims)
	if sizeOf(dims) != sizeOf(v.typ.Dims) || dims == nil || v.typ.Dims == nil {
		v.b.refuse("Reshape", "got %v to %v, want as many elements", v.typ.Dims, dims)
	}
	return v.b.op(t, "tt.reshape %s : %s -> %s", v.name, v.typ, t).in(v)
}

func sizeOf(dims []int) int {
	size := 1
	for _, d := range dims {
		size *= d
	}
	return size
}
