package fit

import (
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower/plan"
)

// A stretch is some layers of a net, one after the other. Where devices have many
// gradients to add up, those of a stretch are on their way while the devices go back
// through the stretch before it. On two H200s ResNet152's 240 MB take most of a
// millisecond; a step at 2,048 took 17.9 to 18.1 ms in place of 18.6 (18.2 with a
// twentieth of it all in a stretch; 18.0 with a quarter and 18.3 with a seventh, where
// less was left for the end): products are slower beside it, so that a third of its time
// is gained.
//
// XLA's scheduler does what gives memory back first, orders all that devices do
// together by where it stands in the program, and so would leave it to the end. So each
// stretch is derived by itself; an optimization barrier holds the gradient that goes
// below until the stretch's own stand together; and with these stands an element of
// what the stretch above has added up, which must be there by then.
type bucket struct {
	trained       []int // which of the trained variables are its layers'
	matrices      []int // those of them that are added up early: vectors are small, and go with the rest
	last          int   // its last layer
	output, input *Node // what its last layer gives, and the next stretch takes
}

// much is how many numbers devices add up by the stretch, and stretchShare the share
// of them that is one. What nothing hides, the gradients that come last, is at most
// lastShare.
const (
	much         = 16 << 20
	stretchShare = 10
	lastShare    = 16
)

// buckets divides the layers. They are one stretch where there is not much to add up,
// or where somebody else's function has variables that nobody can tell the layer of.
func (n *Net) buckets(c plan.Part) []*bucket {
	layers, whole := n.layerBuckets()
	total := 0
	for _, l := range layers {
		total += n.elements(l.matrices)
	}
	if !c.Split || total <= much && !n.testBuckets || !whole {
		one := &bucket{last: len(layers) - 1}
		for k := range n.layout.trained {
			one.trained = append(one.trained, k)
		}
		return []*bucket{one}
	}
	var all []*bucket // the last layers first
	here, rest := &bucket{last: len(layers) - 1}, total
	for j := len(layers) - 1; j >= 0; j-- {
		here.trained = append(layers[j].trained, here.trained...)
		here.matrices = append(layers[j].matrices, here.matrices...)
		size := n.elements(here.matrices)
		left := rest - size
		if j > 0 && rest > total/lastShare && left > 0 && (size >= total/stretchShare || left <= total/lastShare) {
			all = append(all, here)
			here, rest = &bucket{last: j - 1}, left
		}
	}
	here.matrices = nil // nothing is left to hide them
	all = append(all, here)
	slices.Reverse(all)
	return all
}

// layerBuckets makes a stretch of each layer, and says whether all trained variables are
// in them.
func (n *Net) layerBuckets() (layers []*bucket, whole bool) {
	known := 0
	for j, name := range n.model.Names() {
		l := &bucket{last: j}
		for k, i := range n.layout.trained {
			v := n.layout.variables[i]
			if !strings.HasPrefix(v.name, name+"/") {
				continue
			}
			known++
			l.trained = append(l.trained, k)
			if v.shape.Rank() > 1 {
				l.matrices = append(l.matrices, k)
			}
		}
		layers = append(layers, l)
	}
	return layers, known == len(n.layout.trained)
}

// elements is how many numbers some trained variables have.
func (n *Net) elements(trained []int) (size int) {
	for _, k := range trained {
		size += n.layout.variables[n.layout.trained[k]].shape.Size()
	}
	return size
}

// splitAt notes where stretches begin, for applyNet.
func splitAt(all []*bucket) func(i int, y *Node) *Node {
	return func(i int, y *Node) *Node {
		for _, s := range all[:len(all)-1] {
			if s.last == i {
				s.output, s.input = y, Identity(y)
				return s.input
			}
		}
		return y
	}
}

// gradients derives the loss by all that is trained. Those of matrices of all
// stretches but the first are added up over the devices: joined says which they are,
// and sums are the vectors that they are in.
func (t *trace) gradients(loss *Node, variables []*Node, all []*bucket) (gradients []*Node, joined []bool, sums []*Node) {
	trained := t.net.layout.trained
	gradients, joined = make([]*Node, len(trained)), make([]bool, len(trained))
	for s := len(all) - 1; s >= 0; s-- {
		var wrt []*Node
		for _, k := range all[s].trained {
			wrt = append(wrt, variables[trained[k]])
		}
		if s > 0 {
			wrt = append(wrt, all[s-1].input)
		}
		got := Gradient(loss, wrt...)
		for at, k := range all[s].trained {
			gradients[k] = got[at]
		}
		if s == 0 {
			break
		}
		var own []*Node
		for _, k := range all[s].matrices {
			joined[k] = true
			own = append(own, gradients[k])
		}
		t.mark("devices/all_reduce")
		held := OptimizationBarriers(flattenAfter(sums, own), got[len(got)-1])
		sum := t.allReduce(held[0])
		sums = append(sums, sum)
		for at, x := range unflatten(sum, own) {
			gradients[all[s].matrices[at]] = x
		}
		loss = ReduceAllSum(Mul(all[s-1].output, StopGradient(held[1])))
	}
	return gradients, joined, sums
}

// flattenAfter is arrays as one vector, with an element of the last sum at its end: what is
// done with it waits for that.
func flattenAfter(sums, l []*Node) *Node {
	if n := len(sums); n > 0 {
		l = append(slices.Clip(l), Slice(sums[n-1], AxisRange(0, 1)))
	}
	return vector(l)
}

// allReduceFlat adds float32 arrays up over the devices, in place, but for those that are: as
// one vector, which it adds to the sums. Of many operands XLA would make the vector
// itself, and copy each result out of it, where the ops that take a part of ours read
// it in place.
func (t *trace) allReduceFlat(l []*Node, joined []bool, sums []*Node) []*Node {
	t.mark("devices/all_reduce")
	var open []*Node
	var at []int
	for i, x := range l {
		if i >= len(joined) || !joined[i] {
			open, at = append(open, x), append(at, i)
		}
	}
	sum := t.allReduce(flattenAfter(sums, open))
	for k, x := range unflatten(sum, open) {
		l[at[k]] = x
	}
	return append(sums, sum)
}

// unflatten takes arrays out of their vector.
func unflatten(v *Node, like []*Node) []*Node {
	var l []*Node
	at := 0
	for _, x := range like {
		n := x.Shape().Size()
		l = append(l, Reshape(Slice(v, AxisRange(at, at+n)), x.Shape().Dimensions...))
		at += n
	}
	return l
}
