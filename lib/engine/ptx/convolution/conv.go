package convolution

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// Conv is a convolution with bias and activation, and with max pooling if Pool is set.
//
//	inputs:  x [batch height width in], w [size size in out] float32, bias [out] float32
//	outputs: y [batch height' width' out] and, with pooling,
//	         winner, like y, uint8: which place of its window, 0 to 3, was the largest, the first of equals
//
// A NaN anywhere in a window makes one, and wins.
type Conv struct {
	kernels.Geometry
	Act   kernels.Act
	Brain bool // x, y and factors are BFloat16; else they are float32, and factors Float16
	Warps int  // of a block, up to 32; default: 12
}

// Fits says whether the sizes are such that there is a kernel.
func (k Conv) Fits() bool {
	f := form(k)
	return f.sound() && f.loads(f.image())*f.vector()+f.loads(f.weights())*4 <= f.registers() && k.split().sums() <= f.registers() && k.places().bytes <= ptx.LargestShared
}

// Kernel is the kernel of these sizes.
func (k Conv) Kernel() ptx.Kernel {
	x, w, results := form(k).shapes()
	return ptx.Kernel{
		Name: "image_conv_" + k.Act.String(), Blocks: k.Batch, Threads: form(k).threads(), Shared: k.places().bytes,
		Inputs: []shapes.Shape{x, w, shapes.Make(dtypes.Float32, k.Out)}, Outputs: results,
		FLOPs: form(k).flops(), Bytes: bytes(append(results, x, w)),
		Body: func(b *ptx.Block) { convWriter{newWriter(b, form(k), k.places()), k}.all() },
	}
}

func (k Conv) places() places {
	p := form(k).places(up(k.In, 16))
	p.clear = p.bytes
	p.next(&p.most, 16*form(k).warps())
	return p
}

// results are how many there are of each channel.
func (k Conv) results() int {
	height, width := k.Result()
	return height * width
}

// split is how the warps divide the results: rows are 16 of them, or, with pooling, two
// places of eight windows, of which the next row has the other two. So the four places of
// a window are one thread's.
func (k Conv) split() split {
	rows, each := (k.results()+15)/16, 1
	if k.Pool {
		rows, each = (k.results()+7)/8*2, 2
	}
	return form(k).divide(rows, up(k.Out, 16)/8, each)
}

// convWriter writes the kernel.
type convWriter struct {
	*writer
	k Conv
}

func (w convWriter) all() {
	k, p, s := w.k, w.p, w.k.split()
	w.load(loaded{}, func(ptx.Value) {})
	down, across := w.warp.Div(s.across).Mul(s.rows), w.warp.Rem(s.across).Mul(s.columns)
	_, width := k.Result()
	var from []ptx.Value // of rows, the first tap
	for i := range s.rows {
		// The lane's row of the matrices, one that exists.
		at := down.Add(i).Shl(4).Add(w.low).Add(w.middle.Shl(3))
		if k.Pool {
			at = down.Add(i).Shr(1).Shl(3).Add(w.low)
		}
		at = at.Min(k.results() - 1)
		y, x := at.Div(width), at.Rem(width)
		if k.Pool {
			y, x = y.Shl(1).Add(i%2), x.Shl(1).Add(w.middle)
		}
		from = append(from, w.Var(w.Shared(p.x).At(y.Mul(p.acrossX).Add(x), p.rowX).At(w.high, 16)))
	}
	weights := w.Var(w.Shared(p.w).At(w.low.Add(w.high.Shl(3)), p.rowG).At(w.middle.Add(across), 16))
	tap := p.channels * p.rowG // bytes
	sums := w.sums(s.rows, s.columns)
	w.For(0, k.Size, 1, func(ptx.Value) {
		for j := range k.Size {
			for c := range p.channels / 16 {
				var rows, columns [][]ptx.Value
				for i := range s.rows {
					rows = append(rows, w.Matrices(4, false, from[i], j*p.rowX+32*c))
				}
				for n := range s.columns / 2 {
					columns = append(columns, w.pairs(weights, j*tap+16*c*p.rowG+32*n)...)
				}
				w.dots(sums, rows, columns)
			}
		}
		for i := range from {
			w.Set(from[i], from[i].Add(p.acrossX*p.rowX))
		}
		w.Set(weights, weights.Add(k.Size*tap))
	})
	for j := range s.columns {
		out := across.Add(j).Shl(3).Add(w.four.Shl(1)) // the thread's two channels
		there := out.Less(k.Out)
		bias := w.Input(2).At(out.Min(k.Out-2), 4).LoadFloats(2, 0)
		if !k.Pool {
			for i := range s.rows {
				for half := range 2 {
					at := down.Add(i).Shl(4).Add(w.quad).Add(8 * half)
					w.store(at, out, there.And(at.Less(k.results())), sums[i][j][2*half:2*half+2], bias)
				}
			}
			continue
		}
		for i := 0; i < s.rows; i += 2 {
			var best, winner [2]ptx.Value
			for e := range 2 {
				best[e], winner[e] = sums[i][j][e], w.U32(0)
				for q, v := range []ptx.Value{sums[i][j][2+e], sums[i+1][j][e], sums[i+1][j][2+e]} {
					more := v.Greater(best[e]).Or(v.Equal(v).Not())
					best[e], winner[e] = more.Select(v, best[e]), more.Select(q+1, winner[e])
				}
			}
			at := down.Add(i).Shr(1).Shl(3).Add(w.quad)
			in := there.And(at.Less(k.results()))
			w.store(at, out, in, best[:], bias)
			pair := winner[0].Or(winner[1].Shl(8))
			four := pair.Or(pair.Other(1).Shl(16)) // of the thread's channels and those of the next
			w.Output(1).At(w.at(at, out).Shr(2), 4).StoreIf(in.And(w.four.And(1).Equal(0)), 0, four)
		}
	}
}

// at is the number of a channel of a result.
func (w convWriter) at(result, out ptx.Value) ptx.Value {
	return w.number.Mul(w.k.results()).Add(result).Mul(w.k.Out).Add(out)
}

// store stores two channels of a result.
func (w convWriter) store(result, out, in ptx.Value, sums, bias []ptx.Value) {
	var y []ptx.Value
	for e, sum := range sums {
		y = append(y, w.act(w.unscaled(sum, ofImage, ofWeights).Add(bias[e])))
	}
	to := w.Output(0).At(w.at(result, out), w.f.bytes())
	if w.k.Brain {
		to.StoreIf(in, 0, w.Halves(dtypes.BFloat16, y[0], y[1]))
	} else {
		to.StoreIf(in, 0, y...)
	}
}

// act applies the activation. A NaN stays one.
func (w convWriter) act(x ptx.Value) ptx.Value {
	sigmoid := func(x ptx.Value) ptx.Value { return x.Mul(-math.Log2E).Exp2().Add(1.0).Reciprocal() }
	switch w.k.Act {
	case kernels.ReLU:
		return x.Less(0.0).Select(0.0, x)
	case kernels.Sigmoid:
		return sigmoid(x)
	case kernels.Tanh:
		return sigmoid(x.Mul(2.0)).Mul(2.0).Sub(1.0)
	}
	return x
}
