package ptx

import (
	"fmt"
	"math"
	"strconv"
)

// kind is what a register holds.
type kind int

const (
	word      kind = iota // 32 bits: an integer without sign
	float                 // the same register: a float32
	address               // 64 bits
	condition             // true or false
)

var (
	declared = [...]string{word: "b32", address: "b64", condition: "pred"}
	prefix   = [...]string{word: "r", address: "d", condition: "p"}
	suffix   = [...]string{word: "b32", float: "f32", address: "b64", condition: "pred"} // of instructions that move, or look at bits
	number   = [...]string{word: "u32", float: "f32"}                                    // of arithmetic
	kinds    = [...]string{word: "an integer", float: "a float32", address: "an address", condition: "a condition"}
)

// Block writes what a thread of a block does.
type Block struct {
	kernel    *Kernel
	head      []string // which every thread does first
	lines     []string
	registers [condition + 1]int
	labels    int
}

// Value is a register of a thread, or a constant.
type Value struct {
	b     *Block
	kind  kind
	name  string
	fixed bool // a constant
}

func (b *Block) register(k kind) Value {
	file := k
	if k == float {
		file = word
	}
	b.registers[file]++
	return Value{b: b, kind: k, name: fmt.Sprintf("%%%s%d", prefix[file], b.registers[file]-1)}
}

func (b *Block) write(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// op writes an instruction with a new register as its result.
func (b *Block) op(k kind, name string, args ...Value) Value {
	v := b.register(k)
	b.write("%s %s%s;", name, v.name, list(args))
	return v
}

func list(args []Value) (s string) {
	for _, a := range args {
		s += ", " + a.name
	}
	return s
}

// U32 is an integer constant.
func (b *Block) U32(n int) Value {
	return Value{b: b, kind: word, name: strconv.FormatUint(uint64(uint32(n)), 10), fixed: true}
}

// F32 is a float32 constant.
func (b *Block) F32(x float64) Value {
	return Value{b: b, kind: float, name: fmt.Sprintf("0f%08X", math.Float32bits(float32(x))), fixed: true}
}

// value takes a Value of a kind, or a Go number for one.
func (b *Block) value(k kind, x any) Value {
	v, is := x.(Value)
	switch n := x.(type) {
	case int:
		if v, is = b.U32(n), true; k == float {
			v = b.F32(float64(n))
		}
	case float64:
		v, is = b.F32(n), true
	}
	if !is || v.kind != k {
		got := fmt.Sprintf("%T", x)
		if is {
			got = kinds[v.kind]
		}
		b.refuse("got %s, want %s", got, kinds[k])
	}
	return v
}

// special is a register that the device sets.
func (b *Block) special(name string) Value {
	v := b.register(word)
	b.head = append(b.head, fmt.Sprintf("mov.u32 %s, %s;", v.name, name))
	return v
}

// ThreadID is the thread's number in its block.
func (b *Block) ThreadID() Value { return b.special("%tid.x") }

// BlockID is the block's number.
func (b *Block) BlockID() Value { return b.special("%ctaid.x") }

// Input is the address of an input.
func (b *Block) Input(i int) Value { return b.parameter("input", i, len(b.kernel.Inputs), 0) }

// Output is the address of an output.
func (b *Block) Output(i int) Value {
	return b.parameter("output", i, len(b.kernel.Outputs), len(b.kernel.Inputs))
}

func (b *Block) parameter(role string, i, n, first int) Value {
	if i < 0 || i >= n {
		b.refuse("got %s %d, want a number below %d", role, i, n)
	}
	given, v := b.register(address), b.register(address)
	b.write("ld.param.u64 %s, [p%d];", given.name, first+i)
	b.write("cvta.to.global.u64 %s, %s;", v.name, given.name)
	return v
}

// Shared is the address of a byte of the block's shared memory, an integer.
func (b *Block) Shared(offset int) Value {
	if offset < 0 || offset >= b.kernel.Shared {
		b.refuse("got byte %d of shared memory, want one of %d", offset, b.kernel.Shared)
	}
	v := b.register(word)
	b.write("mov.u32 %s, shared;", v.name)
	b.write("add.u32 %s, %s, %d;", v.name, v.name, offset)
	return v
}

// Var is a register that Set changes.
func (b *Block) Var(x any) Value {
	v, is := x.(Value)
	if !is {
		if _, whole := x.(int); whole {
			v = b.value(word, x)
		} else {
			v = b.value(float, x)
		}
	}
	to := b.register(v.kind)
	b.Set(to, v)
	return to
}

// Set changes a register.
func (b *Block) Set(to Value, x any) {
	if to.fixed {
		b.refuse("got a constant, want a register of Var")
	}
	b.write("mov.%s %s, %s;", suffix[to.kind], to.name, b.value(to.kind, x).name)
}

// any refuses a value of none of these kinds.
func (v Value) any(what string, of ...kind) {
	for _, k := range of {
		if v.kind == k {
			return
		}
	}
	v.b.refuse("%s of %s", what, kinds[v.kind])
}

func (b *Block) label() string {
	b.labels++
	return fmt.Sprintf("L%d", b.labels-1)
}

// If writes what the threads do for which c holds.
func (b *Block) If(c Value, then func()) {
	end := b.label()
	b.write("@!%s bra %s;", b.value(condition, c).name, end)
	then()
	b.write("%s:", end)
}

// For writes a loop that all threads of a warp run alike: i from first to before end.
func (b *Block) For(first, end any, step int, body func(i Value)) {
	i := b.Var(b.value(word, first))
	top, out := b.label(), b.label()
	b.write("%s:", top)
	b.write("@%s bra %s;", i.Less(end).Not().name, out)
	body(i)
	b.write("add.u32 %s, %s, %d;", i.name, i.name, step)
	b.write("bra %s;", top)
	b.write("%s:", out)
}
