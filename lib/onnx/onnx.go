// Package onnx opens .onnx files as nets that predict and are trained further.
//
//	var m = must(onnx.Open("resnet.onnx"))
//	var net = fit.New("resnet", m.Net(nil), fit.Config{Optimizer: optim.AdamW{LearningRate: 1e-4}})
//	net.Predict(images) // the file's weights are the net's first ones
//	net.Fit(train, fit.Train{Epochs: 1})
//
// Inputs and their layout are the file's: images are [n channels height width] where PyTorch wrote
// it. The net returns the file's first output, or the one that Model.Output names. Variables have the file's names after "ONNX/", with | for /.
//
// The first axis of each input must be one of any length, the batch. Other axes of any length get
// theirs from Net. Operations are those of github.com/gomlx/onnx-gomlx; one that it lacks is an
// error of the net's first use, and so is a shape that the file computes from constants
// (onnxsim folds these). A batch norm of the file normalizes by its running means in
// training, too.
package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/onnx-gomlx/onnx"
	"github.com/gomlx/onnx-gomlx/onnx/parser"

	"gaiden/lib/models"
)

// Model is an .onnx file.
type Model struct {
	Path    string
	Inputs  []models.Input // -1 is an axis of any length
	Outputs []string
	Output  string // the one that the net returns; default: the first

	file    onnx.Model
	kinds   map[string]dtypes.DType // of inputs
	weights []weight
}

// weight is an array of the file.
type weight struct {
	name  string
	value *tensors.Tensor
}

// Open reads an .onnx file.
func Open(path string) (m *Model, err error) {
	defer func() {
		if r := recover(); r != nil { // as onnx-gomlx does where it does not understand a file
			err = fmt.Errorf("onnx: %s: %v", path, r)
			if _, is := r.(runtime.Error); is {
				err = fmt.Errorf("onnx: %s: damaged, or no ONNX file: it holds no net", path)
			}
		}
	}()
	file, err := parser.ParseFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("onnx: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("onnx: %s: damaged, or no ONNX file: %w", path, err)
	}
	m = &Model{Path: path, file: file, kinds: map[string]dtypes.DType{}}
	m.Outputs, _ = file.Outputs()
	names, shapes := file.Inputs()
	for i, name := range names {
		s := shapes[i]
		if s.Rank() == 0 || s.Dimensions[0] >= 0 {
			return nil, fmt.Errorf("onnx: %s: input %s is %v: want a first axis of any length, the batch (dynamic_axes of torch.onnx.export)", path, name, s.Dimensions)
		}
		m.kinds[name] = s.DType
		m.Inputs = append(m.Inputs, models.Input{Name: safe(name), Dims: s.Dimensions[1:], Integers: !s.DType.IsFloat()})
	}
	store := model.NewStore()
	if err := file.VariablesToScope(store.RootScope()); err != nil {
		return nil, fmt.Errorf("onnx: %s: %w", path, err)
	}
	for v := range store.IterVariables() {
		value, err := v.Value()
		if err != nil {
			return nil, fmt.Errorf("onnx: %s: %s: %w", path, v.Name(), err)
		}
		m.weights = append(m.weights, weight{v.Name(), value})
	}
	return m, nil
}

// String says what the net takes and returns.
func (m *Model) String() string {
	var in []string
	for _, i := range m.Inputs {
		in = append(in, fmt.Sprint(i.Name, " ", i.Dims))
	}
	return fmt.Sprintf("%s: takes %s, returns %s; %d arrays", m.Path, strings.Join(in, ", "), strings.Join(m.Outputs, ", "), len(m.weights))
}

// safe is an input's name as a net may have it.
func safe(name string) string { return strings.NewReplacer("/", "|", "*", "|", " ", "_").Replace(name) }

// Net is the file as a net. dims are the dimensions of an example, by inputs, where the file leaves
// them open: map[string][]int{"ids": {128}}.
func (m *Model) Net(dims map[string][]int) models.Net {
	net := models.Net{Name: "onnx", Function: m.apply}
	for _, in := range m.Inputs {
		if d, is := dims[in.Name]; is {
			in.Dims = d
		}
		net.Inputs = append(net.Inputs, in)
	}
	if len(net.Inputs) == 1 {
		one := net.Inputs[0]
		net.Input, net.Integers, net.Inputs = one.Dims, one.Integers, nil
	}
	return net
}

// apply is the file's graph.
func (m *Model) apply(scope *model.Scope, in models.Inputs) *Node {
	inputs := map[string]*Node{}
	var g *Graph
	for name, kind := range m.kinds {
		x := in[safe(name)]
		if len(m.kinds) == 1 {
			x = in["x"]
		}
		g = x.Graph()
		inputs[name] = ConvertDType(x, kind)
	}
	// The graph is called with a store of its own. There integers are constants: axes and shapes,
	// which are wanted while the graph is built. Floats stand for the net's variables.
	inside, own := scope.At(onnx.ModelScope), model.NewStore().WithVariableAsConst(true)
	standIns := own.RootScope().At("file") // paths are those of the graph: not the net's
	for _, w := range m.weights {
		there := standIns.At(onnx.ModelScope)
		if !w.value.DType().IsFloat() {
			there.VariableWithValue(w.name, w.value)
			continue
		}
		v := inside.GetVariable(w.name)
		if v == nil {
			v = inside.VariableWithValue(w.name, w.value)
		}
		standIn := there.VariableWithValue(w.name, float32(0))
		standIn.NodeValue(g) // a constant, where a variable would be a parameter of the program
		own.WithVariableAsConst(false)
		standIn.SetNodeValue(v.NodeValue(g))
		own.WithVariableAsConst(true)
	}
	output := m.Output
	if output == "" {
		output = m.Outputs[0]
	}
	defer func() {
		if r := recover(); r != nil {
			text := fmt.Sprint(r)
			if strings.Contains(text, "constant sub-expression") {
				text += ": want a file whose shapes are constants, as onnxsim makes it"
			}
			panic(fmt.Errorf("%s: %s", m.Path, text))
		}
	}()
	return ConvertDType(m.file.CallGraph(standIns, g, inputs, output)[0], dtypes.Float32)
}
