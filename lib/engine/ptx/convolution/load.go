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
	for k := range w.k.loads(n) {
		i := w.thread
		if k > 0 {
			i = i.Add(k * threads)
		}
		var in ptx.Value
		from := i
		if (k+1)*threads > n {
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
	d := dtypes.Float16
	if w.k.Brain {
		d = dtypes.BFloat16
	}
	var halves []ptx.Value
	for i := 0; i < len(numbers); i += 2 {
		halves = append(halves, w.Halves(d, numbers[i], numbers[i+1]))
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

// load brings everything into shared memory.
func (w *writer) load() {
	k, p := w.k, w.p
	size := 4
	if k.Brain {
		size = 2
	}
	xs := w.vectors(w.Input(0).At(w.image.Mul(k.image()), size*k.vector()), k.image(), k.vector(), k.Brain)
	gs := w.vectors(w.Input(1).At(w.image.Mul(k.gradient()), 4*size), k.gradient(), 4, k.Brain)
	ws := w.vectors(w.Input(2), k.kernels(), 4, false)
	var winners []ptx.Value
	if k.Pool {
		from := w.Input(3).At(w.image.Mul(k.gradient()), 4)
		for _, i := range gs.index {
			winners = append(winners, from.At(i.Min(k.gradient()-1), 4).Load(0))
		}
	}
	zero := w.Var(0)
	whole := p.clear / 16 / threads * threads
	w.For(0, whole, threads, func(i ptx.Value) {
		w.Shared(0).At(i.Add(w.thread), 16).Store(0, zero, zero, zero, zero)
	})
	w.Shared(0).At(w.thread.Add(whole), 16).StoreIf(w.thread.Less(p.clear/16-whole), 0, zero, zero, zero, zero)
	var scaleX, scaleG, scaleW ptx.Value
	if !k.Brain {
		most := w.Shared(p.most)
		x, g, v := w.largest(xs), w.largest(gs), w.largest(ws)
		most.At(w.warp, 16).StoreIf(w.lane.Equal(0), 0, x, g, v, zero)
		w.Sync()
		all := most.At(w.lane.Min(warps-1), 16).LoadFloats(4, 0)
		for i := range 3 {
			for mask := 16; mask > 0; mask /= 2 {
				all[i] = all[i].Max(all[i].Other(mask))
			}
		}
		scaleX, w.unscaleX = w.scale(all[0])
		scaleG, w.unscaleG = w.scale(all[1])
		scaleW, w.unscaleW = w.scale(all[2])
	} else {
		w.Sync()
	}
	parts := k.In / k.vector()
	for n, i := range xs.index {
		pixel := i.Div(parts)
		at := pixel.Div(k.Width).Add(k.Pad).Mul(k.acrossX()).Add(pixel.Rem(k.Width)).Add(k.Pad)
		w.put(xs.in[n], w.Shared(p.x).At(at, p.rowX).At(i.Rem(parts), 2*k.vector()), scaled(xs.numbers[n], scaleX))
	}
	for n, i := range ws.index {
		number := i.Div(k.Out / 4)
		at := number.Div(k.In).Mul(k.channels()).Add(number.Rem(k.In))
		w.put(ws.in[n], w.Shared(p.w).At(at, p.rowG).At(i.Rem(k.Out/4), 8), scaled(ws.numbers[n], scaleW))
	}
	w.gradients(gs, winners, scaleG)
	w.Sync()
}

// gradients stores gradients where they are in the convolution's result, and their sums.
func (w *writer) gradients(gs loaded, winners []ptx.Value, scale ptx.Value) {
	k, p := w.k, w.p
	_, width := k.Result()
	around := k.Size - 1 - k.Pad
	sums := []ptx.Value{w.Var(0.0), w.Var(0.0), w.Var(0.0), w.Var(0.0)}
	for n, i := range gs.index {
		for c, sum := range sums {
			x := gs.numbers[n][c]
			if gs.in[n] != (ptx.Value{}) {
				x = gs.in[n].Select(x, 0.0)
			}
			w.Set(sum, sum.Add(x))
		}
		numbers := scaled(gs.numbers[n], scale)
		place := i.Div(k.Out / 4)
		y, x := place.Div(width), place.Rem(width)
		if !k.Pool {
			at := y.Add(around).Mul(k.acrossG()).Add(x).Add(around)
			w.put(gs.in[n], w.Shared(p.g).At(at, p.rowG).At(i.Rem(k.Out/4), 8), numbers)
			continue
		}
		at := w.Shared(p.g).At(y.Shl(1).Add(around).Mul(k.acrossG()).Add(x.Shl(1)).Add(around), p.rowG).At(i.Rem(k.Out/4), 8)
		for q := range 4 {
			won := make([]ptx.Value, 4)
			for c := range won {
				won[c] = winners[n].Shr(8*c).And(255).Equal(q).Select(numbers[c], 0.0)
			}
			w.put(gs.in[n], at.Add((q/2*k.acrossG()+q%2)*p.rowG), won)
		}
	}
	w.Shared(p.bias).At(w.thread, 16).Store(0, sums...)
}

// biases stores the gradient of the biases: a thread's vectors are all of the same four
// channels.
func (w *writer) biases() {
	k := w.k
	each := k.Out / 4
	w.If(w.thread.Less(k.Out), func() {
		sum := w.Var(0.0)
		at := w.Shared(w.p.bias).At(w.thread, 4) // threads 0 to each-1 have the first numbers
		for n := range threads / each {
			w.Set(sum, sum.Add(at.Load(16*each*n).Float()))
		}
		w.Output(1).At(w.image.Add(1).Mul(k.rows()).Sub(1).Mul(k.Out).Add(w.thread), 4).Store(0, sum)
	})
}

// rows is how many rows a part has.
func (k Back) rows() int { return k.Size*k.Size*k.In + 1 }
