package fit

import (
	"errors"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
)

// A bucket is some layers of a net, one after another. While the devices compute the
// backward pass of one bucket, the gradients of the bucket after it are added up over the
// devices.
//
// XLA's scheduler prefers operations that free memory, orders collective operations by their
// position in the program, and so would leave them to the end. So each bucket is derived by
// itself; an optimization barrier holds the gradient of its input until its sum is requested,
// and an element of the sum before it, which must be there by then.
type bucket struct {
	trained       []int // which of the trained variables are its layers'
	matrices      []int // those of them that are added up early: vectors are small, and go with the rest
	last          int   // its last layer
	output, input *Node // what its last layer gives, and the next bucket takes
}

// buckets divides the layers. They are one bucket where there is not much to add up, or
// where a function of your own has variables whose layer is not known.
func (n *Net) buckets(c plan.Part) []*bucket {
	layers, whole := n.layerBuckets()
	sizes := make([]int, len(layers))
	for i, l := range layers {
		sizes[i] = n.elements(l.matrices)
	}
	least := lower.BucketedElements
	if n.testBuckets {
		least = 0
	}
	var all []*bucket
	from := 0
	for _, last := range plan.Buckets(sizes, least) {
		b := &bucket{last: last}
		for _, l := range layers[from : last+1] {
			b.trained, b.matrices = append(b.trained, l.trained...), append(b.matrices, l.matrices...)
		}
		all, from = append(all, b), last+1
	}
	if c.Split && whole && len(all) > 1 {
		all[0].matrices = nil // no computation hides their sum
		return all
	}
	one := &bucket{last: len(layers) - 1}
	for k := range n.layout.trained {
		one.trained = append(one.trained, k)
	}
	return []*bucket{one}
}

// layerBuckets makes a bucket of each layer, and says whether all trained variables are
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

// splitAt notes where buckets begin, for applyNet.
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
// buckets but the first are added up over the devices: joined says which they are,
// and sums are the vectors that they are in.
func (t *trace) gradients(loss *Node, variables []*Node, all []*bucket) (gradients []*Node, joined []bool, sums []*Node) {
	trained := t.net.layout.trained
	var wrt []*Node
	for _, k := range trained {
		wrt = append(wrt, variables[k])
	}
	hasGradient(loss, wrt)
	gradients, joined = make([]*Node, len(trained)), make([]bool, len(trained))
	for s := len(all) - 1; s >= 0; s-- {
		var wrt []*Node
		for _, k := range all[s].trained {
			wrt = append(wrt, variables[trained[k]])
		}
		if s > 0 {
			wrt = append(wrt, all[s-1].input)
		}
		got := gradient.Final(loss, wrt...)
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

// hasGradient refuses a loss that no weight can change.
func hasGradient(loss *Node, weights []*Node) {
	of := map[*Node]bool{}
	for _, w := range weights {
		of[w] = true
	}
	if len(of) > 0 && gradient.Reached(loss, of) == nil {
		panic(errors.New("the loss has no gradient for any of the weights: what is between them has none, such as ArgMax, a comparison, a conversion to integers, StopGradient, or the loss is a constant"))
	}
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
