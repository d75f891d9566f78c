package fit

import (
	"gaiden/lib/fit/result"
	"gaiden/lib/fit/step"
	"gaiden/lib/lower/plan"
)

// What comes back, of package result.

type (
	History    = result.History
	Epoch      = result.Epoch
	Score      = result.Score
	Progress   = result.Progress
	Prediction = result.Prediction
)

// Step is a training step of one's own.
type Step = step.Step

// Kernels says which kernels the training steps use. Their results are equal but for
// rounding.
type Kernels = plan.Kernels

const (
	AutoKernels  = plan.AutoKernels  // Gaiden's where they are expected to be faster or Net.Tune has found so
	XLAKernels   = plan.XLAKernels   // XLA's
	FusedKernels = plan.FusedKernels // Gaiden's wherever there are some
)

const plainOps = plan.PlainKernels

// Loop says how the steps of an epoch run.
type Loop = plan.Loop

const (
	AutoLoop    = plan.AutoLoop    // as [Net.Plan] decides
	LoopedSteps = plan.LoopedSteps // a loop in one program
	SingleSteps = plan.SingleSteps // a program that runs once for each step
)

// shapeError says which data do not fit the net.
func (n *Net) shapeError(data, what, got, want string) error {
	return &result.ShapeError{Net: n.name, Data: data, What: what, Got: got, Want: want}
}
