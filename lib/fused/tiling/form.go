package tiling

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/gradient"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// Fill says what an input starts with.
type Fill int

// The fills. Numbers are drawn from a seed that is the input's place.
const (
	Normal   Fill = iota // deviation 1
	Small                // deviation 0.05: weights
	Positive             // 0 to 0.01: second moments
	Below                // whole numbers from 0 to below Limit: labels
	Number               // Limit
)

// Input is one parameter of a form.
type Input struct {
	Shape shapes.Shape
	Fill  Fill
	Limit float64
}

// Form is an operation as a graph: what it takes, and how it is written with
// kernels or without.
type Form struct {
	Inputs []Input
	// Build wants Ops with this Compute: what factors are rounded to.
	Build   func(o fused.Ops, in []*Node) []*Node
	Compute dtypes.DType
	// Chain maps outputs to the inputs whose place they take when the operation
	// is repeated.
	Chain map[int]int
	// Poke is the input that ties repetitions together.
	Poke int
	// Choices are the outputs that are whole numbers, each found by which of some numbers is
	// the largest: where two are as good as equal, rounding decides.
	Choices []int
	// Loops says that the operation is a loop itself, over the time steps of a sequence.
	Loops bool
	// Bytes and FLOPs are what it moves and computes at least.
	Bytes, FLOPs float64
}

// Shapes are the inputs' shapes.
func (f Form) Shapes() []shapes.Shape {
	l := make([]shapes.Shape, len(f.Inputs))
	for i, x := range f.Inputs {
		l[i] = x.Shape
	}
	return l
}

// Put makes the inputs, the same at each call.
func (f Form) Put(s *session.Session) ([]*session.Array, error) {
	arrays := make([]*session.Array, len(f.Inputs))
	for i, x := range f.Inputs {
		var err error
		if arrays[i], err = s.Put(x.draw(rand.New(rand.NewPCG(uint64(i), 42))), x.Shape, 0); err != nil {
			return nil, err
		}
	}
	return arrays, nil
}

func (x Input) draw(r *rand.Rand) any {
	n, limit := x.Shape.Size(), int(x.Limit)
	one := func() float32 {
		switch x.Fill {
		case Small:
			return float32(r.NormFloat64() * 0.05)
		case Positive:
			return r.Float32() * 0.01
		case Number:
			return float32(x.Limit)
		}
		return float32(r.NormFloat64())
	}
	switch x.Shape.DType {
	case dtypes.Uint8:
		l := make([]uint8, n)
		for k := range l {
			l[k] = uint8(r.IntN(limit))
		}
		return l
	case dtypes.Int32:
		l := make([]int32, n)
		for k := range l {
			l[k] = int32(r.IntN(limit))
		}
		return l
	case dtypes.BFloat16:
		l := make([]bfloat16.BFloat16, n)
		for k := range l {
			l[k] = bfloat16.FromFloat32(one())
		}
		return l
	}
	l := make([]float32, n)
	for k := range l {
		l[k] = one()
	}
	return l
}

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

// Formed is an op of your own that brings its form. Build asks Ops.Choose for it where
// there is a Builder, as a graph would that has it.
type Formed interface {
	kernels.Op
	Form() Form
}

// FormOf is the form of an op.
func FormOf(op kernels.Op) (Form, error) {
	switch op := op.(type) {
	case Formed:
		f := op.Form()
		return f.in(f.Compute), nil
	case kernels.Linear:
		return linear(op).in(op.Compute), nil
	case kernels.LinearInput:
		return linearInput(op).in(op.Compute), nil
	case kernels.LinearUpdate:
		return linearUpdate(op).in(op.Compute), nil
	case kernels.Head:
		return head(op).in(op.Compute), nil
	case kernels.HeadReduce:
		return headReduce(op).in(op.Compute), nil
	case kernels.PartsUpdate:
		return partsUpdate(op).in(dtypes.Float32), nil
	case kernels.Conv:
		return conv(op).in(op.Compute), nil
	case kernels.ConvInput:
		return convInput(op).in(op.Compute), nil
	case kernels.ConvGradient:
		return convUpdate(op, optim.SGD{}.Rule()).in(op.Compute), nil
	case kernels.Gather:
		return take(op).in(op.Y), nil
	case kernels.Softmax:
		return softmax(op).in(op.G), nil
	case kernels.CrossEntropy:
		return crossEntropy(op).in(op.X), nil
	case kernels.Norm:
		return norm(op, false).in(op.X), nil
	case kernels.NormGradient:
		return norm(op.Norm, true).in(op.X), nil
	case kernels.OneRow:
		return oneRow(op).in(op.X), nil
	case kernels.CachedAttention:
		return cachedAttention(op).in(op.X), nil
	case kernels.Activation:
		return activation(op, false).in(op.X), nil
	case kernels.ActivationGradient:
		return activation(op.Activation, true).in(op.X), nil
	case kernels.Recurrence:
		return recurrence(op).in(op.Compute), nil
	case kernels.RecurrenceBack:
		return recurrenceBack(op).in(op.Compute), nil
	}
	return Form{}, fmt.Errorf("tiling: %s: got a %T, want one of package kernels, or a Formed", op.Key(), op)
}

