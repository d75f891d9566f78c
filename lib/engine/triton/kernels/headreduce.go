package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// HeadReduce is the end of a classifier whose last layer Linear has started: softmax,
// cross entropy, the gradient of their mean over the batch, and what of it goes
// below, taken on through the activation that made the last layer's input. It is
// Head and LinearInput in one kernel, where each block computes the softmax of its
// rows again.
//
//	inputs:  parts [parts batch LargestHeadReduce] float32, bias [classes] float32 unless NoBias, labels [batch] int32,
//	         w [in classes] float32, x [batch in] unless Act is Identity
//	outputs: those of Head, and d [batch in] = (g·wᵀ) · act'(x)
//
// All classes are in one block: it is made for up to 16 of them.
type HeadReduce struct {
	Batch, In, Classes, Parts int
	X, G                      dtypes.DType // elements of x, and of g and d; default: float32
	Compute                   dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act                       Act          // what made x
	NoBias                    bool
	Tile                      Tile // M along the batch, N along in, K along the parts
}

// LargestHeadReduce is how many classes HeadReduce is made for, and how many a part of logits
// has room for: rows of such a length are read sixteen bytes at a time.
const LargestHeadReduce = 16

// Fits says whether it is worth it: few classes, and parts that are no more work
// to read, by each block again, than a layer's weights.
func (e HeadReduce) Fits() bool {
	return e.Classes <= LargestHeadReduce && e.Parts*e.Batch*LargestHeadReduce*triton.Blocks(e.In, reduceColumns) <= 1<<20
}

// reduceColumns are those of a usual block.
const reduceColumns = 64

// tile is the one that Kernel uses. As long as nothing else is said, warps are so many that
// a thread has 32 numbers of the parts at a time, or fewer.
func (e HeadReduce) tile() Tile {
	t := e.Tile.or(Tile{M: 16, N: reduceColumns, K: 32, Stages: 1})
	parts := min(t.K, triton.Cover(e.Parts, 1))
	t = t.fit(e.Batch, e.In, LargestHeadReduce)
	t.K = parts
	if t.Warps == 0 {
		t.Warps = max(2, t.M*t.K/64)
	}
	return t
}

func (e HeadReduce) Key() string {
	return key("end", e.Batch, e.In, e.Classes, e.Parts, e.Act, short(e.X), short(e.G), short(e.Compute), !e.NoBias)
}

func (e HeadReduce) Tiles() []Tile {
	return distinct([]Tile{{}, {N: 16}, {N: 32}, {N: 128}, {K: 8}, {K: 16}, {K: 64}, {Warps: 4}, {Warps: 8}, {N: 16, Warps: 4}, {N: 32, Warps: 4}, {N: 32, K: 16, Warps: 8}, {M: 32}, {M: 32, N: 32}},
		func(t Tile) Tile { e.Tile = t; return e.tile() })
}

func (e HeadReduce) With(t Tile) Op { e.Tile = t; return e }

func (e HeadReduce) Kernel() triton.Kernel {
	f := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	in := []shapes.Shape{f(e.Parts, e.Batch, LargestHeadReduce)}
	if !e.NoBias {
		in = append(in, f(e.Classes))
	}
	labels := len(in)
	in = append(in, shapes.Make(dtypes.Int32, e.Batch), f(e.In, e.Classes))
	if e.Act != Identity {
		in = append(in, shapes.Make(cmp.Or(e.X, dtypes.Float32), e.Batch, e.In))
	}
	t := e.tile()
	return triton.Kernel{
		Name: "end_" + e.Act.String(), Grid: [3]int{triton.Blocks(e.In, t.N), triton.Blocks(e.Batch, t.M)}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  in,
		Outputs: append(softmaxOutputs(e.Batch, e.Classes, e.G), shapes.Make(cmp.Or(e.G, dtypes.Float32), e.Batch, e.In)),
		FLOPs:   2 * float64(e.Batch) * float64(e.In) * float64(e.Classes),
		Body: func(b *triton.Block) {
			rows := stretch(b, b.ProgramID(1), t.M, e.Batch)
			classes := stretch(b, b.Zeros(dtypes.Int32), LargestHeadReduce, e.Classes)
			inputs := stretch(b, b.ProgramID(0), t.N, e.In)
			m, mIn := rows.column()
			c, cIn := classes.row()
			// What does not depend on the parts is on its way while they are added up.
			k, kIn := inputs.row()
			at := m.Mul(e.In).Add(k)
			deep, deepIn := classes.column()
			w := load(b.Input(labels+1).At(k.Mul(e.Classes).Add(deep)), kIn, deepIn)
			var x triton.Value
			if e.Act != Identity {
				x = load(b.Input(labels+2).At(at), mIn, kIn).To(dtypes.Float32)
			}
			logits := e.sum(b, t, m, c, mIn)
			if !e.NoBias {
				logits = logits.Add(load(b.Input(1).At(c), cIn))
			}
			s := softmaxOf(logits, b.Input(labels), rows, classes, e.Batch)
			b.If(b.ProgramID(0).Equal(0), func() { s.store(b, 0, rows, classes) }, nil)
			g := s.g
			if !cIn.IsZero() {
				g = cIn.Select(g, 0)
			}
			d := b.Dot(g.To(cmp.Or(e.G, dtypes.Float32)).To(cmp.Or(e.Compute, dtypes.Float32)), w.To(cmp.Or(e.Compute, dtypes.Float32)), b.Zeros(dtypes.Float32, t.M, t.N), t.Rounding)
			if e.Act != Identity {
				d = backward(e.Act, d, x)
			}
			store(b.Output(3).At(at), d, mIn, kIn)
		},
	}
}

// sum adds up the parts of logits.
func (e HeadReduce) sum(b *triton.Block, t Tile, m, c, mIn triton.Value) triton.Value {
	parts := t.K
	p := b.Range(parts).Expand(1).Expand(2)
	at := m.Mul(LargestHeadReduce).Add(c).Expand(0)
	if !mIn.IsZero() {
		mIn = mIn.Expand(0)
	}
	zero := b.Zeros(dtypes.Float32, parts, t.M, LargestHeadReduce)
	return b.For(0, e.Parts, parts, []triton.Value{zero}, func(i triton.Value, sum []triton.Value) []triton.Value {
		part := i.Add(p)
		var some triton.Value
		if e.Parts%parts != 0 {
			some = part.Less(e.Parts)
		}
		return []triton.Value{sum[0].Add(load(b.Input(0).At(part.Mul(e.Batch*LargestHeadReduce).Add(at)), mIn, some))}
	})[0].Sum(0)
}
