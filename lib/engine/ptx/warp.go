package ptx

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
)

// Sync waits for all threads of the block.
func (b *Block) Sync() { b.write("bar.sync 0;") }

// Arrive waits for all threads of the block and then adds one to the counter at an
// address, once all that they have stored is there for those who await it.
func (b *Block) Arrive(thread, counter Value) {
	b.Sync()
	first := thread.Equal(0)
	b.write("@%s red.release.gpu.global.add.u32 [%s], 1;", first.name, b.value(address, counter).name)
}

// patience is how often a counter is looked at, about 0.3 µs each time, before the
// program is ended.
const patience = 1 << 25

// Spin waits, each thread for itself, until the counter at an address has come to
// count.
func (b *Block) Spin(counter, count Value) {
	tries := b.Var(0)
	top, out := b.label(), b.label()
	b.write("%s:", top)
	now := b.register(word)
	b.write("ld.acquire.gpu.global.u32 %s, [%s];", now.name, b.value(address, counter).name)
	b.write("@%s bra %s;", now.Less(count).Not().name, out)
	b.write("add.u32 %s, %s, 1;", tries.name, tries.name)
	b.write("@%s bra %s;", tries.Less(patience).name, top)
	b.write("trap;")
	b.write("%s:", out)
}

// Await is Spin by the block's first thread, for which all others wait.
func (b *Block) Await(thread, counter, count Value) {
	b.If(thread.Equal(0), func() { b.Spin(counter, count) })
	b.Sync()
}

// Other is v of the thread of the warp whose number differs in the bits of mask.
func (v Value) Other(mask int) Value {
	v.any("Other", word, float)
	return v.b.op(v.kind, "shfl.sync.bfly.b32", v, v.b.U32(mask), v.b.U32(31), v.b.U32(-1))
}

// Of is v of the thread of the warp with this number.
func (v Value) Of(lane any) Value {
	v.any("Of", word, float)
	return v.b.op(v.kind, "shfl.sync.idx.b32", v, v.b.value(word, lane), v.b.U32(31), v.b.U32(-1))
}

// Dot adds to sum the product of x [16 8] and y [8 8], of which it reads ten
// digits after the point. A warp's thread number 4g+t has, of sum [16 8], the
// elements [g 2t], [g 2t+1], [g+8 2t] and [g+8 2t+1], of x [g t], [g+8 t], [g t+4] and
// [g+8 t+4], and of y [t g] and [t+4 g] (PTX ISA, mma.m16n8k8 for .tf32).
func (b *Block) Dot(sum, x, y []Value) {
	b.dot("Dot", "m16n8k8", "tf32", float, sum, x, y)
}

// DotHalves is Dot of x [16 16] and y [16 8], Float16 or BFloat16, which [Block.Matrices]
// loads and [Block.Halves] makes: two numbers in a register, the first in its low half.
// The thread has of x [g 2t], [g+8 2t], [g 2t+8] and [g+8 2t+8], each with what is
// right of it, and of y [2t g] and [2t+8 g], with what is below (PTX ISA, mma.m16n8k16).
func (b *Block) DotHalves(d dtypes.DType, sum, x, y []Value) {
	b.dot("DotHalves", "m16n8k16", b.half(d), word, sum, x, y)
}

func (b *Block) dot(what, sizes, element string, k kind, sum, x, y []Value) {
	if len(sum) != 4 || len(x) != 4 || len(y) != 2 {
		b.refuse("%s of %d, %d and %d registers, want 4, 4 and 2", what, len(sum), len(x), len(y))
	}
	check := func(l []Value, k kind) {
		for _, v := range l {
			if v.any(what, k); v.fixed {
				b.refuse("%s of a constant, want registers", what)
			}
		}
	}
	check(sum, float)
	check(slices.Concat(x, y), k)
	b.write("mma.sync.aligned.%s.row.col.f32.%s.%s.f32 %s, %s, %s, %s;", sizes, element, element, braced(sum), braced(x), braced(y), braced(sum))
}

// half is what PTX calls an element type of 16 bits.
func (b *Block) half(d dtypes.DType) string {
	switch d {
	case dtypes.Float16:
		return "f16"
	case dtypes.BFloat16:
		return "bf16"
	}
	b.refuse("got %s, want Float16 or BFloat16", d)
	return ""
}

// Halves rounds two float32 to halves of one register.
func (b *Block) Halves(d dtypes.DType, low, high Value) Value {
	return b.op(word, "cvt.rn."+b.half(d)+"x2.f32", b.value(float, high), b.value(float, low))
}

// Matrices loads n matrices [8 8] of numbers of 16 bits from shared memory, n of 2 or 4:
// the threads from 8i on have the addresses of the rows of matrix i, which are multiples of 16
// bytes; with n = 2 those from 16 on do not matter. Of each matrix a thread 4g+t gets [g 2t]
// and [g 2t+1] in a register, or, transposed, [2t g] and [2t+1 g].
func (b *Block) Matrices(n int, transposed bool, address Value, offset int) []Value {
	address.want(word, "memory")
	if n != 2 && n != 4 {
		b.refuse("%d matrices, want 2 or 4", n)
	}
	to, turned := make([]Value, n), ""
	for i := range to {
		to[i] = b.register(word)
	}
	if transposed {
		turned = ".trans"
	}
	b.write("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%s+%d];", n, turned, braced(to), address.name, offset)
	return to
}
