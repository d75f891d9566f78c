package fit

import (
	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

// Optimizers of package optim, which has more: AdamW, NAdam, RMSprop, Adagrad, Lion.

type (
	SGD      = optim.SGD
	Adam     = optim.Adam
	AdaDelta = optim.AdaDelta
)

// Losses of package losses.

type (
	Loss         = losses.Loss
	CrossEntropy = losses.CrossEntropy
	MSE          = losses.MSE
	Visibility   = losses.Visibility
)

// What comes back, of package result.

type (
	History    = result.History
	Epoch      = result.Epoch
	Score      = result.Score
	Progress   = result.Progress
	Prediction = result.Prediction

	ArchitectureError = result.ArchitectureError
	ShapeError        = result.ShapeError
	NotFiniteError    = result.NotFiniteError
	MemoryError       = result.MemoryError
)

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
	return &ShapeError{Net: n.name, Data: data, What: what, Got: got, Want: want}
}
