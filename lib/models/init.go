package models

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Init says what a variable starts with. Random numbers come from the store's
// generator, so a seed there decides them all.
type Init func(store *model.Store) model.VariableInitializer

// Normal draws from the normal distribution with the given standard deviation.
func Normal(deviation float64) Init {
	return func(store *model.Store) model.VariableInitializer {
		if finite("Normal", deviation); deviation < 0 {
			panic(fmt.Errorf("Normal(%g): want 0 or more", deviation))
		}
		return func(g *Graph, shape shapes.Shape) *Node {
			return MulScalar(normal(store, g, shape), deviation)
		}
	}
}

// normal is what the store's RandomNormal gives, by Box and Muller, but rounded once:
// logarithm and cosine of float32 differ in the last bit from device to device, those
// of float64 hardly ever as far as float32 sees. So a seed begins with one net on all.
func normal(store *model.Store, g *Graph, shape shapes.Shape) *Node {
	draw := func() *Node { return ConvertDType(store.RandomUniform(g, shape), dtypes.Float64) }
	radius := MaxScalar(draw(), math.Pow(2, -33)) // half of what comes after 0, which has no logarithm
	angle := draw()
	x := Mul(Sqrt(MulScalar(Log(radius), -2)), Cos(MulScalar(angle, 2*math.Pi)))
	return ConvertDType(x, shape.DType)
}

// Fill is the same number everywhere.
func Fill(value float64) Init {
	return func(*model.Store) model.VariableInitializer {
		finite("Fill", value)
		return func(g *Graph, shape shapes.Shape) *Node { return FillScalar(g, shape, value) }
	}
}

// LeCun is normal with variance 1/inputs, the default of Chainer (LeCun et al.,
// "Efficient BackProp", 1998).
func LeCun(store *model.Store) model.VariableInitializer { return scaled(store, 1) }

// He is normal with variance 2/inputs, for ReLU (He et al., 2015).
func He(store *model.Store) model.VariableInitializer { return scaled(store, 2) }

func scaled(store *model.Store, variance float64) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node {
		in, _ := fans(shape)
		return MulScalar(normal(store, g, shape), math.Sqrt(variance/in))
	}
}

// Glorot is uniform within ±√(6/(inputs+outputs)), the default of Keras and
// Flux (Glorot and Bengio, 2010).
func Glorot(store *model.Store) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node {
		in, out := fans(shape)
		return uniform(store, math.Sqrt(6/(in+out)))(g, shape)
	}
}

// uniform is uniform within ±limit.
func uniform(store *model.Store, limit float64) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node {
		return MulScalar(AddScalar(store.RandomUniform(g, shape), -0.5), 2*limit)
	}
}

// fans are the numbers of inputs and outputs that one weight joins: the last
// two axes, times the size of a kernel.
func fans(shape shapes.Shape) (in, out float64) {
	d := shape.Dimensions
	if len(d) < 2 {
		return math.Max(1, float64(shape.Size())), math.Max(1, float64(shape.Size()))
	}
	window := 1
	for _, n := range d[:len(d)-2] {
		window *= n
	}
	return float64(window * d[len(d)-2]), float64(window * d[len(d)-1])
}

// variable is the value of a variable of scope. Variables are float32 whatever
// a net computes with; init is used when want is nil.
func variable(scope *model.Scope, g *Graph, name string, want, init Init, dims ...int) *Node {
	if want == nil {
		want = init
	}
	store := scope.Store()
	first := want(store)
	v := scope.WithInitializer(first).VariableWithShape(name, shapes.Make(dtypes.Float32, dims...))
	all, _ := store.GetParam(initializers)
	known, _ := all.(map[string]model.VariableInitializer)
	if known == nil {
		known = map[string]model.VariableInitializer{}
		store.SetParam(initializers, known)
	}
	known[v.Path()] = first
	return v.NodeValue(g)
}

// initializers is the parameter of a store that keeps what GoMLX keeps to itself.
const initializers = "/gaiden_initializers"

// Initializer is what the variable at path starts with, nil where the variable
// is not of this package's layers.
func Initializer(store *model.Store, path string) model.VariableInitializer {
	all, _ := store.GetParam(initializers)
	known, _ := all.(map[string]model.VariableInitializer)
	return known[path]
}
