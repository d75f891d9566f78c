package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// At is the address of element i, of so many bytes, after v. Of an address in
// shared memory, which is an integer, it is another such.
func (v Value) At(i any, bytes int) Value {
	if n, is := i.(int); is && n < 0 {
		v.b.refuse("element %d, want one from 0 on", n)
	}
	w := v.b.value(word, i)
	switch {
	case v.kind == address && w.fixed:
		return v.b.op(address, "add.u64", v, v.b.op(address, "mul.wide.u32", v.b.Var(w), v.b.U32(bytes)))
	case v.kind == address:
		return v.b.op(address, "mad.wide.u32", w, v.b.U32(bytes), v)
	}
	v.want(word, "At")
	if w.fixed {
		w = v.b.Var(w)
	}
	return v.b.op(word, "mad.lo.u32", w, v.b.U32(bytes), v)
}

// space is how memory at v is called, and how it is read past the first cache: what
// other blocks have written is not seen in there.
func (v Value) space() (name, cache string) {
	if v.kind == address {
		return "global", ".cg"
	}
	v.want(word, "memory")
	return "shared", ""
}

// Load reads the 32 bits at so many bytes after v.
func (v Value) Load(offset int) Value { return v.LoadVector(1, offset)[0] }

// LoadVector reads 1, 2 or 4 times 32 bits that lie side by side, at a multiple of
// that size.
func (v Value) LoadVector(n, offset int) []Value {
	space, cache := v.space()
	v.sides(n)
	to := make([]Value, n)
	for i := range to {
		to[i] = v.b.register(word)
	}
	v.b.write("ld.%s%s%s.b32 %s, [%s+%d];", space, cache, vector(n), braced(to), v.name, offset)
	return to
}

// LoadIf reads where c holds, and is 0 elsewhere.
func (v Value) LoadIf(c Value, offset int) Value { return v.LoadVectorIf(c, 1, offset)[0] }

// LoadVectorIf is LoadVector where c holds, and zeros elsewhere.
func (v Value) LoadVectorIf(c Value, n, offset int) []Value {
	space, cache := v.space()
	v.sides(n)
	to := make([]Value, n)
	for i := range to {
		to[i] = v.b.Var(0)
	}
	v.b.write("@%s ld.%s%s%s.b32 %s, [%s+%d];", v.b.value(condition, c).name, space, cache, vector(n), braced(to), v.name, offset)
	return to
}

// LoadFloats is LoadVector for float32.
func (v Value) LoadFloats(n, offset int) []Value {
	l := v.LoadVector(n, offset)
	for i := range l {
		l[i] = l[i].Float()
	}
	return l
}

// Store writes 1, 2 or 4 registers side by side, at so many bytes after v.
func (v Value) Store(offset int, x ...Value) { v.store("", offset, x) }

// StoreIf is Store for threads for which c holds.
func (v Value) StoreIf(c Value, offset int, x ...Value) {
	v.store("@"+v.b.value(condition, c).name+" ", offset, x)
}

func (v Value) store(guard string, offset int, x []Value) {
	space, cache := v.space()
	v.sides(len(x))
	x = slices.Clone(x)
	for i, y := range x {
		y.any("Store", word, float)
		if y.fixed {
			x[i] = v.b.Var(y)
		}
	}
	v.b.write("%sst.%s%s%s.b32 [%s+%d], %s;", guard, space, cache, vector(len(x)), v.name, offset, braced(x))
}

// sides refuses a vector of a length that there is not.
func (v Value) sides(n int) {
	if n != 1 && n != 2 && n != 4 {
		v.b.refuse("%d registers side by side, want 1, 2 or 4", n)
	}
}

func vector(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(".v%d", n)
}

func braced(l []Value) string {
	if len(l) == 1 {
		return l[0].name
	}
	names := make([]string, len(l))
	for i, v := range l {
		names[i] = v.name
	}
	return "{" + strings.Join(names, ", ") + "}"
}
