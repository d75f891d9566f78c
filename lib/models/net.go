package models

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	traced "github.com/pkg/errors"
)

// Net is a model: a list of layers, the first of which takes the examples, or a function of
// them, or both: then the layers take what the function makes. A net returns one array; one
// that has several results joins them with Concatenate, and losses.Joint takes them apart.
type Net struct {
	Name   string
	Input  []int // dimensions of one example, such as 28, 28, 1; default: those of nested examples
	Layers []Layer
	// Integers says that examples are integers, such as ids. It need not be set where the
	// first layer is an [Embedding].
	Integers bool
	// Inputs are the arrays of an example that has several, in place of Input. They need a
	// Function.
	Inputs []Input
	// Function is plain GoMLX. Its input is in["x"] where the net has Input. Its variables keep
	// the names that the function gives them; see [Call].
	Function func(scope *model.Scope, in Inputs) *Node

	LoRA LoRA     // narrow matrices next to those of dense layers, for fine-tuning
	Int8 []string // patterns of dense layers and embeddings whose weights are int8, with a scale for each output or id; they are not trained

	wrong error // of a function that made the net; see Check
	parts bool  // see Parts
}

// Input is one of several arrays of an example.
type Input struct {
	Name     string
	Dims     []int // of one example
	Integers bool  // such as ids
	Vocab    int   // ids are less than it, which is checked before training; default: that of an Embedding that takes the input as it is
}

// Inputs are batches of a net's inputs, by name.
type Inputs map[string]*Node

// Layer is one step of a Net.
type Layer interface {
	// Title is the layer's name, "" for one made of its kind, and its kind as
	// Keras calls it.
	Title() (name, kind string)
	// Apply builds the layer. x is a batch; its variables belong into scope,
	// except those of layers that hold others.
	Apply(scope *model.Scope, x *Node) *Node
}

// Kinds are the layers that the description of a net can name: all that hold no function.
func Kinds() []any {
	return []any{Activation{}, Attention{}, AvgPool1D{}, AvgPool2D{}, AvgPool3D{}, BatchNorm{}, Bidirectional{}, ClassToken{}, ColorJitter{}, Concat{}, Conv1D{}, Conv2D{}, Conv3D{}, ConvTranspose2D{},
		Cutout{}, Dense{}, DepthwiseConv2D{}, Dropout{}, Embedding{}, FeedForward{}, FirstStep{}, Flatten{}, GlobalAvgPool{}, GlobalMaxPool{}, GroupNorm{}, GRU{}, InstanceNorm{}, LastStep{}, LayerNorm{},
		LSTM{}, Masking{}, MaxPool1D{}, MaxPool2D{}, MaxPool3D{}, MixUp{}, Normalize{}, Positions{}, PReLU{}, RandomAffine{}, RandomCrop{}, RandomFlip{}, Repeat{}, Residual{}, RMSNorm{}, RNN{},
		Sequential{}, SinusoidalPositions{}, SoftCap{}, SpectralNorm{}, Tied{}, TimestepEncoding{}, TransformerBlock{}, Unflatten{}, Upsample2D{}}
}

// Call applies a layer inside of a Function, with variables under the layer's name. Called
// twice, it shares them. A layer without variables needs no name.
//
//	table := models.Embedding{Name: "words", Vocab: 1000, Units: 64}
//	a, b := models.Call(scope, table, in["question"]), models.Call(scope, table, in["answer"])
func Call(scope *model.Scope, l Layer, x *Node) *Node {
	if err := exists(l); err != nil {
		panic(fmt.Errorf("the layer is %w", err))
	}
	name, kind := l.Title()
	if x == nil {
		panic(fmt.Errorf("layer %s got no input, but nil: want an array of the net's inputs by its name, in[\"x\"] where there is one, or a node made of them", cmp.Or(name, kind)))
	}
	if strings.ContainsAny(name, "/*") {
		panic(fmt.Errorf("a %s is called %q: in a Function want a name without / or *", kind, name))
	}
	named := name != ""
	if !named {
		name = strings.ToLower(kind)
	}
	if m, is := l.(LSTM); is && m.Stateful > 0 {
		panic(fmt.Errorf("layer %s is Stateful: want it among the net's own Layers, which follow the Function", name))
	}
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Errorf("layer %s got an input of %v: %w", name, x.Shape().Dimensions, Recovered(r)))
		}
	}()
	own := scope.At("%s", name)
	y, _ := apply(l, own, x, nil)
	for v := range own.IterVariables() {
		if !named {
			panic(fmt.Errorf("it has no Name and makes %s: in a Function want a name for a layer with variables, because a second layer of the same name shares them", v.Name()))
		}
		break
	}
	watch(own.Scope(), y)
	return y
}

