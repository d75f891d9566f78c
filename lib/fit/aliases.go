package fit

import (
	"gaiden/lib/data"
	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
	"gaiden/lib/sampling"
)

// What goes in, of packages data and sampling.

type (
	Data   = data.Examples
	Inputs = data.Inputs

	Sampling = sampling.Sampling
)

const SameX = data.SameX // targets are the examples

// What comes back, of package result.

type (
	Control    = result.Control
	History    = result.History
	Epoch      = result.Epoch
	Score      = result.Score
	Progress   = result.Progress
	Prediction = result.Prediction
	Tensor     = result.Tensor
	Tensors    = result.Tensors
)

type Kernels = plan.Kernels

const (
	AutoKernels  = plan.AutoKernels  // Gaiden's where they are expected to be faster or Net.Tune has found so
	XLAKernels   = plan.XLAKernels   // XLA's
	FusedKernels = plan.FusedKernels // Gaiden's wherever there are some
)

const plainOps = plan.PlainKernels

// shapeError says which data do not fit the net.
func (n *Net) shapeError(data, what, got, want string) error {
	return &result.ShapeError{Net: n.name, Data: data, What: what, Got: got, Want: want}
}
