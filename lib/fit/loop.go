package fit

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// repeat is a loop in a program: count times inner turns, with the number of
// the turn. XLA counts the inner ones beforehand; the outer ones it cannot, and
// on a GPU each of those waits for the host. What a body
// uses from outside must be made before repeat is called.
func (t *trace) repeat(count *Node, inner int, state []*Node, body func(i *Node, state []*Node) []*Node) []*Node {
	zero, one := t.scalar(int32(0)), t.scalar(int32(1))
	if inner == 1 {
		return t.while(zero, one, count, state, body)
	}
	size := t.scalar(int32(inner))
	return t.while(zero, one, count, state, func(i *Node, state []*Node) []*Node {
		begin := Mul(i, size)
		return t.while(zero, one, size, state, func(k *Node, state []*Node) []*Node {
			return body(Add(begin, k), state)
		})
	})
}

// while counts from zero to limit.
func (t *trace) while(zero, one, limit *Node, state []*Node, body func(i *Node, state []*Node) []*Node) []*Node {
	return t.whileTrue(zero, one, state, func(i *Node, _ []*Node) *Node { return LessThan(i, limit) }, body)
}

// whileTrue counts from zero on as long as more says.
func (t *trace) whileTrue(zero, one *Node, state []*Node, more func(i *Node, state []*Node) *Node, body func(i *Node, state []*Node) []*Node) []*Node {
	shape := make([]shapes.Shape, len(state))
	for i, s := range state {
		shape[i] = s.Shape()
	}
	parameters := func(g *Graph) (i *Node, l []*Node) {
		i = Parameter(g, "i", shapes.Make(dtypes.Int32))
		for k, s := range shape {
			l = append(l, Parameter(g, "s"+itoa(k), s))
		}
		return i, l
	}
	cond := NewClosure(t.g, func(g *Graph) []*Node {
		return []*Node{more(parameters(g))}
	})
	turn := NewClosure(t.g, func(g *Graph) []*Node {
		i, l := parameters(g)
		next := body(i, l)
		return append([]*Node{Add(i, one)}, next...)
	})
	return While(cond, turn, append([]*Node{zero}, state...)...)[1:]
}

// batch is a batch of examples inside a program.
type batch struct {
	in   models.Inputs // each [n input…]
	y, v *Node         // labels [n positions…] or numbers [n output…], nil where there are none; nil or like y

	rows, hits *Node // losses of labels, and 1 where one has the largest logit, if they are known; like y
}

// sources are the arrays of a set as parameters of a program.
func (t *trace) sources(s *Set) []*Node { return t.sourcesAs("", s) }

func (t *trace) sourcesAs(prefix string, s *Set) []*Node {
	var l []*Node
	for _, a := range s.arrays {
		l = append(l, Parameter(t.g, prefix+a.name, a.shape))
	}
	return l
}

// gather gives rows of a set the form that nets take: pick makes them from an
// array, [examples …] to [n …].
func (t *trace) gather(n int, s *Set, sources []*Node, pick func(*Node) *Node) batch {
	t.mark("data/gather")
	b := batch{in: models.Inputs{}}
	net, known := t.net, map[*Node]int{}
	for _, i := range net.inputs() {
		k := slices.IndexFunc(s.arrays, func(a setArray) bool { return a.input() == i.Name })
		x := Reshape(asNumbers(pick(sources[k])), append([]int{n}, i.Dims...)...)
		if b.in[i.Name] = x; i.Vocab > 0 { // as for what was uploaded
			known[x] = i.Vocab
		}
	}
	models.GuardIDs(t.g, known)
	for k, a := range s.arrays {
		if a.isInput() {
			continue
		}
		if x := Reshape(asNumbers(pick(sources[k])), append([]int{n}, net.dimsOf(a, s)...)...); a.name == "y" {
			b.y = x
		} else {
			b.v = x
		}
	}
	return b
}

// dimsOf are the dimensions of an example's targets or weights, as losses take them.
func (n *Net) dimsOf(a setArray, s *Set) []int {
	switch {
	case n.config.Step != nil || n.freeLabels() || a.shape.Rank() == 1: // of the examples, or whatever the loss takes
		return a.shape.Dimensions[1:]
	case s.labelled():
		return n.positions()
	case s.targets != shapes.Make(dtypes.Float32, n.output...).Size(): // for a loss of your own
		return []int{s.targets}
	}
	return n.output
}

// asNumbers is x, of which bytes become 0 to 1.
func asNumbers(x *Node) *Node {
	if x.DType() == dtypes.Uint8 {
		return MulScalar(ConvertDType(x, dtypes.Float32), 1.0/255)
	}
	return x
}

// rows picks rows by their numbers, an int32 vector.
func rows(index *Node) func(*Node) *Node {
	at := Reshape(index, index.Shape().Size(), 1)
	return func(a *Node) *Node { return Gather(a, at) }
}

