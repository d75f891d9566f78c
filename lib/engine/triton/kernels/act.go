package kernels

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// Act is an activation.
type Act int

// The activations. ReLU's slope at 0 is 0, and it keeps NaN.
const (
	Identity Act = iota
	ReLU
	Sigmoid
	Tanh
)

// String is the activation's name.
func (a Act) String() string { return [...]string{"identity", "relu", "sigmoid", "tanh"}[a] }

// of applies the activation to float32.
func (a Act) of(x triton.Value) triton.Value {
	switch a {
	case ReLU:
		return x.LessEqual(0).Select(0, x)
	case Sigmoid:
		return x.Sigmoid()
	case Tanh:
		return x.Tanh()
	}
	return x
}

// back takes a gradient, float32, through the activation whose result was y.
func (a Act) back(g, y triton.Value) triton.Value {
	switch a {
	case ReLU:
		return y.Greater(0).Select(g, 0)
	case Sigmoid:
		return g.Mul(y.Mul(y.Neg().Add(1)))
	case Tanh:
		return g.Mul(y.Mul(y).Neg().Add(1))
	}
	return g
}

// or32 is the element type given, or float32.
func or32(d dtypes.DType) dtypes.DType {
	if d == dtypes.InvalidDType {
		return dtypes.Float32
	}
	return d
}
