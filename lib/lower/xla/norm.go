package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// sum is what a norm and others read: x + z + biases, each of which but x may be nil.
type sum struct {
	x, z, biases *Node
	kept         *Node // the same, of the norm's kernel; nil: that is not written
}

// sumAt is what is known of x, or of what x is the same as.
func (s *Shared) sumAt(x *Node) *sum {
	if s == nil {
		return nil
	}
	if s.sums[x] == nil && x.Type() == NodeTypeIdentity {
		if same := s.sumAt(x.Inputs()[0]); same != nil {
			s.sums[x] = &sum{x: same.x, z: same.z, biases: same.biases}
		}
	}
	return s.sums[x]
}

// Norm is a kernel where package lower chooses one.
func (l Lowering) Norm(x, scale, offset *Node, epsilon float64) *Node {
	if !l.normKernel(x) {
		return models.Plain{}.Norm(x, scale, offset, epsilon)
	}
	if l.isRow(x) {
		y := l.Calls.Norm(x, scale, offset, epsilon)
		l.normalized(y, x, scale, offset, epsilon)
		return y
	}
	if s := l.Shared.sumAt(x); s != nil && s.kept == nil {
		y, kept, columns := l.Calls.NormOfSum(x, s.x, s.z, s.biases, scale, offset, epsilon)
		if s.kept = kept; columns != nil {
			l.Shared.columns = append(l.Shared.columns, columns)
		}
		return y
	}
	return l.Calls.Norm(x, scale, offset, epsilon)
}

func (l Lowering) normKernel(x *Node) bool {
	return l.Calls != nil && lower.NormKernel(l.Target, x.Shape().Size(), x.DType())
}

// Fork is that of models.Lowering.
func (l Lowering) Fork(x *Node) {
	if l.Shared != nil && l.normKernel(x) && l.Shared.sumAt(x) == nil {
		l.Shared.sums[x] = &sum{x: x}
	}
}

// Join is that of models.Lowering.
func (l Lowering) Join(x, y *Node) *Node {
	if l.Shared == nil {
		return Add(x, y)
	}
	if sum := l.joined(x, y); sum != nil {
		return sum
	}
	if s := l.Shared.sumAt(x); s != nil && s.kept != nil {
		x = s.kept
	}
	all := Add(x, y)
	if l.normKernel(all) {
		s := &sum{x: x, z: y}
		if b, is := l.Shared.biased[unshaped(y)]; is {
			s.z, s.biases = b.y, b.biases
		}
		l.Shared.sums[all] = s
	}
	return all
}
