package optim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
)

// Clipped is an optimizer whose gradients are clipped first (Pascanu et al., 2013):
//
//	optim.Clipped{Optimizer: optim.AdamW{}, Norm: 1}
//
// By Norm all gradients of a step are scaled together so that their norm is at most that, as
// PyTorch's clip_grad_norm_ does; by Value each number is limited to ±Value. With both, by
// Value first. Its steps run on XLA's kernels.
type Clipped struct {
	Optimizer   Optimizer
	Norm, Value float64 // 0: not clipped by it
}

// Clipper is an optimizer that changes all gradients of a step together, before its steps.
type Clipper interface {
	// Clip returns as many gradients, of the same shapes.
	Clip(gradients []*Node) []*Node
}

func (o Clipped) Rate() float64 { return o.Optimizer.Rate() }

// Rule is none: a gradient is clipped by what the others are.
func (o Clipped) Rule() *elementwise.Rule { return nil }

func (o Clipped) inner() Optimizer { return o.Optimizer }

// with leaves clipping out: all gradients are clipped together.
func (o Clipped) with(inner Optimizer) Optimizer { return inner }

// Clip clips.
func (o Clipped) Clip(gradients []*Node) []*Node {
	gradients = ClipGradients(o.Optimizer, gradients)
	all := slices.Clone(gradients)
	if o.Value > 0 {
		for i, g := range all {
			all[i] = ClipScalar(g, -o.Value, o.Value)
		}
	}
	if o.Norm > 0 && len(all) > 0 {
		return ClipNorm(all, Scalar(all[0].Graph(), all[0].DType(), o.Norm))
	}
	return all
}

// ClipNorm scales gradients together so that their norm is at most so much.
func ClipNorm(gradients []*Node, norm *Node) []*Node {
	var square *Node
	for _, g := range gradients {
		if s := ReduceAllSum(Square(g)); square == nil {
			square = s
		} else {
			square = Add(square, s)
		}
	}
	factor := MinScalar(Mul(Inverse(AddScalar(Sqrt(square), 1e-6)), norm), 1)
	all := slices.Clone(gradients)
	for i, g := range all {
		all[i] = Mul(g, factor)
	}
	return all
}

func (o Clipped) check() error {
	switch wrong := func(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }; {
	case o.Optimizer == nil:
		return errors.New("Optimizer of optim.Clipped is nil: want one, such as optim.AdamW{}")
	case wrong(o.Norm):
		return fmt.Errorf("Norm of optim.Clipped is %g: want more than 0, or 0 to clip by Value only", o.Norm)
	case wrong(o.Value):
		return fmt.Errorf("Value of optim.Clipped is %g: want more than 0, or 0 to clip by Norm only", o.Value)
	case o.Norm == 0 && o.Value == 0:
		return errors.New("Norm and Value of optim.Clipped are 0: want one of them, such as Norm: 1")
	}
	return Check(o.Optimizer)
}