// in is f with factors that are rounded to a type; none is float32.
func (f Form) in(d dtypes.DType) Form {
	f.Compute = cmp.Or(d, dtypes.Float32)
	return f
}

func linear(l kernels.Linear) Form {
	return Form{
		Inputs: []Input{{Shape: shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Batch, l.In)}, {Shape: f32(l.In, l.Out), Fill: Small}, {Shape: f32(l.Out)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			bias := in[2]
			if l.NoBias {
				bias = nil
			}
			return []*Node{o.Linear(in[0], in[1], bias, l.Act)}
		},
		Poke: 1, FLOPs: products(l.Batch, l.In, l.Out), Bytes: 4 * float64(l.In*l.Out+l.Batch*(l.In+l.Out)),
	}
}

func products(m, k, n int) float64 { return 2 * float64(m) * float64(k) * float64(n) }

func linearInput(l kernels.LinearInput) Form {
	return Form{
		Inputs: []Input{{Shape: shapes.Make(cmp.Or(l.G, dtypes.Float32), l.Batch, l.Out)}, {Shape: f32(l.In, l.Out), Fill: Small}, {Shape: shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Batch, l.In)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			return []*Node{o.LinearInput(in[0], in[1], in[2], l.Act)}
		},
		Poke: 1, FLOPs: products(l.Batch, l.In, l.Out), Bytes: 4 * float64(l.In*l.Out+l.Batch*(2*l.In+l.Out)),
	}
}

// states are an optimizer's arrays for weights of the given shapes, then rate
// and number of the step.
func (f *Form) states(rule kernels.Rule, arrays ...shapes.Shape) {
	f.Chain = map[int]int{}
	squares := append([]bool{false}, rule.Squares()...)
	for _, s := range arrays {
		for k := range 1 + rule.Moments() {
			fill := Small
			if squares[k] {
				fill = Positive
			}
			f.Chain[len(f.Chain)] = len(f.Inputs)
			f.Inputs = append(f.Inputs, Input{Shape: s, Fill: fill})
			f.Bytes += 8 * float64(s.Size())
		}
	}
	f.Inputs = append(f.Inputs, Input{Shape: f32(), Fill: Number, Limit: 0.001}, Input{Shape: f32(), Fill: Number, Limit: 3})
}

func linearUpdate(l kernels.LinearUpdate) Form {
	f := Form{
		Inputs: []Input{{Shape: shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Batch, l.In)}, {Shape: shapes.Make(cmp.Or(l.G, dtypes.Float32), l.Batch, l.Out), Fill: Small}},
		FLOPs:  products(l.Batch, l.In, l.Out), Bytes: 4 * float64(l.Batch*(l.In+l.Out)),
	}
	if l.Rule == nil {
		return f.gradient(l)
	}
	each := 1 + l.Rule.Moments()
	arrays := []shapes.Shape{f32(l.In, l.Out), f32(l.Out)}
	if l.NoBias {
		arrays = arrays[:1]
	}
	f.states(l.Rule, arrays...)
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		last := len(in) - 2
		var bias []*Node
		if !l.NoBias {
			bias = in[2+each : last]
		}
		w, b := o.LinearUpdate(in[0], in[1], in[2:2+each], bias, l.Rule, in[last], in[last+1])
		return append(append([]*Node{}, w...), b...)
	}
	return f
}

// gradient is an update without a rule, which is met in the backward pass through Linear.
func (f Form) gradient(l kernels.LinearUpdate) Form {
	f.Inputs = append(f.Inputs, Input{Shape: f32(l.In, l.Out), Fill: Small}, Input{Shape: f32(l.Out)})
	f.Bytes += 4 * float64(l.In*l.Out)
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		bias, wrt := in[3], in[2:]
		if l.NoBias {
			bias, wrt = nil, in[2:3]
		}
		return gradient.Final(weighed(o.Linear(in[0], in[2], bias, kernels.Identity), in[1]), wrt...)
	}
	return f // Poke is x
}