// window picks n rows from the one with number from on.
func window(from *Node, n int, zero *Node) func(*Node) *Node {
	return func(a *Node) *Node {
		d := append([]int{}, a.Shape().Dimensions...)
		start := []*Node{from}
		for range d[1:] {
			start = append(start, zero)
		}
		d[0] = n
		return DynamicSlice(a, start, d)
	}
}

// lossOf is the loss that a net has for a set.
func (n *Net) lossOf(s *Set) losses.Loss {
	switch {
	case n.config.Loss != nil:
		return n.config.Loss
	case s.labelled():
		return losses.CrossEntropy{}
	}
	return losses.MSE{}
}

// mean is the loss of a batch: the sum by the number it is divided by; 0 where nothing
// counts.
func (t *trace) mean(sum, weight *Node) *Node {
	if weight.IsConstantExpression() {
		return Div(sum, weight)
	}
	return Div(sum, Where(Equal(weight, ZerosLike(weight)), OnesLike(weight), weight))
}

// score is what a batch gave: the sum of the losses, the number they are
// divided by, and how many answers were right, float32 scalars.
func (t *trace) score(l losses.Loss, out *Node, b batch, mask *Node) (sum, weight, right *Node) {
	t.mark("loss/forward")
	if c, is := l.(losses.CTC); is && models.MaskOf(out) != nil {
		out = c.Within(out, models.MaskOf(out))
	}
	_, joint := l.(losses.Joint)
	joint = joint && mask != nil
	if joint { // its parts have means of their own, of the examples that count
		if b.v == nil {
			b.v = mask
		} else {
			b.v = Mul(b.v, losses.Spread(mask, b.v))
		}
	}
	loss, w, hit := t.classified(l, out, b)
	if share := models.Mixed(out.Graph()); share != nil && b.y != nil {
		other, v := Reverse(b.y, 0), b.v
		if v != nil {
			v = Reverse(v, 0)
		}
		more, u := l.Apply(out, other, v)
		if loss = models.Mix(share, loss, more); w != nil {
			w = models.Mix(share, w, u)
		}
	}
	if mask != nil {
		loss = Mul(loss, mask)
	}
	if joint {
		loss = Mul(loss, ReduceAllMean(mask))
	}
	sum = ReduceAllSum(loss)
	switch {
	case w != nil && mask != nil:
		weight = ReduceAllSum(Mul(w, mask))
	case w != nil:
		weight = ReduceAllSum(w)
	case mask != nil:
		weight = ReduceAllSum(mask)
	default:
		weight = t.scalar(float32(out.Shape().Dimensions[0]))
	}
	if t.added != nil {
		sum, t.added = Add(sum, Mul(t.added, weight)), nil
	}
	right = t.scalar(float32(0))
	if hit = t.hits(out, b, hit); hit != nil {
		if mask != nil {
			hit = Mul(hit, mask)
		}
		right = ReduceAllSum(hit)
	}
	return sum, weight, right
}

// hits are how many answers of each example are right, [n] float32; nil: there are no labels. hit
// is what classified returns.
func (t *trace) hits(out *Node, b batch, hit *Node) *Node {
	if b.y == nil || b.y.DType() != dtypes.Int32 || out.Rank() != b.y.Rank()+1 || t.net.freeLabels() {
		return nil
	}
	if hit == nil {
		hit = ConvertDType(Equal(ArgMax(StopGradient(out), -1, dtypes.Int32), b.y), dtypes.Float32)
	}
	if b.v != nil {
		v := losses.Spread(b.v, hit)
		hit = Where(Equal(v, ZerosLike(v)), ZerosLike(hit), hit)
	}
	if n := hit.Shape().Dimensions[0]; hit.Rank() > 1 {
		hit = ReduceSum(Reshape(hit, n, hit.Shape().Size()/n), 1)
	}
	return hit
}

// classified is the loss of labels, as a losses.Loss returns it, and 1 for each that has the
// largest logit. hit is nil where that is not known yet.
func (t *trace) classified(l losses.Loss, out *Node, b batch) (loss, weight, hit *Node) {
	c, is := l.(losses.CrossEntropy)
	switch {
	case is && b.rows != nil:
	case is && t.manyClasses(c, out):
		b.rows, b.hits = t.w.kernels().CrossEntropy(narrowest(out), b.y, func(logits *Node) *Node { return c.Rows(logits, b.y) })
	default:
		loss, weight = l.Apply(out, b.y, b.v)
		return loss, weight, nil
	}
	loss, weight = c.Examples(b.rows, b.v)
	return loss, weight, b.hits
}

// manyClasses says whether a cross entropy has so many classes that a kernel computes it.
func (t *trace) manyClasses(c losses.CrossEntropy, out *Node) bool {
	d := out.Shape().Dimensions
	return c.Plain() && t.w.Kernels() != nil && d[len(d)-1] >= lower.ManyClasses && models.Mixed(out.Graph()) == nil
}

// narrowest is what floats were before they were converted: a kernel reads less of it.
func narrowest(x *Node) *Node {
	if x.Type() == NodeTypeConvertDType && x.Inputs()[0].DType().IsFloat() {
		return x.Inputs()[0]
	}
	return x
}
