package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SpectralNorm is a layer whose weights are divided by their largest singular value, which one
// power iteration a step estimates (Miyato et al., 2018), as the critics of GANs want it. Its
// vectors, "u" of the outputs and "v" of the inputs, are variables without a gradient.
type SpectralNorm struct {
	Name  string
	Layer Layer // Dense, Conv1D, Conv2D or Conv3D; needs no name
}

func (l SpectralNorm) Title() (name, kind string) { return l.Name, "SpectralNorm" }

func (l SpectralNorm) check() error {
	if err := checkOne(l.Layer); err != nil {
		return err
	}
	switch l.Layer.(type) {
	case Dense, Conv1D, Conv2D, Conv3D:
		return nil
	}
	_, kind := l.Layer.Title()
	return fmt.Errorf("Layer is a %s: want a Dense, Conv1D, Conv2D or Conv3D", kind)
}

func (l SpectralNorm) branches() []branch { return []branch{{"Layer", []Layer{l.Layer}}} }

// Apply takes what the layer takes, and returns what it returns.
func (l SpectralNorm) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	apply(l.Layer, scope, x, nil) // makes the variables
	weights := scope.GetVariable("weights")
	g := x.Graph()
	old := weights.NodeValue(g)
	channels := lastAxis(old)
	w := Reshape(float(old), -1, channels) // [inputs channels]
	vector := func(name string, n int) *model.Variable {
		random := func(g *Graph, shape shapes.Shape) *Node { return unit(normal(scope.Store(), g, shape)) }
		return scope.WithInitializer(random).VariableWithShape(name, shapes.Make(dtypes.Float32, n)).SetTrainable(false)
	}
	out, in := vector("u", channels), vector("v", w.Shape().Dimensions[0])
	u, v := StopGradient(out.NodeValue(g)), StopGradient(in.NodeValue(g))
	if scope.IsTraining(g) {
		matrix := StopGradient(w)
		u = unit(Einsum("io,i->o", matrix, v))
		v = unit(Einsum("io,o->i", matrix, u))
		out.SetNodeValue(u)
		in.SetNodeValue(v)
	}
	norm := Einsum("i,io->o", v, w)
	norm = ReduceAllSum(Mul(norm, u))
	weights.SetNodeValue(ConvertDType(Div(float(old), norm), old.DType()))
	y, _ := apply(l.Layer, scope, x, nil)
	weights.SetNodeValue(old)
	return y
}

// unit is a vector divided by its length.
func unit(x *Node) *Node {
	return Div(x, MaxScalar(Sqrt(ReduceAllSum(Square(x))), 1e-12))
}
