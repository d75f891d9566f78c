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

// What comes back, of package result: go doc gaiden/lib/fit/result.History lists fields and methods.

type (
	// Control is what OnEpoch and OnStep get: see [result.Control].
	Control = result.Control
	// History is the record of a training: see [result.History].
	History = result.History
	Epoch   = result.Epoch
	// Score is how well a net does on a set: see [result.Score].
	Score = result.Score
	// Progress is where a training is: see [result.Progress].
	Progress = result.Progress
	// Prediction is what a net returns for examples: see [result.Prediction].
	Prediction = result.Prediction
	Tensor     = result.Tensor
	Tensors    = result.Tensors
)

type Kernels = plan.Kernels

const (
	AutoKernels  = plan.AutoKernels  // Gaiden's where they are expected to be faster or Net.Tune has found so
	XLAKernels   = plan.XLAKernels   // XLA's
	FusedKernels = plan.FusedKernels // Gaiden's where the plan finds some, even if they are slower
)

const plainOps = plan.PlainKernels

// shapeError says which data do not fit the net.
func (n *Net) shapeError(data, what, got, want string) error {
	return &result.ShapeError{Net: n.name, Data: data, What: what, Got: got, Want: want}
}
