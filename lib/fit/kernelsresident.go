package fit

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/fused"
)

// lightResident is how many weights a net has at least whose steps are resident kernels:
// what blocks wait for each other takes the same time for small nets, which are faster
// with a kernel for each layer.
const lightResident = 1_000_000

// resident is how many steps on a set are one kernel, nil if they are not: where the
// device has a processor for each block, of a kind that has been tried.
func (n *Net) resident(s *Set, batch int) *fused.Resident {
	if !n.target.Hopper() {
		return nil
	}
	if _, err := n.plan(s); err != nil {
		return nil
	}
	if x, err := s.x.Shape(); err != nil || x.DType != dtypes.Uint8 && x.DType != dtypes.Float32 {
		return nil
	}
	r, err := fused.NewResident(n.model, ruleOf(n.config.Optimizer), s.N, batch)
	if err != nil || r.Blocks() > n.target.Processors || r.Weights() < lightResident {
		return nil
	}
	return r
}
