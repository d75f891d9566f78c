package convolution

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/ptx"
)

// loaded is what a thread has of an array: vectors of numbers, of which number i of
// the block is the thread's i/threads, and whether it is one at all.
type loaded struct {
	index   []ptx.Value
	in      []ptx.Value // only of the last one; zero Value: all are
	numbers [][]ptx.Value
}

// vectors loads n vectors of so many numbers after an address.
func (w *writer) vectors(at ptx.Value, n, size int, brain bool) (l loaded) {
	for k := range w.f.loads(n) {
		i := w.thread
		if k > 0 {
			i = i.Add(k * w.f.threads())
		}
		var in ptx.Value
		from := i
		if (k+1)*w.f.threads() > n {
			in, from = i.Less(n), i.Min(n-1)
		}
		var numbers []ptx.Value
		if brain {
			for _, v := range at.At(from, 2*size).LoadVector(size/2, 0) {
				numbers = append(numbers, v.Shl(16).Float(), v.And(0xFFFF<<16).Float())
			}
		} else {
			numbers = at.At(from, 4*size).LoadFloats(size, 0)
		}
		l.index, l.in, l.numbers = append(l.index, i), append(l.in, in), append(l.numbers, numbers)
	}
	return l
}

// largest is the largest size of all numbers that the warp has loaded.
func (w *writer) largest(l loaded) ptx.Value {
	largest := w.Var(0.0)
	for _, numbers := range l.numbers {
		for _, x := range numbers {
			w.Set(largest, largest.Max(x.Bits().And(0x7FFFFFFF).Float()))
		}
	}
	for mask := 16; mask > 0; mask /= 2 {
		w.Set(largest, largest.Max(largest.Other(mask)))
	}
	return largest
}

// scale is a power of two that makes numbers of at most so much less than 2¹⁵, and back
// is 1/scale.
func (w *writer) scale(largest ptx.Value) (scale, back ptx.Value) {
	exponent := largest.Bits().Shr(23).Max(15)
	return w.U32(127 + 127 + 14).Sub(exponent).Shl(23).Float(), exponent.Sub(14).Shl(23).Float()
}

// put rounds numbers and stores them side by side in shared memory.
func (w *writer) put(in, at ptx.Value, numbers []ptx.Value) {
	var halves []ptx.Value
	for i := 0; i < len(numbers); i += 2 {
		halves = append(halves, w.Halves(w.half(), numbers[i], numbers[i+1]))
	}
	if in == (ptx.Value{}) {
		at.Store(0, halves...)
	} else {
		at.StoreIf(in, 0, halves...)
	}
}

func scaled(numbers []ptx.Value, scale ptx.Value) []ptx.Value {
	l := make([]ptx.Value, len(numbers))
	for i, x := range numbers {
		if l[i] = x; scale != (ptx.Value{}) {
			l[i] = x.Mul(scale)
		}
	}
	return l
}

// load brings image and weights into shared memory, and a gradient that the thread has
// loaded, if there is one: store does that, with the gradient's scale.
func (w *writer) load(gradient loaded, store func(scale ptx.Value)) {
	k, p := w.f, w.p
	all := [3]loaded{w.vectors(w.Input(0).At(w.number.Mul(k.image()), k.bytes()*k.vector()), k.image(), k.vector(), k.Brain),
		w.vectors(w.Input(1), k.weights(), 4, false), gradient}
	zero := w.Var(0)
	whole := p.clear / 16 / k.threads() * k.threads()
	w.For(0, whole, k.threads(), func(i ptx.Value) {
		w.Shared(0).At(i.Add(w.thread), 16).Store(0, zero, zero, zero, zero)
	})
	w.Shared(0).At(w.thread.Add(whole), 16).StoreIf(w.thread.Less(p.clear/16-whole), 0, zero, zero, zero, zero)
	var scales [3]ptx.Value
	if !k.Brain {
		most := w.Shared(p.most)
		most.At(w.warp, 16).StoreIf(w.lane.Equal(0), 0, w.largest(all[0]), w.largest(all[1]), w.largest(all[2]), zero)
		w.Sync()
		largest := most.At(w.lane.Min(k.warps()-1), 16).LoadFloats(4, 0)
		for i, l := range all {
			if len(l.index) == 0 {
				continue
			}
			for mask := 16; mask > 0; mask /= 2 {
				largest[i] = largest[i].Max(largest[i].Other(mask))
			}
			scales[i], w.unscale[i] = w.scale(largest[i])
		}
	} else {
		w.Sync()
	}
	parts := k.In / k.vector()
	for n, i := range all[0].index {
		pixel := i.Div(parts)
		at := pixel.Div(k.Width).Add(k.Pad).Mul(p.acrossX).Add(pixel.Rem(k.Width)).Add(k.Pad)
		numbers := scaled(all[0].numbers[n], scales[0])
		if w.above {
			for e, x := range numbers {
				numbers[e] = x.Greater(0.0).Select(x.Max(0x1p-24), x)
			}
		}
		w.put(all[0].in[n], w.Shared(p.x).At(at, p.rowX).At(i.Rem(parts), 2*k.vector()), numbers)
	}
	for n, i := range all[1].index {
		number := i.Div(k.Out / 4)
		at := number.Div(k.In).Mul(p.channels).Add(number.Rem(k.In))
		w.put(all[1].in[n], w.Shared(p.w).At(at, p.rowG).At(i.Rem(k.Out/4), 8), scaled(all[1].numbers[n], scales[1]))
	}
	store(scales[2])
	w.Sync()
}

// bytes are those of a number of image and gradient.
func (k form) bytes() int {
	if k.Brain {
		return 2
	}
	return 4
}

// sums are results of products [16 8], by rows and columns.
func (w *writer) sums(rows, columns int) (s [][][]ptx.Value) {
	for range rows {
		var row [][]ptx.Value
		for range columns {
			row = append(row, []ptx.Value{w.Var(0.0), w.Var(0.0), w.Var(0.0), w.Var(0.0)})
		}
		s = append(s, row)
	}
	return s
}

// half is the type of factors.
func (w *writer) half() dtypes.DType {
	if w.f.Brain {
		return dtypes.BFloat16
	}
	return dtypes.Float16
}

// dots adds products. Columns are pairs of registers.
func (w *writer) dots(s [][][]ptx.Value, rows, columns [][]ptx.Value) {
	for i := range s {
		for j := range s[i] {
			w.DotHalves(w.half(), s[i][j], rows[i], columns[j])
		}
	}
}

// pairs loads the columns of two products, whose matrices have their rows at an address: of
// the first eight rows those of both, and then of the others.
func (w *writer) pairs(from ptx.Value, offset int) [][]ptx.Value {
	m := w.Matrices(4, true, from, offset)
	return [][]ptx.Value{{m[0], m[2]}, {m[1], m[3]}}
}

// unscaled takes the scales of two factors from a sum.
func (w *writer) unscaled(sum ptx.Value, a, b int) ptx.Value {
	if w.f.Brain {
		return sum
	}
	return sum.Mul(w.unscale[a]).Mul(w.unscale[b])
}

// Numbers of scales.
const (
	ofImage = iota
	ofWeights
	ofGradient
)
