package plan

import (
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Training is what a [Plan] is made for: a net, the data, and how it is to be trained.
type Training struct {
	Target lower.Target

	Net          models.Net
	Variables    []Variable
	StateBytes   int64   // of variables, moments and the step
	StateArrays  int     // how many arrays these are
	Convolves    bool    // the net has XLA's convolutions
	FeedForward  bool    // it has neither convolutions nor loops
	Carries      bool    // layers carry state from batch to batch
	ForwardFLOPs float64 // of one example, as the net is written
	Work         Work    // of a training step; needed on a GPU only

	Attentions []lower.Attention // of one example
	Options    lower.Options     // of the lowering
	// Recurrences are why each recurrence of the net has no kernels; "": it has some.
	Recurrences []string
	// Head is the last layer of a net of labels, for one example, and WholeHead why it cannot be
	// computed in pieces, "" if it can.
	Head      lower.Head
	WholeHead string

	OtherLoss string       // why layers' kernels cannot be with the loss or the data, "" if they can
	Measured  bool         // there are metrics besides the accuracy
	Rule      kernels.Rule // the optimizer; nil: one that kernels do not know

	Numbers int // of all inputs of the data set
	Batch   int // examples of a step
	Steps   int // full batches of an epoch, or of all epochs that are one loop
	// Accumulate is in how many parts the gradients of a batch are computed; 0: 1.
	Accumulate int

	Rest int // examples of the last batch of an epoch, if it is smaller
	Last int // steps of the last epoch, if fewer than of the others; 0: as many

	Interval  int // a user's function is called after so many steps; 0: there is none
	Epochs    int
	FullBatch bool // a batch is the whole data set
	Watched   bool // something is decided between two epochs, by a loss or a test

	Use Use
	Settings
	// Known is what is known of steps of a batch with kernels; nil: nothing.
	Known func(batch int) Known
	// Tilings counts how often what is known of kernels' tilings has changed.
	Tilings int
}

// Use is what a plan is for.
type Use int

const (
	// Call is a call of Train.
	Call Use = iota
	// Job is a job of the session, whose programs give names to what they return: the state
	// is not packed, and each step changes it in place.
	Job
	// Comparison is a few steps that are timed with kernels and without: the state is not
	// packed.
	Comparison
)

// Work is what a step needs.
type Work = hlo.Cost

// Variable is an array of the model.
type Variable struct {
	Name      string
	Shape     shapes.Shape
	Trainable bool
}

// Settings are what a user has chosen.
type Settings struct {
	Kernels    Kernels
	Loop       Loop
	Unroll     int // steps of a loop's body; 0: chosen
	Devices    int // 0: 1
	AllDevices bool
	// PackState is for tests: the state is packed, whatever it is.
	PackState bool
}

// Kernels is which kernels a user wants.
type Kernels int

const (
	AutoKernels  Kernels = iota // Gaiden's where they are expected, or were found, to be faster
	XLAKernels                  // XLA's
	FusedKernels                // Gaiden's where the plan finds some, even if they are slower
	PlainKernels                // the plain forms of FusedKernels, on any target: for tests
)

// Loop is what the steps of an epoch are.
type Loop int

const (
	// AutoLoop is SingleSteps for heavy steps on one GPU and for nets with convolutions on
	// a CPU, where they are faster, and LoopedSteps for others.
	AutoLoop Loop = iota
	// LoopedSteps are a loop in one program.
	LoopedSteps
	// SingleSteps are a program that is run for each.
	SingleSteps
)

// Known is what was measured of steps of a net, in µs, with Gaiden's kernels and with
// XLA's; 0: not measured.
type Known struct {
	Fused, XLA float64
	PreferXLA  bool   // they are slower
	Refused    string // why the device does not take Gaiden's
}

func (k Known) nothing() bool { return k.Fused == 0 && k.Refused == "" }
