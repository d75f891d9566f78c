package triton

import (
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// At is the address index elements further on; index is int32 or int64.
func (v Value) At(index any) Value {
	v.use("At")
	if !v.typ.Pointer {
		v.b.refuse("At", "got %s, want addresses; they come from Block.Input and Output", v.typ)
	}
	i := v.b.operand("At", index, Type{DType: dtypes.Int32, Dims: v.typ.Dims})
	if !i.typ.isInt() || i.typ.DType == dtypes.Uint8 {
		v.b.refuse("At", "got an index of %s, want int32 or int64", i.typ)
	}
	dims := v.b.common("At", v.typ.Dims, i.typ.Dims)
	p, i := v.stretch("At", dims), i.stretch("At", dims)
	return v.b.op(p.typ, "tt.addptr %s, %s : %s, %s", p.name, i.name, p.typ, i.typ).in(v)
}

// Load reads from each address.
func (v Value) Load() Value { return v.load("Load", "", v.typ.Dims) }

// LoadIf reads where mask holds, and is other elsewhere.
func (v Value) LoadIf(mask Value, other any) Value {
	v.use("LoadIf")
	p, m := v.masked("LoadIf", mask)
	t := p.typ
	t.Pointer = false
	if t.DType == dtypes.Bool {
		t.DType = dtypes.Uint8
	}
	o := v.b.operand("LoadIf", other, t)
	if o.typ.Pointer || o.typ.DType != t.DType {
		v.b.refuse("LoadIf", "got %s for elements that are not read, want %s", o.typ, t)
	}
	o = o.stretch("LoadIf", t.Dims)
	return p.load("LoadIf", ", "+m.name+", "+o.name, t.Dims)
}

func (v Value) load(op, rest string, dims []int) Value {
	v.use(op)
	if !v.typ.Pointer {
		v.b.refuse(op, "got %s, want addresses; see Value.At", v.typ)
	}
	t := Type{DType: v.typ.DType, Dims: dims}
	if t.DType == dtypes.Bool {
		t.DType = dtypes.Uint8
	}
	x := v.b.op(t, "tt.load %s%s : %s", v.name, rest, v.typ)
	if v.typ.DType == dtypes.Bool {
		zero := v.b.constant(op, t, 0)
		return v.b.op(t.of(dtypes.Bool), "arith.cmpi ne, %s, %s : %s", x.name, zero.name, t)
	}
	return x
}

// Store writes x to each address.
func (v Value) Store(x any) { v.store("Store", x, nil) }

// StoreIf writes x where mask holds.
func (v Value) StoreIf(mask Value, x any) { v.store("StoreIf", x, &mask) }

func (v Value) store(op string, x any, mask *Value) {
	v.use(op)
	if !v.typ.Pointer {
		v.b.refuse(op, "got %s, want addresses; see Value.At", v.typ)
	}
	if !strings.HasPrefix(v.base, "%out") {
		v.b.refuse(op, "got an address of an input, want one of an output; see Kernel.Aliases for arrays that are both")
	}
	t := Type{DType: v.typ.DType, Dims: v.typ.Dims}
	w := v.b.operand(op, x, t)
	if w.typ.Pointer || w.typ.DType != t.DType {
		v.b.refuse(op, "got %s for an array of %s, want one type; change it with To", w.typ, t.DType)
	}
	p, rest := v, ""
	dims := v.b.common(op, p.typ.Dims, w.typ.Dims)
	p = p.stretch(op, dims)
	if mask != nil {
		var m Value
		p, m = p.masked(op, *mask)
		rest = ", " + m.name
	}
	w = w.stretch(op, p.typ.Dims)
	if t.DType == dtypes.Bool {
		byteType := w.typ
		byteType.DType = dtypes.Uint8
		w = v.b.op(byteType, "arith.extui %s : %s to %s", w.name, w.typ, byteType)
	}
	v.b.line("tt.store %s, %s%s : %s", p.name, w.name, rest, p.typ)
	v.b.stored[v.base] = true
}

// masked gives addresses and mask one shape.
func (v Value) masked(op string, mask Value) (p, m Value) {
	mask.use(op)
	if !v.typ.Pointer {
		v.b.refuse(op, "got %s, want addresses; see Value.At", v.typ)
	}
	if !mask.typ.isBool() {
		v.b.refuse(op, "got a mask of %s, want bools", mask.typ)
	}
	dims := v.b.common(op, v.typ.Dims, mask.typ.Dims)
	return v.stretch(op, dims), mask.stretch(op, dims)
}