// Listed is the net with its Function as the first of its Layers.
func (n Net) Listed() Net {
	if n.Function != nil {
		n.Layers = append([]Layer{function{n.Name, n.Function}}, n.Layers...)
		n.Function = nil
	}
	return n
}

// AllInputs are the net's inputs. The name of a single one, of Input, is x.
func (n Net) AllInputs() []Input {
	if n.Inputs != nil {
		return n.Inputs
	}
	return []Input{{Name: only, Dims: n.Input, Integers: n.TakesIntegers(), Vocab: n.Vocab()}}
}

// only is the name of a net's input where it has one.
const only = "x"

// TakesIntegers says whether examples are integers.
func (n Net) TakesIntegers() bool { return n.Integers || n.Vocab() > 0 }

// Vocab is how many ids the first layer knows, 0 if it takes none.
func (n Net) Vocab() int {
	if len(n.Layers) == 0 || n.Function != nil {
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

// Batch is the shape of so many examples, as programs take them.
func (i Input) Batch(examples int) shapes.Shape {
	kind := dtypes.Float32
	if i.Integers {
		kind = dtypes.Int32
	}
	return shapes.Make(kind, append([]int{examples}, i.Dims...)...)
}

// Batch are so many examples, which of makes of their names and shapes.
func (n Net) Batch(examples int, of func(name string, shape shapes.Shape) *Node) Inputs {
	in := Inputs{}
	for _, i := range n.AllInputs() {
		in[i.Name] = of(i.Name, i.Batch(examples))
	}
	return in
}

// function is a Function as a layer.
type function struct {
	name  string
	apply func(*model.Scope, Inputs) *Node
}

func (f function) Title() (name, kind string)              { return f.name, "Function" }
func (f function) Apply(scope *model.Scope, x *Node) *Node { return f.apply(scope, Inputs{only: x}) }

// Names are the layers' names, each once: a layer without a name gets its
// kind's, as in Keras: dense, dense_1.
func (n Net) Names() []string {
	n = n.Listed()
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

// String lists the layers.
func (n Net) String() string {
	if n.wrong != nil {
		return n.wrong.Error()
	}
	var in, layers []string
	for _, i := range n.AllInputs() {
		in = append(in, strings.TrimSpace(fmt.Sprint(i.Name, " ", i.Dims)))
	}
	listed := n.Listed()
	if slices.Contains(listed.Layers, nil) {
		return fmt.Sprintf("%s has a layer that is nil", cmp.Or(n.Name, "a net"))
	}
	for i, name := range listed.Names() {
		_, kind := listed.Layers[i].Title()
		layers = append(layers, fmt.Sprintf("%s (%s)", name, kind))
	}
	return fmt.Sprintf("%s takes %s: %s", cmp.Or(n.Name, "a net"), strings.Join(in, ", "), strings.Join(layers, ", "))
}

// Apply builds a net with one input: x is a batch of examples, shaped [n input…].
func (n Net) Apply(scope *model.Scope, x *Node) *Node {
	return n.Build(scope, Inputs{only: x}, nil, nil)
}

// Build builds the net. mark, if it is not nil, is called with
// "conv/forward" before the ops of layer conv are made, and with
// "conv/backward" before those of its gradient are. What layer i gives passes
// through each, if that is not nil, on its way to the next.
func (n Net) Build(scope *model.Scope, in Inputs, mark func(label string), each func(i int, y *Node) *Node) *Node {
	if n.parts {
		panic(fmt.Errorf("models: %s is a net of parts: want one of them, %s", n.Name, strings.Join(n.Names(), ", ")))
	}
	n = n.Listed()
	x := in[only]
	var once Again
	n.adapt(scope)
	for i, name := range n.Names() {
		x, once = n.layer(i, name, scope, in, x, once, mark)
		if each != nil {
			x = HandMask(x, each(i, x))
		}
	}
	return x
}

// Layer builds layer i, whose name is name, as Build does. Inputs of the net are not there
// but for x.
func (n Net) Layer(i int, name string, scope *model.Scope, x *Node, mark func(label string)) *Node {
	return n.LayerOf(i, name, scope, Inputs{only: x}, mark)
}

// LayerOf is Layer with all inputs of the net, for its Function; other layers take x.
func (n Net) LayerOf(i int, name string, scope *model.Scope, in Inputs, mark func(label string)) *Node {
	n.adapt(scope)
	y, _ := n.Listed().layer(i, name, scope, in, in[only], nil, mark)
	return y
}

func (n Net) layer(i int, name string, scope *model.Scope, in Inputs, x *Node, once Again, mark func(label string)) (y *Node, next Again) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(*LayerError); is {
				panic(r)
			}
			panic(&LayerError{Net: n.Name, Layer: name, Input: n.dimsOf(in, x), Cause: Recovered(r)})
		}
	}()
	if mark != nil {
		mark(name + "/forward")
	}
	switch l := n.Layers[i].(type) {
	case function:
		y = note(l, scope.Scope(), in[n.AllInputs()[0].Name], func() *Node {
			y := l.apply(scope, in)
			if y == nil {
				panic(errors.New("the Function returned nil"))
			}
			return y
		})
	case leaf:
		y, next = apply(l.Layer, l.scope(scope), x, once)
	default:
		y, next = apply(l, scope.In("%s", name), x, once)
	}
	watch(scope.Scope()+"/"+name, y)
	if mark == nil {
		return y, next
	}
	return HandMask(y, IdentityWithCustomGradient(y, func(_, v *Node) *Node {
		mark(name + "/backward") // the gradient is derived from the last op to the first
		return v
	})), next
}

