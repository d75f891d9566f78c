package fit

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
)

// A stretch is some layers of a net, one after the other. Where devices have many
// gradients to add up, those of a stretch are on their way while the devices go back
// through the layers before it. On two H200s ResNet152's 240 MB take a millisecond.
//
// XLA's scheduler does what gives memory back first, and so would leave the joining
// to the end, where nothing is left to do meanwhile. Each stretch is therefore derived
// by itself, and an optimization barrier holds the gradient that goes below until
// the stretch's own stand together.
type stretch struct {
	trained []int // which of the trained variables are its layers'
	matrix  []int // those of them that are added up early: vectors are small, and go with the rest
	end     int   // its last layer
	y, next *Node // what its last layer gives, and the next stretch takes
}

// much is how many numbers are added up over devices by the stretch. 64 MB take some
// 200 µs between two H200s.
const much = 16 << 20

// stretches divides the layers: each has a quarter of what is added up, or the first
// of them what nothing hides, the gradients that come last. It is one where there is
// not much, or where somebody else's function has variables that nobody can tell
// the layer of.
func (n *Net) stretches(c chunk) []*stretch {
	layers := make([]stretch, len(n.model.Layers))
	names := n.model.Names()
	total, known := 0, 0
	for k, i := range n.layout.trained {
		v := n.layout.variables[i]
		for j, name := range names {
			if !strings.HasPrefix(v.name, name+"/") {
				continue
			}
			known++
			layers[j].trained = append(layers[j].trained, k)
			if v.shape.Rank() > 1 {
				layers[j].matrix = append(layers[j].matrix, k)
				total += v.shape.Size()
			}
			break
		}
	}
	if !c.Split || total <= much && !n.stretching || known < len(n.layout.trained) {
		return []*stretch{{end: len(layers) - 1}}
	}
	var all []*stretch // the last layers first
	here, rest := &stretch{end: len(layers) - 1}, total
	size := 0
	for j := len(layers) - 1; j >= 0; j-- {
		here.trained = append(layers[j].trained, here.trained...)
		here.matrix = append(layers[j].matrix, here.matrix...)
		for _, k := range layers[j].matrix {
			size += n.layout.variables[n.layout.trained[k]].shape.Size()
		}
		if left := rest - size; j > 0 && rest > total/16 && left > 0 && (size >= total/4 || left <= total/16) {
			all = append(all, here)
			here, rest, size = &stretch{end: j - 1}, left, 0
		}
	}
	all = append(all, here)
	last := all[len(all)-1]
	last.matrix = nil // nothing is left to hide them
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// gradients derives the loss by all that is trained. Those of all stretches but the
// first are added up over the devices: joined says which they are, and sums are the
// vectors.
func (t *trace) gradients(loss *Node, variables []*Node, all []*stretch) (gradients []*Node, joined []bool, sums []*Node) {
	trained := t.net.layout.trained
	if len(all) == 1 {
		var wrt []*Node
		for _, i := range trained {
			wrt = append(wrt, variables[i])
		}
		return Gradient(loss, wrt...), make([]bool, len(trained)), nil
	}
	gradients, joined = make([]*Node, len(trained)), make([]bool, len(trained))
	for s := len(all) - 1; s >= 0; s-- {
		var wrt []*Node
		for _, k := range all[s].trained {
			wrt = append(wrt, variables[trained[k]])
		}
		if s > 0 {
			wrt = append(wrt, all[s-1].next)
		}
		got := Gradient(loss, wrt...)
		for at, k := range all[s].trained {
			gradients[k] = got[at]
		}
		if s == 0 {
			break
		}
		below := got[len(got)-1]
		var own []*Node
		for _, k := range all[s].matrix {
			joined[k] = true
			own = append(own, gradients[k])
		}
		t.mark("devices/all_reduce")
		held := OptimizationBarriers(vector(own), below)
		sum := t.allReduce(held[0])
		sums = append(sums, sum)
		for at, x := range portions(sum, own) {
			gradients[all[s].matrix[at]] = x
		}
		loss = ReduceAllSum(Mul(all[s-1].y, StopGradient(held[1])))
	}
	return gradients, joined, sums
}

// join adds float32 arrays up over the devices, in place, but for those that are: as
// one vector, which it returns. Of many operands XLA would make the vector itself, and
// copy each result out of it, where the ops that take a part of ours read it in place.
func (t *trace) join(l []*Node, joined []bool) (sum *Node) {
	t.mark("devices/all_reduce")
	var open []*Node
	var at []int
	for i, x := range l {
		if i >= len(joined) || !joined[i] {
			open, at = append(open, x), append(at, i)
		}
	}
	sum = t.allReduce(vector(open))
	for k, x := range portions(sum, open) {
		l[at[k]] = x
	}
	return sum
}

// portions takes arrays out of their vector.
func portions(v *Node, like []*Node) []*Node {
	var l []*Node
	at := 0
	for _, x := range like {
		n := x.Shape().Size()
		l = append(l, Reshape(Slice(v, AxisRange(at, at+n)), x.Shape().Dimensions...))
		at += n
	}
	return l
}
