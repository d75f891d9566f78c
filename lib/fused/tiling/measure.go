package tiling

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/session"
)

// Turns and Repeat are how often the operation of a Program is done: Turns turns
// of a loop, with Repeat operations in each. An operation that is a loop itself has a tenth
// of the turns: XLA's form of one takes milliseconds, for which whoever comes back to the
// session would wait.
const (
	Turns  = 100
	Repeat = 8
)

// turns are those of the form's loop.
func (f Form) turns() int {
	if f.Loops {
		return Turns / 10
	}
	return Turns
}

// Times is how often a run of the form's loop does the operation.
func (f Form) Times() int { return f.turns() * Repeat }

// writer is a backend that only writes programs for a target.
type writer struct {
	hlo.Backend
	target lower.Target
}

// Kernels is the builder of the last graph, for fused.On; nil where the target runs no kernels.
func (w *writer) Kernels() *hlo.Builder {
	if !w.target.Triton {
		return nil
	}
	return w.HLO
}

// Write writes a program: what build makes of parameters of the given shapes.
// What build panics with becomes an error.
func Write(name string, target lower.Target, precision hlo.Precision, in []shapes.Shape, build func(b *hlo.Builder, in []*Node) []*Node) (p *hlo.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("tiling: program %s: %v", name, r)
		}
	}()
	w := &writer{hlo.Backend{Precision: precision}, target}
	g := NewGraph(w, name)
	nodes := make([]*Node, len(in))
	for i, s := range in {
		nodes[i] = Parameter(g, fmt.Sprint("x", i), s)
	}
	if err := g.Compile(build(w.HLO, nodes)...); err != nil {
		return nil, fmt.Errorf("tiling: program %s: %w", name, err)
	}
	return w.Program, nil
}

// times are how many µs a repetition of a loop takes, with an op and without.
type times struct{ with, idle float64 }

func (t times) op() float64 { return max(t.with-t.idle, 0.01) }

// measure is how many µs an op takes on the session's device, as a kernel or, if plain, in
// XLA's own form, and what its loop takes without it. alone, if not nil, is called before
// each run, and its error ends the measurement.
func measure(s *session.Session, op kernels.Op, plain bool, alone func() error) (t times, err error) {
	f, err := FormOf(op)
	if err != nil {
		return t, err
	}
	in, err := f.Put(s)
	if err != nil {
		return t, err
	}
	var least [2]float64
	idle := f
	idle.Build = func(fused.Ops, []*Node) []*Node { return nil }
	for i, f := range []Form{idle, f} {
		p, err := Write("time "+op.Key(), lower.TargetOf(s.Welcome()), hlo.DefaultPrecision, f.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
			if i == 1 && !plain {
				return f.with(b, op, func(o fused.Ops) []*Node { return f.Loop(o, in) })
			}
			return f.Loop(fused.Ops{Compute: f.Compute}, in)
		})
		if err != nil {
			return t, err
		}
		x, err := s.Compile(p, session.Options{Origin: "tiling"})
		if err != nil {
			return t, err
		}
		samples, err := f.clock(s, x, in, 3, alone)
		if err != nil {
			return t, err
		}
		least[i] = slices.Min(samples)
	}
	return times{with: least[1], idle: least[0]}, nil
}

// with builds by Ops that have the kernel of op for operations of its kind and sizes. It
// panics if none is requested: another kernel would be taken for op's.
func (f Form) with(b *hlo.Builder, op kernels.Op, build func(o fused.Ops) []*Node) []*Node {
	asked := false
	out := build(fused.Ops{Builder: b, Compute: f.Compute, Choose: func(inner kernels.Op) kernels.Op {
		if inner.Key() != op.Key() {
			return inner
		}
		asked = true
		return op
	}})
	if !asked {
		panic(fmt.Errorf("its form asks for no %s", op.Key()))
	}
	return out
}

// clock runs the program of the form's loop a few times, and returns µs of one operation
// for each. alone is as of measure.
func (f Form) clock(s *session.Session, p *session.Program, in []*session.Array, runs int, alone func() error) ([]float64, error) {
	var samples []float64
	for k := range runs + 1 {
		if alone != nil {
			if err := alone(); err != nil {
				return nil, err
			}
		}
		if err := s.Wait(); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := p.Run(session.Call{Inputs: in}); err != nil {
			return nil, err
		}
		if err := s.Wait(); err != nil {
			return nil, err
		}
		if k > 0 { // the first is warm-up
			samples = append(samples, float64(time.Since(began).Nanoseconds())/1e3/float64(f.Times()))
		}
	}
	return samples, nil
}

// Loop is the graph that is timed: Build, repeated. Each repetition needs what
// the one before left, so that XLA can neither move work out of the loop nor
// join two repetitions: states replace their inputs, and one element
// of the input Poke is replaced by a number from the last output.
func (f Form) Loop(o fused.Ops, in []*Node) []*Node {
	g := in[0].Graph()
	none, one, limit := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(f.turns()))
	state := append(append([]*Node{none}, in...), Const(g, float32(1)))
	shape := make([]shapes.Shape, len(state))
	for i, s := range state {
		shape[i] = s.Shape()
	}
	parameters := func(g *Graph) []*Node {
		l := make([]*Node, len(shape))
		for i, s := range shape {
			l[i] = Parameter(g, fmt.Sprint("s", i), s)
		}
		return l
	}
	cond := NewClosure(g, func(g *Graph) []*Node { return []*Node{LessThan(parameters(g)[0], limit)} })
	body := NewClosure(g, func(g *Graph) []*Node {
		l := parameters(g)
		i, in, last := l[0], l[1:len(l)-1], l[len(l)-1]
		for range Repeat {
			in[f.Poke] = poke(in[f.Poke], last, none)
			out := f.Build(o, in)
			if len(out) == 0 {
				continue
			}
			// All of the outputs are wanted, before the next repetition begins: XLA
			// would compute a corner of one, or join the products of several.
			out = OptimizationBarriers(out...)
			for from, to := range f.Chain {
				in[to] = out[from]
			}
			last = corner(out[len(out)-1])
		}
		return append(append([]*Node{Add(i, one)}, in...), last)
	})
	return While(cond, body, state...)[1:]
}

// poke replaces the first element of x by a number that is next to nothing, but
// that XLA does not know.
func poke(x, last, none *Node) *Node {
	at := make([]*Node, x.Rank())
	ones := make([]int, x.Rank())
	for i := range at {
		at[i], ones[i] = none, 1
	}
	return DynamicUpdateSlice(x, ConvertDType(Reshape(MulScalar(last, 1e-30), ones...), x.DType()), at)
}

// corner is the first element of x as a float32 scalar.
func corner(x *Node) *Node {
	axes := make([]SliceAxisSpec, x.Rank())
	for i := range axes {
		axes[i] = AxisRange(0, 1)
	}
	return ConvertDType(Reshape(Slice(x, axes...)), dtypes.Float32)
}