// dimsOf are the dimensions of what a layer is given, for an error.
func (n Net) dimsOf(in Inputs, x *Node) string {
	if x != nil {
		return fmt.Sprint(x.Shape().Dimensions)
	}
	var l []string
	for _, i := range n.Inputs {
		l = append(l, fmt.Sprint(i.Name, " ", in[i.Name].Shape().Dimensions))
	}
	return strings.Join(l, ", ")
}

// LayerError says which layer of a net could not be built. Build panics with
// it, as GoMLX does with its errors.
type LayerError struct {
	Net, Layer string
	Input      string // dimensions of what the layer was given
	Cause      any    // what the layer panicked with
}

func (e *LayerError) Error() string {
	return fmt.Sprintf("models: %s: layer %s got an input of %s: %v", e.Net, e.Layer, e.Input, e.Cause)
}

func (e *LayerError) Unwrap() error {
	err, _ := e.Cause.(error)
	return err
}

// Recovered is the error of a panic in which the building of a graph ended. It remembers where
// that was, as the errors of GoMLX do, so that a notebook can show the line of a cell.
func Recovered(r any) error {
	err, is := r.(error)
	if !is {
		err = fmt.Errorf("%v", r)
	}
	if e := (interface{ StackTrace() traced.StackTrace })(nil); errors.As(err, &e) {
		return err
	}
	pcs := make([]uintptr, 256)
	stack := &stackError{error: err}
	for _, pc := range pcs[:runtime.Callers(2, pcs)] {
		stack.stack = append(stack.stack, traced.Frame(pc))
	}
	return stack
}

type stackError struct {
	error
	stack traced.StackTrace
}

func (e *stackError) Unwrap() error                 { return e.error }
func (e *stackError) StackTrace() traced.StackTrace { return e.stack }