func head(h kernels.Head) Form {
	return Form{
		Inputs: []Input{{Shape: shapes.Make(cmp.Or(h.X, dtypes.Float32), h.Batch, h.In)}, {Shape: f32(h.In, h.Classes), Fill: Small}, {Shape: f32(h.Classes)},
			{Shape: shapes.Make(dtypes.Int32, h.Batch), Fill: Below, Limit: float64(h.Classes)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			bias := in[2]
			if h.NoBias {
				bias = nil
			}
			loss, hit, g := o.Head(in[0], in[1], bias, in[3])
			return []*Node{loss, hit, g}
		},
		Choices: []int{1}, Poke: 1, FLOPs: products(h.Batch, h.In, h.Classes), Bytes: 4 * float64(h.In*h.Classes+h.Batch*h.In),
	}
}

func headReduce(e kernels.HeadReduce) Form {
	parts := f32(e.Parts, e.Batch, kernels.LargestHeadReduce)
	return Form{
		Inputs: []Input{{Shape: parts}, {Shape: f32(e.In, e.Classes), Fill: Small}, {Shape: f32(e.Classes)},
			{Shape: shapes.Make(dtypes.Int32, e.Batch), Fill: Below, Limit: float64(e.Classes)}, {Shape: shapes.Make(cmp.Or(e.X, dtypes.Float32), e.Batch, e.In)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			bias := in[2]
			if e.NoBias {
				bias = nil
			}
			loss, hit, g, below := o.HeadReduce(in[0], in[1], bias, in[3], in[4], e.Act)
			return []*Node{loss, hit, g, below}
		},
		Choices: []int{1}, FLOPs: products(e.Batch, e.In, e.Classes), Bytes: float64(parts.ByteSize()) + 8*float64(e.Batch*e.In),
	}
}

func partsUpdate(p kernels.PartsUpdate) Form {
	w := p.Weights
	out := w.Dimensions[w.Rank()-1]
	parts := f32(p.Parts, w.Size()/out+1, out)
	f := Form{Inputs: []Input{{Shape: parts, Fill: Small}}, Bytes: float64(parts.ByteSize())}
	f.states(p.Rule, w, f32(out))
	each := 1 + p.Rule.Moments()
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		last := len(in) - 2
		w, b := o.PartsUpdate(in[0], in[1:1+each], in[1+each:last], p.Rule, in[last], in[last+1])
		return append(append([]*Node{}, w...), b...)
	}
	return f
}

func image(g kernels.Geometry, d dtypes.DType) shapes.Shape {
	return shapes.Make(cmp.Or(d, dtypes.Float32), g.Batch, g.Height, g.Width, g.In)
}

func result(g kernels.Geometry, d dtypes.DType) shapes.Shape {
	height, width := g.Result()
	return shapes.Make(cmp.Or(d, dtypes.Float32), g.Batch, height, width, g.Out)
}

func flops(g kernels.Geometry) float64 {
	height, width := g.Image()
	return products(g.Batch*height*width, g.In*g.Size*g.Size, g.Out)
}

func conv(c kernels.Conv) Form {
	g := c.Geometry
	f := Form{
		Inputs: []Input{{Shape: image(g, c.X)}, {Shape: f32(g.Size, g.Size, g.In, g.Out), Fill: Small}, {Shape: f32(g.Out)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			y, winner := o.Conv(fused.Convolution{Pad: g.Pad, Pool: g.Pool, Act: c.Act}, in[0], in[1], in[2])
			if winner == nil {
				return []*Node{y}
			}
			return []*Node{winner, y}
		},
		FLOPs: flops(g), Bytes: 4 * float64(image(g, c.X).Size()+result(g, c.Y).Size()),
	}
	if g.Pool {
		f.Choices = []int{0}
	}
	return f
}

func convInput(c kernels.ConvInput) Form {
	g := c.Geometry
	return Form{
		Inputs: []Input{{Shape: result(g, c.G)}, {Shape: result(g, dtypes.Uint8), Fill: Below, Limit: 4},
			{Shape: f32(g.Size, g.Size, g.In, g.Out), Fill: Small}, {Shape: image(g, c.X)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			winner := in[1]
			if !g.Pool {
				winner = nil
			}
			return []*Node{o.ConvInput(fused.Convolution{Pad: g.Pad, Pool: g.Pool}, in[0], winner, in[2], in[3], c.Act)}
		},
		FLOPs: flops(g), Bytes: 4 * float64(2*image(g, c.X).Size()+result(g, c.G).Size()),
	}
}

// convUpdate is the form of a convolution's step: its gradient in parts, and
// the rule.
func convUpdate(c kernels.ConvGradient, rule kernels.Rule) Form {
	g, each := c.Geometry, 1+rule.Moments()
	f := Form{
		Inputs: []Input{{Shape: image(g, c.X)}, {Shape: result(g, c.G), Fill: Small}, {Shape: result(g, dtypes.Uint8), Fill: Below, Limit: 4}},
		FLOPs:  flops(g), Bytes: 4 * float64(image(g, c.X).Size()+result(g, c.G).Size()),
	}
	f.states(rule, f32(g.Size, g.Size, g.In, g.Out), f32(g.Out))
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		winner := in[2]
		if !g.Pool {
			winner = nil
		}
		w, b := o.ConvUpdate(fused.Convolution{Pad: g.Pad, Pool: g.Pool}, in[0], in[1], winner, in[3:3+each], in[3+each:3+2*each], rule, in[3+2*each], in[4+2*each])
		return append(append([]*Node{}, w...), b...)
	}
	return f
}
