package models

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Net is a model: a list of layers, the first of which takes the examples.
type Net struct {
	Name   string
	Input  []int // dimensions of one example, such as 28, 28, 1
	Layers []Layer
	// Integers says that examples are integers, such as ids. It need not be set where the
	// first layer is an [Embedding].
	Integers bool

	wrong error // of a function that made the net; see Check
	parts bool  // see Parts
}

// Layer is one step of a Net.
type Layer interface {
	// Title is the layer's name, "" for one made of its kind, and its kind as
	// Keras calls it.
	Title() (name, kind string)
	// Apply builds the layer. x is a batch; its variables belong into scope,
	// except those of layers that hold others.
	Apply(scope *model.Scope, x *Node) *Node
}

// Func makes a Net of any GoMLX model function. Its variables keep the names
// that the function gives them. Package fit trains on its own loss: a function
// that adds one with train.AddLoss, as regularizers do, is refused.
func Func(name string, input []int, apply func(scope *model.Scope, x *Node) *Node) Net {
	return Net{Name: name, Input: input, Layers: []Layer{function{name, apply}}}
}

// TakesIntegers says whether examples are integers.
func (n Net) TakesIntegers() bool { return n.Integers || n.Vocab() > 0 }

// Vocab is how many ids the first layer knows, 0 if it takes none.
func (n Net) Vocab() int {
	if len(n.Layers) == 0 {
		return 0
	}
	switch l := n.Layers[0].(type) {
	case Embedding:
		return l.Vocab
	case Sequential:
		return Net{Layers: l.Layers}.Vocab()
	}
	return 0
}

// Batch is the shape of so many examples, as Apply takes them.
func (n Net) Batch(examples int) shapes.Shape {
	kind := dtypes.Float32
	if n.TakesIntegers() {
		kind = dtypes.Int32
	}
	return shapes.Make(kind, append([]int{examples}, n.Input...)...)
}

type function struct {
	name  string
	apply func(*model.Scope, *Node) *Node
}

func (f function) Title() (name, kind string)              { return f.name, "Func" }
func (f function) Apply(scope *model.Scope, x *Node) *Node { return f.apply(scope, x) }

// Names are the layers' names, each once: a layer without a name gets its
// kind's, as in Keras: dense, dense_1.
func (n Net) Names() []string {
	taken := map[string]bool{}
	for _, l := range n.Layers {
		if name, _ := l.Title(); name != "" {
			taken[name] = true
		}
	}
	names := make([]string, len(n.Layers))
	for i, l := range n.Layers {
		name, kind := l.Title()
		if name == "" {
			name = strings.ToLower(kind)
			for k := 1; taken[name]; k++ {
				name = fmt.Sprintf("%s_%d", strings.ToLower(kind), k)
			}
			taken[name] = true
		}
		names[i] = name
	}
	return names
}

// Apply builds the net: x is a batch of examples, shaped [n input…].
func (n Net) Apply(scope *model.Scope, x *Node) *Node {
	return n.Build(scope, x, nil, nil)
}

// Build is Apply for those who watch: mark, if it is not nil, is called with
// "conv/forward" before the ops of layer conv are made, and with
// "conv/backward" before those of its gradient are. What layer i gives passes
// through each, if that is not nil, on its way to the next.
func (n Net) Build(scope *model.Scope, x *Node, mark func(label string), each func(i int, y *Node) *Node) *Node {
	if n.parts {
		panic(fmt.Errorf("models: %s is a net of parts: want one of them, %s", n.Name, strings.Join(n.Names(), ", ")))
	}
	var once Again
	for i, name := range n.Names() {
		x, once = n.layer(i, name, scope, x, once, mark)
		if each != nil {
			x = each(i, x)
		}
	}
	return x
}

// Layer builds layer i, whose name is name, as Build does.
func (n Net) Layer(i int, name string, scope *model.Scope, x *Node, mark func(label string)) *Node {
	y, _ := n.layer(i, name, scope, x, nil, mark)
	return y
}

func (n Net) layer(i int, name string, scope *model.Scope, x *Node, once Again, mark func(label string)) (y *Node, next Again) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(*LayerError); is {
				panic(r)
			}
			panic(&LayerError{Net: n.Name, Layer: name, Input: x.Shape().Dimensions, Cause: r})
		}
	}()
	if mark != nil {
		mark(name + "/forward")
	}
	l := n.Layers[i]
	if _, is := l.(function); !is {
		scope = scope.In("%s", name)
	}
	y, next = apply(l, scope, x, once)
	if mark == nil {
		return y, next
	}
	return IdentityWithCustomGradient(y, func(_, v *Node) *Node {
		mark(name + "/backward") // the gradient is derived from the last op to the first
		return v
	}), next
}

// LayerError says which layer of a net could not be built. Build panics with
// it, as GoMLX does with its errors.
type LayerError struct {
	Net, Layer string
	Input      []int // dimensions of what the layer was given
	Cause      any   // what the layer panicked with
}

func (e *LayerError) Error() string {
	return fmt.Sprintf("models: %s: layer %s got an input of %v: %v", e.Net, e.Layer, e.Input, e.Cause)
}

// Unwrap is the cause, where that is an error.
func (e *LayerError) Unwrap() error {
	err, _ := e.Cause.(error)
	return err
}
