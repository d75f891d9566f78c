package triton

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// Block is one block of the grid at work. Kernel.Body is given one; its methods
// and those of the Values it makes write the kernel. What they cannot write they
// refuse by a panic with an *Error, which Kernel.Text returns.
type Block struct {
	kernel    *Kernel
	inputs    []Value
	outputs   []Value
	constants map[string]Value
	head      []string // the constants' lines
	lines     []string
	open      *region // the innermost
	count     int
	stored    map[string]bool
}

// region is a part of the text whose values end with it.
type region struct {
	outer *region
	depth int
	ended bool
}

// sees says whether a value of region d can be used in r.
func (r *region) sees(d *region) bool {
	for ; r != nil; r = r.outer {
		if r == d {
			return true
		}
	}
	return false
}

// parameters writes what the kernel is given, first inputs, then outputs, as
// XLA passes them.
func (b *Block) parameters() {
	one := func(name string, i int, s shapes.Shape) Value {
		name += strconv.Itoa(i)
		return Value{b: b, name: name, typ: Type{DType: s.DType, Pointer: true}, home: b.open, base: name}
	}
	for i, s := range b.kernel.Inputs {
		b.inputs = append(b.inputs, one("%in", i, s))
	}
	for i, s := range b.kernel.Outputs {
		b.outputs = append(b.outputs, one("%out", i, s))
	}
}

// text puts the module together. XLA's buffers begin at multiples of 16 bytes
// or more, which lets Triton move four numbers at once.
func (b *Block) text() string {
	var t strings.Builder
	grid := b.kernel.Launched()
	fmt.Fprintf(&t, "// %s: grid %d×%d×%d, %d warps, %d stages\n", b.kernel.Name, grid[0], grid[1], grid[2], b.kernel.warps(), b.kernel.stages())
	t.WriteString("module {\n  tt.func public @" + b.kernel.Name + "(")
	var all []string
	for i, v := range b.inputs {
		all = append(all, fmt.Sprintf("%s: %s {tt.divisibility = 16 : i32}", v.name, b.inputs[i].typ))
	}
	for i := range b.kernel.After {
		all = append(all, fmt.Sprintf("%%after%d: !tt.ptr<i8>", i))
	}
	for _, v := range b.outputs {
		all = append(all, fmt.Sprintf("%s: %s {tt.divisibility = 16 : i32}", v.name, v.typ))
	}
	t.WriteString(strings.Join(all, ", ") + ") {\n")
	for _, l := range b.head {
		t.WriteString("    " + l + "\n")
	}
	for _, l := range b.lines {
		t.WriteString("    " + l + "\n")
	}
	t.WriteString("    tt.return\n  }\n}\n")
	return t.String()
}

// line writes a line at the depth of the open region.
func (b *Block) line(format string, args ...any) {
	b.lines = append(b.lines, strings.Repeat("  ", b.open.depth)+fmt.Sprintf(format, args...))
}

// fresh is a name that is new to the kernel.
func (b *Block) fresh() string {
	b.count++
	return "%" + strconv.Itoa(b.count-1)
}

// value is a new value of the open region.
func (b *Block) value(t Type) Value {
	return Value{b: b, name: b.fresh(), typ: t, home: b.open}
}

// op writes "%n = what" and returns the value.
func (b *Block) op(t Type, format string, args ...any) Value {
	v := b.value(t)
	b.line("%s = %s", v.name, fmt.Sprintf(format, args...))
	return v
}

// enter opens a region, and leave closes it.
func (b *Block) enter() { b.open = &region{outer: b.open, depth: b.open.depth + 1} }
func (b *Block) leave() {
	b.open.ended = true
	b.open = b.open.outer
}

// Note writes a comment into the text.
func (b *Block) Note(format string, args ...any) {
	b.line("// %s", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// Input is the address of the first element of input i.
func (b *Block) Input(i int) Value {
	if i < 0 || i >= len(b.inputs) {
		b.refuse("Input", "got number %d, want less than %d", i, len(b.inputs))
	}
	return b.inputs[i]
}

// Output is the address of the first element of output i.
func (b *Block) Output(i int) Value {
	if i < 0 || i >= len(b.outputs) {
		b.refuse("Output", "got number %d, want less than %d", i, len(b.outputs))
	}
	return b.outputs[i]
}

// ProgramID is the block's place along an axis of the grid, an int32.
func (b *Block) ProgramID(axis int) Value {
	if axis < 0 || axis > 2 {
		b.refuse("ProgramID", "got axis %d, want 0, 1 or 2", axis)
	}
	grid, launched, i32 := b.kernel.Grid, b.kernel.Launched(), Type{DType: dtypes.Int32}
	if max(1, grid[axis]) == launched[axis] {
		return b.op(i32, "tt.get_program_id %s : i32", "xyz"[axis:axis+1])
	}
	id := b.op(i32, "tt.get_program_id x : i32")
	for _, n := range grid[:axis] {
		id = id.Div(max(1, n))
	}
	return id.Rem(max(1, grid[axis]))
}

// Range is the row 0, 1, …, n-1 of int32.
func (b *Block) Range(n int) Value {
	t := Type{DType: dtypes.Int32, Dims: []int{n}}
	b.checkTile("Range", t.Dims)
	return b.op(t, "tt.make_range {start = 0 : i32, end = %d : i32} : %s", n, t)
}

// Full is a tile of one number, or, without dims, a scalar.
func (b *Block) Full(d dtypes.DType, number float64, dims ...int) Value {
	if element(d) == "" {
		b.refuse("Full", "got elements of %s, want bool, int32, int64, float32, bfloat16 or float16", d)
	}
	b.checkTile("Full", dims)
	return b.constant("Full", Type{DType: d, Dims: dims}, number)
}

// Zeros is a tile of zeros, or, without dims, a scalar.
func (b *Block) Zeros(d dtypes.DType, dims ...int) Value { return b.Full(d, 0, dims...) }

// constant stands at the head of the kernel, once.
func (b *Block) constant(op string, t Type, number float64) Value {
	text, ok := literal(t.DType, number)
	if !ok || t.Pointer {
		b.refuse(op, "got the number %v, want one that %s can hold", number, t)
	}
	typed := text + " : " + t.String()
	if len(t.Dims) > 0 {
		typed = "dense<" + text + "> : " + t.String()
	} else if t.DType == dtypes.Bool {
		typed = text
	}
	if v, is := b.constants[typed]; is {
		return v
	}
	outermost := b.open
	for outermost.outer != nil {
		outermost = outermost.outer
	}
	v := Value{b: b, name: "%c" + strconv.Itoa(len(b.constants)), typ: t, home: outermost, number: &number}
	b.constants[typed] = v
	b.head = append(b.head, v.name+" = arith.constant "+typed)
	return v
}

// checkTile refuses sides that Triton does not have.
func (b *Block) checkTile(op string, dims []int) {
	size := 1
	for _, d := range dims {
		if !isPowerOfTwo(d) {
			b.refuse(op, "got a tile of %v, want sides that are powers of two; cover the rest with a mask", dims)
		}
		if size *= d; size > largestTile {
			b.refuse(op, "got a tile of %v, want at most %d elements", dims, largestTile)
		}
	}
}
