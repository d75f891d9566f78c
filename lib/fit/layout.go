package fit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/losses"
	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// slot is one array of a net's state.
type slot struct {
	name      string // without the net's: "conv/weights"
	path      string // of a variable in GoMLX's store: "/conv/weights"
	shape     shapes.Shape
	trainable bool
	weight    bool // it is trainable, or would be if it were not frozen
	frozen    bool
}

// layout is what a net keeps in the session.
type layout struct {
	variables []slot            // of the model, in the order of its layers, and its random numbers
	trained   []int             // which of them the optimizer changes
	optimizer []optim.Optimizer // that of each of those
	moments   []slot            // optimizer state: for each trained variable, each of its optimizer's arrays
	ends      []int             // where those of each trained variable end
	step      slot              // int32: training steps done
}

// rng is GoMLX's name for the state of a store's random numbers.
const rng = "/" + model.RNGStateVariableName

// refuseMainLoss panics where a model function sets the loss itself, as GoMLX's AddMainLoss does.
func refuseMainLoss(g *Graph) {
	if _, is := model.GetGraphParam(g, "/trainer/trainer_main_loss"); is { // of GoMLX's package train, which links much
		panic(errors.New("the model adds a main loss of its own (train.AddMainLoss): want models.AddLoss, or Config.Loss or Config.Step"))
	}
}

// buildLayout finds out what the net keeps by building it once. The store has the
// initializers.
func (n *Net) buildLayout() (*model.Store, error) {
	if err := n.model.Check(); err != nil {
		return nil, err
	}
	var store *model.Store
	var l layout
	n.layout = layout{}
	batch := 2
	if carried, _ := n.model.Sequences(); carried > 0 {
		batch = carried
	}
	p, err := n.trace("layout", func(t *trace) []*Node {
		store = t.store
		t.w.options.Attention = lower.AttentionChoice{Form: lower.PlainAttention} // whose FLOPs are counted
		in := n.model.Batch(batch, func(_ string, shape shapes.Shape) *Node { return Zeros(t.g, shape) })
		t.store.SetTraining(t.g, true)
		y := n.model.Outputs(t.store.RootScope(), in)
		if n.config.F16 && n.whole == nil {
			t.store.VariableWithShape("/"+lossScale, lossScaleShape, Zeros).SetTrainable(false)
		}
		if n.output = nil; len(n.model.Parts()) == 0 {
			n.output = n.resultOf(y[0], batch)
		}
		n.mixes, n.masks = models.Mixed(t.g) != nil, models.Masked(t.g)
		refuseMainLoss(t.g)
		n.vocab = map[string]int{}
		for name, ids := range in {
			n.vocab[name] = models.VocabOf(ids)
		}
		n.addsLoss = models.AddedLoss(t.g) != nil
		n.attentions = t.w.attentions
		n.recurrences = t.w.recurrences
		for i := range n.attentions {
			n.attentions[i].N = max(1, n.attentions[i].N/batch)
		}
		return y
	})
	if err == nil && batch == 2 {
		err = n.checkRows()
	}
	if err != nil {
		return nil, err
	}
	if n.whole == nil {
		if err := losses.Check(n.config.Loss, n.classes()); err != nil {
			return nil, fmt.Errorf("fit: %s: Config.Loss: %w", n.name, err)
		}
	}
	n.convolves = p.Has("convolution")
	n.feedForward = !n.convolves && !p.Has("while") && len(n.model.States()) == 0 // the loop over a sequence's steps may be a call
	n.forward = p.FLOPs() / float64(batch)
	for v := range store.IterVariables() {
		s := slot{name: strings.TrimPrefix(v.Path(), "/"), path: v.Path(), shape: v.Shape(), trainable: v.Trainable && v.Shape().DType.IsFloat()}
		if s.trainable && s.shape.DType != dtypes.Float32 {
			return nil, fmt.Errorf("fit: %s: variable %s is %s: want Float32, which weights are in any precision, and ConvertDType of its value", n.name, s.name, s.shape)
		}
		if s.path == rng {
			s.name, s.trainable = "rng", false
		}
		s.weight = s.trainable
		if o := n.optimizerOf(s); o == nil {
			s.trainable, s.frozen = false, true
		} else if s.trainable {
			l.train(o, len(l.variables), s)
		}
		l.variables = append(l.variables, s)
	}
	if n.whole != nil {
		n.layout = l.withStep()
		return store, nil
	}
	if len(l.trained) == 0 {
		return nil, fmt.Errorf("fit: %s: net %s has nothing to train: want a layer with variables that are not frozen", n.name, n.model.Name)
	}
	var names []string
	for _, v := range l.variables {
		names = append(names, v.name)
	}
	if err := n.patternsFit(names); err != nil {
		return nil, err
	}
	n.layout = l.withStep()
	return store, nil
}

