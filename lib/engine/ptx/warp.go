package ptx

import "slices"

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
	if len(sum) != 4 || len(x) != 4 || len(y) != 2 {
		b.refuse("Dot of %d, %d and %d registers, want 4, 4 and 2", len(sum), len(x), len(y))
	}
	for _, v := range slices.Concat(sum, x, y) {
		if v.any("Dot", float); v.fixed {
			b.refuse("Dot of a constant, want registers")
		}
	}
	b.write("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %s, %s, %s, %s;", braced(sum), braced(x), braced(y), braced(sum))
}
