// Package step is for training steps of your own: a [Step] with several losses or nets, which
// becomes a part of the programs of an epoch, and [Gradients] of single batches.
//
// A GAN is two nets whose losses are minimized in turn, each with an optimizer of its own:
//
//	gan := fit.New("gan", models.Parts("gan", []int{28, 28, 1}, generator, critic), fit.Config{
//		Optimizer: optim.Groups{Optimizer: optim.Adam{Beta1: 0.5}, Groups: []optim.Group{{Names: []string{"critic/*"}, Rate: 4}}},
//		Step: func(s *step.Step) {
//			fake := s.Apply("generator", s.Normal(s.X.Shape().Dimensions[0], 64))
//			loss := func(images *graph.Node, real float64) *graph.Node {
//				logits := s.Apply("critic", images)
//				return losses.Mean(losses.BinaryCrossEntropy{}, logits, graph.AddScalar(graph.ZerosLike(logits), real))
//			}
//			s.Minimize(graph.Add(loss(s.X, 1), loss(graph.StopGradient(fake), 0)), "critic")
//			s.Minimize(loss(fake, 1), "generator")
//		},
//	})
//
// [gaiden/lib/fit.Net.Fit], FitJob and Evaluate work as with any other net, and
// gan.Part("generator").Predict(z) runs a part. The loss of a step is the sum of the losses
// that it minimizes. The function is plain GoMLX, so graph.Gradient of a gradient is a second
// derivative.
package step

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/models"
)

// Step is a training step of your own, as fit.Config.Step writes it for a batch.
type Step struct {
	X, Y, V  *Node         // examples [n input…], targets and weights as they were uploaded, [n …]
	In       models.Inputs // of a net with several, in place of X
	Training bool          // not in Evaluate, where Minimize changes nothing
	Writer                 // of the program
}

// Writer writes the program that a step is part of.
type Writer interface {
	// ForwardInputs is what a net of several inputs returns for them, float32.
	ForwardInputs(in models.Inputs) *Node
	// Apply is what a layer or part of the net returns for x, float32; Forward that of the
	// whole net.
	Apply(layer string, x *Node) *Node
	// Minimize changes the weights of some layers or parts, or of all, by the gradient of a
	// scalar. What the step does after it sees the new weights; a later Minimize of the same
	// weights refuses a loss that was computed from the old ones.
	Minimize(loss *Node, layers ...string)
	// Adapted calls then, for which some layers or parts, or all, have the weights after a step of
	// gradient descent on a scalar, at a rate. What is minimized later is differentiated through
	// that step, as MAML does (Finn et al., 2017). In then, Adapted is a second such step.
	Adapted(loss *Node, rate float64, then func(), layers ...string)
	// Follow moves the weights of a part towards those of another one of the same layers, such
	// as a target net (Mnih et al., 2015) or a teacher (Grill et al., 2020) that is frozen for
	// the optimizer: they become decay·w + (1-decay)·other. A decay of 0 copies.
	Follow(part, other string, decay float64)
	// Added is the sum of what the layers applied so far have added to the loss by
	// models.AddLoss, which counts nowhere else.
	Added() *Node
	// Report shows a scalar in the progress bar and the history.
	Report(name string, value *Node)
	// Random are random numbers from 0 to 1, or of mean 0 and variance 1.
	Random(normal bool, shape shapes.Shape) *Node
}

// Forward is what the net returns for x, float32.
func (s *Step) Forward(x *Node) *Node { return s.ForwardInputs(models.Inputs{"x": x}) }

// Normal is random numbers of mean 0 and variance 1.
func (s *Step) Normal(dims ...int) *Node { return s.Random(true, shapes.Make(dtypes.Float32, dims...)) }

// Uniform is random numbers from 0 to 1.
func (s *Step) Uniform(dims ...int) *Node {
	return s.Random(false, shapes.Make(dtypes.Float32, dims...))
}
