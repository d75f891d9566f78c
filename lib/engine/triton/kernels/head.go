package kernels

import (
	"cmp"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LargestHead and LargestSoftmax are how many classes fit in one block of Head and Softmax:
// the weights of more do not fit in a processor's shared memory.
const LargestHead, LargestSoftmax = 32, 16384

// Head is the end of a classifier: its last dense layer, softmax, cross entropy
// and the gradient of their mean over the batch.
//
//	inputs:  x [batch in], w [in classes] float32, bias [classes] float32 unless NoBias, labels [batch] int32
//	outputs: loss [batch] float32, hit [batch] float32: 1 where the largest logit is the label's,
//	         g [batch classes] = (softmax - 1 at the label)/batch, the gradient of the logits
//
// All classes are in one block, [LargestHead] at most.
type Head struct {
	Batch, In, Classes int
	X, G               dtypes.DType // elements of x and g; default: float32
	Compute            dtypes.DType // what the factors are rounded to; default: float32, as TF32
	NoBias             bool
	Tile               Tile
}

func (h Head) tile() Tile {
	t := h.Tile.or(narrow).fit(h.Batch, h.Classes, h.In)
	t.N = triton.Cover(h.Classes, 16)
	return t
}

func (h Head) Kernel() triton.Kernel {
	t := h.tile()
	in := []shapes.Shape{shapes.Make(cmp.Or(h.X, dtypes.Float32), h.Batch, h.In), shapes.Make(dtypes.Float32, h.In, h.Classes)}
	if !h.NoBias {
		in = append(in, shapes.Make(dtypes.Float32, h.Classes))
	}
	in = append(in, shapes.Make(dtypes.Int32, h.Batch))
	return triton.Kernel{
		Name: "head", Grid: [3]int{triton.Blocks(h.Batch, t.M)}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  in,
		Outputs: softmaxOutputs(h.Batch, h.Classes, h.G),
		FLOPs:   2 * float64(h.Batch) * float64(h.In) * float64(h.Classes),
		Body: func(b *triton.Block) {
			rows := stretch(b, b.ProgramID(0), t.M, h.Batch)
			columns := stretch(b, b.Zeros(dtypes.Int32), t.N, h.Classes)
			logits := product(b, t, cmp.Or(h.Compute, dtypes.Float32),
				factor{b.Input(0), rows, h.In, 1},
				factor{b.Input(1), columns, 1, h.Classes}, h.In)
			n, nIn := columns.row()
			if !h.NoBias {
				logits = logits.Add(load(b.Input(2).At(n), nIn))
			}
			softmaxOf(logits, b.Input(len(in)-1), rows, columns, h.Batch).store(b, 0, rows, columns)
		},
	}
}

// Softmax is softmax and cross entropy of logits that are there.
//
//	inputs:  logits [batch classes], labels [batch] int32
//	outputs: those of Head
type Softmax struct {
	Batch, Classes int
	X, G           dtypes.DType // elements of the logits and g; default: float32
	// Tile has the rows M of a block, and the warps. N are all classes.
	Tile Tile
}

// tile is the one that Kernel uses: rows that are 4096 numbers, and no more than a warp
// has threads.
func (s Softmax) tile() Tile {
	wide := triton.Cover(s.Classes, 1)
	t := s.Tile.or(Tile{M: min(32, max(1, 4096/wide)), Warps: 4})
	t.M, t.N, t.K, t.Stages = min(triton.Cover(t.M, 1), triton.Cover(s.Batch, 1)), wide, 1, 2
	return t
}

func (s Softmax) Key() string { return key("softmax", s.Batch, s.Classes, short(s.X), short(s.G)) }

// Tiles are those worth trying: blocks of less than is usual, one of a row each at least,
// for as many processors as there are.
func (s Softmax) Tiles() []Tile {
	tiles, most := []Tile{{}}, s.tile().M
	for rows := most; rows >= max(1, most/8); rows /= 2 {
		for _, warps := range []int{1, 2, 4, 8} {
			if each := rows * s.tile().N / (32 * warps); each >= 2 && each <= 32 { // numbers of a thread
				tiles = append(tiles, Tile{M: rows, Warps: warps})
			}
		}
	}
	return distinct(tiles, func(t Tile) Tile { s.Tile = t; return s.tile() })
}

func (s Softmax) With(t Tile) Op { s.Tile = t; return s }

func (s Softmax) Kernel() triton.Kernel {
	t := s.tile()
	return triton.Kernel{
		Name: "softmax", Grid: [3]int{triton.Blocks(s.Batch, t.M)}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  []shapes.Shape{shapes.Make(cmp.Or(s.X, dtypes.Float32), s.Batch, s.Classes), shapes.Make(dtypes.Int32, s.Batch)},
		Outputs: softmaxOutputs(s.Batch, s.Classes, s.G),
		Body: func(b *triton.Block) {
			m := stretch(b, b.ProgramID(0), t.M, s.Batch)
			n := stretch(b, b.Zeros(dtypes.Int32), t.N, s.Classes)
			y, yIn := m.column()
			x, xIn := n.row()
			logits := load(b.Input(0).At(y.Mul(s.Classes).Add(x)), yIn, xIn).To(dtypes.Float32)
			softmaxOf(logits, b.Input(1), m, n, s.Batch).store(b, 0, m, n)
		},
	}
}

func softmaxOutputs(batch, classes int, g dtypes.DType) []shapes.Shape {
	each := shapes.Make(dtypes.Float32, batch)
	return []shapes.Shape{each, each, shapes.Make(cmp.Or(g, dtypes.Float32), batch, classes)}
}

// softmaxed is what Head and Softmax say of a tile of logits.
type softmaxed struct{ loss, hit, g triton.Value }

// softmaxOf computes losses, hits and gradients of a tile of logits. The largest
// is subtracted first, so that nothing overflows.
func softmaxOf(logits, labels triton.Value, rows, columns span, batch int) (s softmaxed) {
	n, nIn := columns.row()
	if !nIn.IsZero() {
		logits = nIn.Select(logits, math.Inf(-1))
	}
	label := load(labels.At(rows.at), rows.mask())
	right := n.Equal(label.Expand(1))
	place, largest := logits.ArgMax(1)
	z := logits.Sub(largest.Expand(1))
	e := z.Exp()
	total := e.Sum(1)
	s.loss, s.hit = total.Log().Sub(right.Select(z, 0).Sum(1)), place.Equal(label)
	s.g = e.Div(total.Expand(1)).Sub(right.To(dtypes.Float32)).Mul(1 / float64(batch))
	return s
}

// store writes the outputs from number first on.
func (s softmaxed) store(b *triton.Block, first int, rows, columns span) {
	n, nIn := columns.row()
	m, mIn := rows.column()
	store(b.Output(first).At(rows.at), s.loss, rows.mask())
	store(b.Output(first+1).At(rows.at), s.hit, rows.mask())
	store(b.Output(first+2).At(m.Mul(columns.n).Add(n)), s.g, mIn, nIn)
}