// resultOf are the dimensions of one result of y, which the net returns for a batch.
func (n *Net) resultOf(y *Node, batch int) []int {
	s := y.Shape()
	if s.Rank() == 0 || s.Dimensions[0] != batch || !s.DType.IsFloat() {
		panic(fmt.Errorf("for %d examples %s returns %s: want floats of shape [%d …], one row for each example", batch, n.model.Name, s, batch))
	}
	return s.Dimensions[1:]
}

// checkRows builds a net that has functions or layers of the user's for three examples, too: two
// rows for two examples may be of anything that there are two of.
func (n *Net) checkRows() error {
	if _, err := plainOf(reflect.ValueOf(n.model)); err == nil || len(n.model.Parts()) > 0 {
		return nil
	}
	_, err := n.trace("layout", func(t *trace) []*Node {
		in := n.model.Batch(3, func(_ string, shape shapes.Shape) *Node { return Zeros(t.g, shape) })
		t.store.SetTraining(t.g, true)
		y := n.model.Outputs(t.store.RootScope(), in)
		if of := n.resultOf(y[0], 3); n.config.Step == nil && !slices.Equal(of, n.output) {
			panic(fmt.Errorf("%s returns %v for each of 3 examples, and %v for each of 2: want the same for any number of examples", n.model.Name, of, n.output))
		}
		return y
	})
	return err
}

func (l layout) withStep() layout {
	l.step = slot{name: "step", shape: shapes.Make(dtypes.Int32)}
	return l
}

// train gives variable i an optimizer and its arrays.
func (l *layout) train(o optim.Optimizer, i int, v slot) {
	l.trained, l.optimizer = append(l.trained, i), append(l.optimizer, o)
	title, moments := optim.Title(o)
	for _, m := range moments {
		l.moments = append(l.moments, slot{name: title + "/" + m + "/" + v.name, shape: v.shape})
	}
	l.ends = append(l.ends, len(l.moments))
}

// each are the numbers of the trained variables.
func (l *layout) each() []int {
	all := make([]int, len(l.trained))
	for k := range all {
		all[k] = k
	}
	return all
}

// momentsOf are those of trained variable k among the moments of all.
func momentsOf[T any](l *layout, k int, moments []T) []T {
	from := 0
	if k > 0 {
		from = l.ends[k-1]
	}
	return moments[from:l.ends[k]]
}

// all is the whole state, in the order in which programs take it.
func (l *layout) all() []slot {
	return append(append(append([]slot{}, l.variables...), l.moments...), l.step)
}

// stateBytes is the size of the whole state in bytes. Runs ask for it at every chunk.
func (n *Net) stateBytes() (bytes int64) {
	bytes = int64(n.layout.step.shape.ByteSize())
	for _, l := range [][]slot{n.layout.variables, n.layout.moments} {
		for _, s := range l {
			bytes += int64(s.shape.ByteSize())
		}
	}
	return bytes
}

// names are the arrays' names in the session.
func (n *Net) names(slots []slot) []string {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = n.name + "/" + s.name
	}
	return names
}

// parts divides what is trained: all vectors and scalars are one part, each
// matrix is one. (To take a matrix out of a long vector is a copy for XLA, whose
// library calls want arrays of their own; a vector is read in place.)
func (l *layout) parts() [][]int {
	parts := [][]int{nil}
	for _, i := range l.trained {
		if l.variables[i].shape.Rank() < 2 {
			parts[0] = append(parts[0], i)
		} else {
			parts = append(parts, []int{i})
		}
	}
	if len(parts[0]) == 0 {
		return parts[1:]
	}
	return parts
}

// shapeOf is that of a part: a vector, or the only variable's.
func (l *layout) shapeOf(part []int) shapes.Shape {
	if len(part) == 1 {
		return l.variables[part[0]].shape
	}
	return shapes.Make(dtypes.Float32, l.sizeOf(part))
}

// sizeOf is how many numbers some variables have.
func (l *layout) sizeOf(variables []int) int {
	size := 0
	for _, i := range variables {
		size += l.variables[i].shape.Size()
	}
	return size
}

// untrained are the variables that are float32, the means of batch norm, and
// the others, the state of random numbers.
func (l *layout) untrained() (means, others []int) {
	for i, v := range l.variables {
		switch {
		case v.trainable:
		case v.shape.DType == dtypes.Float32:
			means = append(means, i)
		default:
			others = append(others, i)
		}
	}
	return means, others
}
