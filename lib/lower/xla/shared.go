package xla

import . "github.com/gomlx/gomlx/core/graph"

// Shared is what operations of one program know of each other, so that one kernel does the work of
// several.
type Shared struct {
	// Inference says that nobody asks for gradients of what is built now; where somebody does,
	// they are those of the plain form.
	Inference bool

	rows    map[*Node]OneRow       // by what was made of them, unshaped
	sums    map[*Node]*sum         // what norms may normalize, by the node that they are given
	biased  map[*Node]biased       // results of dense layers, unshaped
	columns []func() (of, s *Node) // sums over all axes but the last of gradients
}

type biased struct{ y, biases *Node }

// NewShared is that of a new program.
func NewShared() *Shared {
	return &Shared{rows: map[*Node]OneRow{}, sums: map[*Node]*sum{}, biased: map[*Node]biased{}}
}

// unshaped is x before reshapes that have left it its last axis.
func unshaped(x *Node) *Node {
	for x.Type() == NodeTypeReshape && last(x) == last(x.Inputs()[0]) {
		x = x.Inputs()[0]
	}
	return x
}

// last is the length of x's last axis.
func last(x *Node) int {
	if x.Rank() == 0 {
		return 1
	}
	return x.Shape().Dim(-1)
}

// columnSums are sums over all axes of v but the last, if the kernel that computed v made them.
func (s *Shared) columnSums(v *Node) *Node {
	if s == nil {
		return nil
	}
	for _, columns := range s.columns {
		if of, sums := columns(); of != nil && unshaped(of) == unshaped(v) {
			return sums
		}
	}
	return nil
}
