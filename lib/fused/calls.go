package fused

import (
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// Calls are the calls that package xla leaves to a program's writer: of cuDNN, and of
// Gaiden's kernels, which are plain where Ops has no Builder. Ops needs a Write or a Builder, and
// has the calls that it can make as they are: Norm, NormOfSum, OneRow and AttendCached.
type Calls struct {
	Ops
	Recurrent Ops // of recurrences
}

var _ xla.Calls = Calls{}

// Recurrence is that of xla.Calls. The kernels' state and sums are float32, in mixed precision
// too; then factors are bfloat16.
func (c Calls) Recurrence(r models.Recurrence) *Node {
	o, d := c.Recurrent, r.Z.DType()
	o.Compute = d
	return to(o.Recurrence(r), d)
}

// NoRecurrence is that of xla.Calls.
func (Calls) NoRecurrence(r models.Recurrence) string { return noRecurrence(r) }

// Attention is that of xla.Calls.
func (c Calls) Attention(s xla.Flash, q, k, v *Node, lengths ...*Node) (y, statistics *Node) {
	all := c.Ops.write(func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
		y, statistics, err := hlo.Flash(s).Attention(f, in[0], in[1], in[2], in[3:]...)
		return []compute.Value{y, statistics}, err
	}, append([]*Node{q, k, v}, lengths...)...)
	return all[0], all[1]
}

// AttentionGradient is that of xla.Calls.
func (c Calls) AttentionGradient(s xla.Flash, q, k, v, statistics, dy, y *Node, lengths ...*Node) []*Node {
	return c.Ops.write(func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
		return hlo.Flash(s).AttentionGradient(f, in[0], in[1], in[2], in[3], in[4], in[5], in[6:]...)
	}, append([]*Node{q, k, v, statistics, dy, y}, lengths...)...)
}

// Activate is that of xla.Calls.
func (c Calls) Activate(x, biases *Node, act models.Act) *Node {
	if known, is := act.Activation(); is {
		return c.Ops.Activate(x, biases, known)
	}
	return nil
}
