package kernels

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// span is a stretch of an axis that a block works on: positions, and which of them
// are the block's own. all says that all are. The positions of a safe span exist,
// own or not: they can be read without a mask.
type span struct {
	at   triton.Value
	in   triton.Value
	all  bool
	safe bool
	n    int // the axis's length
}

// stretch is block number block of size size on an axis of length n. The last
// one begins early enough to be full, if the axis is long enough: then loops need
// no masks, and what two blocks compute one of them stores.
func stretch(b *triton.Block, block triton.Value, size, n int) span {
	first := block.Mul(size)
	switch {
	case n%size == 0:
		at := first.Add(b.Range(size))
		return span{at: at, in: at.Less(n), all: true, safe: true, n: n}
	case n > size:
		at := first.Min(n - size).Add(b.Range(size))
		return span{at: at, in: at.GreaterEqual(first), safe: true, n: n}
	}
	at := first.Add(b.Range(size))
	return span{at: at, in: at.Less(n), n: n}
}

// mask is in, or the zero Value where all positions are the block's own.
func (s span) mask() triton.Value {
	if s.all {
		return triton.Value{}
	}
	return s.in
}

// and joins masks; the zero Value stands for "everywhere".
func and(masks ...triton.Value) (mask triton.Value, some bool) {
	for _, m := range masks {
		if m.IsZero() {
			continue
		}
		if some {
			mask = mask.And(m)
		} else {
			mask, some = m, true
		}
	}
	return mask, some
}

// load reads where all masks hold, and is 0 elsewhere.
func load(p triton.Value, masks ...triton.Value) triton.Value {
	if m, some := and(masks...); some {
		return p.LoadIf(m, 0)
	}
	return p.Load()
}

// store writes where all masks hold.
func store(p, x triton.Value, masks ...triton.Value) {
	x = x.To(p.DType())
	if m, some := and(masks...); some {
		p.StoreIf(m, x)
	} else {
		p.Store(x)
	}
}

// column and row are a span's positions and mask as a tile of two sides.
func (s span) column() (at, in triton.Value) { return s.expand(1) }
func (s span) row() (at, in triton.Value)    { return s.expand(0) }
func (s span) expand(axis int) (at, in triton.Value) {
	at = s.at.Expand(axis)
	if !s.all {
		in = s.in.Expand(axis)
	}
	return at, in
}

// factor is one side of a product: an array, the positions of the result's rows or
// columns in it, and how far apart the array's elements are along that axis and
// along the depth.
type factor struct {
	from        triton.Value
	side        span
	step, depth int
}

// clamped needs no mask in a loop if it can be done without. Positions beyond the
// end become the last one: the results there are not stored. Where positions lie
// side by side masks stay, because Triton would not see that they do.
func (f factor) clamped() factor {
	switch {
	case f.side.safe:
		f.side.all = true
	case f.step != 1:
		f.side.at, f.side.all = f.side.at.Min(f.side.n-1), true
	}
	return f
}

// product is the sum over depth of x[m k]·y[k n], float32 [t.M t.N]. Factors are
// rounded to compute.
//
// With t.Split the tiles have a third side, the part of the depth, which Triton
// gives to different warps; their sums are added at the end.
func product(b *triton.Block, t Tile, compute dtypes.DType, x, y factor, depth int) triton.Value {
	turn := t.K * t.Split
	k := b.Range(t.K)
	sides := []int{t.M, t.N}
	x, y = x.clamped(), y.clamped()
	if t.Split > 1 {
		k = b.Range(t.Split).Mul(t.K).Expand(1).Add(k.Expand(0)) // [split k]
		sides = []int{t.Split, t.M, t.N}
	}
	last := len(sides) - 1
	side := func(v triton.Value, axis int) triton.Value { // a vector along one side of x or y
		v = v.Expand(1 - axis)
		if t.Split > 1 {
			v = v.Expand(0)
		}
		return v
	}
	deep := func(v triton.Value, axis int) triton.Value { // what belongs to k
		return v.Expand(last - 1 + axis)
	}
	xAt := x.from.At(side(x.side.at, 0).Mul(x.step).Add(deep(k, 0).Mul(x.depth)))
	yAt := y.from.At(side(y.side.at, 1).Mul(y.step).Add(deep(k, 1).Mul(y.depth)))
	sum := b.Zeros(dtypes.Float32, sides...)
	sum = b.For(0, triton.Blocks(depth, turn)*turn, turn, []triton.Value{sum}, func(i triton.Value, c []triton.Value) []triton.Value {
		var xIn, yIn, xSide, ySide triton.Value
		if depth%turn != 0 {
			in := i.Add(k).Less(depth)
			xIn, yIn = deep(in, 0), deep(in, 1)
		}
		if !x.side.all {
			xSide = side(x.side.in, 0)
		}
		if !y.side.all {
			ySide = side(y.side.in, 1)
		}
		p := load(xAt.At(i.Mul(x.depth)), xSide, xIn).To(compute)
		q := load(yAt.At(i.Mul(y.depth)), yIn, ySide).To(compute)
		return []triton.Value{b.Dot(p, q, c[0], t.Rounding)}
	})[0]
	if t.Split > 1 {
		sum = sum.SumTogether(0)
	}
	return sum
}
