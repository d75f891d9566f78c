package kernels

import (
	"cmp"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// CrossEntropy is the cross entropy of logits of any number of classes, which are read once
// (Milakov and Gimelshein, 2018, "Online normalizer calculation for softmax").
//
//	inputs:  logits [rows classes], labels [rows] int32
//	outputs: loss [rows] float32, hit [rows] float32: 1 where the largest logit, the first of equal ones, is the label's,
//	         and the logarithm of the sum of exponentials [rows] float32
//
// With Gradient it also has, as its last input, factors [rows] float32, and as its last output
// the gradient of the sum of factors times losses: [rows classes] like the logits, which are read
// a second time for it.
//
// A label that is no class has logit 0 after the largest logit was subtracted, and no hit.
type CrossEntropy struct {
	Rows, Classes int
	X             dtypes.DType // elements of the logits; default: float32
	Gradient      bool
	// Tile has the columns N that a block reads at a time, and the warps. M is one row.
	Tile Tile
}

// together is how many logits next to each other a thread reads at once.
const together = 8

// tile is the one that Kernel uses.
func (e CrossEntropy) tile() Tile {
	t, each := e.Tile.or(Tile{N: 2048}), 16
	if e.Gradient { // larger blocks, of which fewer run at once: more of a row is in the cache when it is read again
		t, each = e.Tile.or(Tile{N: 8192}), 8
	}
	t.M, t.N, t.K, t.Stages = 1, min(triton.Cover(t.N, 32), triton.Cover(e.Classes, 32)), 1, 1
	if t.Warps == 0 {
		t.Warps = max(1, t.N/(32*each))
	}
	return t
}

func (e CrossEntropy) Key() string {
	if e.Gradient {
		return key("cross entropy and gradient", e.Rows, e.Classes, short(e.X))
	}
	return key("cross entropy", e.Rows, e.Classes, short(e.X))
}

// Tiles are those worth trying.
func (e CrossEntropy) Tiles() []Tile {
	return distinct([]Tile{{}, {N: 1024}, {N: 4096}, {N: 8192}, {N: 1024, Warps: 4}, {N: 2048, Warps: 8}, {N: 4096, Warps: 16}, {N: 8192, Warps: 32}},
		func(t Tile) Tile { e.Tile = t; return e.tile() })
}

func (e CrossEntropy) With(t Tile) Op { e.Tile = t; return e }

func (e CrossEntropy) Kernel() triton.Kernel {
	t := e.tile()
	row, all := shapes.Make(dtypes.Float32, e.Rows), shapes.Make(cmp.Or(e.X, dtypes.Float32), e.Rows, e.Classes)
	k := triton.Kernel{
		Name: "cross_entropy", Nameless: true, Grid: [3]int{e.Rows}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  []shapes.Shape{all, shapes.Make(dtypes.Int32, e.Rows)},
		Outputs: []shapes.Shape{row, row, row},
		Body: func(b *triton.Block) {
			at := b.ProgramID(0)
			logits := b.Input(0).At(at.To(dtypes.Int64).Mul(e.Classes))
			label := b.Input(1).At(at).Load()
			there := label.GreaterEqual(0).And(label.Less(e.Classes))
			own := logits.At(label).LoadIf(there, 0).To(dtypes.Float32)
			turn := func(i triton.Value) (c, x triton.Value) {
				if c = i.Add(b.Range(t.N)); e.Classes%t.N == 0 {
					return c, logits.At(c).Load().To(dtypes.Float32)
				}
				in := c.Less(e.Classes)
				return c, in.Select(logits.At(c).LoadIf(in, 0).To(dtypes.Float32), math.Inf(-1))
			}
			// A thread has the maximum and the sum of what it reads. A maximum of -Inf would
			// make a sum of NaN.
			tile := func(x float64) triton.Value { return b.Full(dtypes.Float32, x, t.N/together) }
			sums := b.For(0, e.Classes, t.N, []triton.Value{tile(-math.MaxFloat32), tile(0)}, func(i triton.Value, s []triton.Value) []triton.Value {
				_, x := turn(i)
				x = x.Reshape(t.N/together, together)
				most := s[0].Max(x.Largest(1))
				return []triton.Value{most, s[1].Mul(s[0].Sub(most).Exp()).Add(x.Sub(most.Expand(1)).Exp().Sum(1))}
			})
			most := sums[0].Largest(0)
			total := sums[1].Mul(sums[0].Sub(most).Exp()).Sum(0).Log()
			b.Output(0).At(at).Store(total.Sub(there.Select(own.Sub(most), 0)))
			b.Output(2).At(at).Store(total.Add(most))
			hit := there.And(own.Equal(most))
			// No hit, if one of the classes before has the same logit.
			before := b.For(0, hit.Select(label, 0), t.N, []triton.Value{tile(0)}, func(i triton.Value, s []triton.Value) []triton.Value {
				c, x := turn(i)
				same := x.Equal(most).And(c.Less(label)).Select(1, b.Zeros(dtypes.Float32, t.N))
				return []triton.Value{s[0].Max(same.Reshape(t.N/together, together).Largest(1))}
			})
			b.Output(1).At(at).Store(hit.And(before[0].Largest(0).Equal(0)).To(dtypes.Float32))
			if !e.Gradient {
				return
			}
			factor := b.Input(2).At(at).Load()
			slopes := b.Output(3).At(at.To(dtypes.Int64).Mul(e.Classes))
			b.For(0, e.Classes, t.N, nil, func(i triton.Value, _ []triton.Value) []triton.Value {
				c, x := turn(i)
				slope := x.Sub(most).Sub(total).Exp().Sub(c.Equal(label).Select(1, b.Zeros(dtypes.Float32, t.N))).Mul(factor).To(all.DType)
				if e.Classes%t.N == 0 {
					slopes.At(c).Store(slope)
				} else {
					slopes.At(c).StoreIf(c.Less(e.Classes), slope)
				}
				return nil
			})
		},
	}
	if e.Gradient {
		k.Name, k.Inputs, k.Outputs = "cross_entropy_gradient", append(k.Inputs, row), append(k.Outputs, all)
	}
	return k
}
