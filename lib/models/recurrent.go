package models

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// Cell is one time step of a recurrence: from the state before it, each [n …], and the input
// x [n …], it makes the state after it, of the same shapes, and what the layer returns there.
type Cell func(state []*Node, x *Node) (next []*Node, y *Node)

// Scan is a recurrent layer with a cell of your own, in the manner of JAX's lax.scan. An
// exponential moving average with a learned decay:
//
//	models.Scan{Name: "average", State: [][]int{{8}}, Cell: func(scope *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
//		decay := Sigmoid(scope.VariableWithShape("decay", shapes.Make(x.DType(), 1, 8)).NodeValue(x.Graph()))
//		mean := Add(Mul(decay, state[0]), Mul(OneMinus(decay), x))
//		return []*Node{mean}, mean
//	}}
//
// The cell may read nodes from outside, such as what an attention looks at. It is called several
// times while a program is made, so it draws no random numbers, changes no variables and does not
// call AddLoss.
type Scan struct {
	Name  string
	State [][]int // dimensions of each state of one example; they begin with zeros
	Cell  func(scope *model.Scope, state []*Node, x *Node) (next []*Node, y *Node)
}

func (l Scan) Title() (name, kind string) { return l.Name, "Scan" }

func (l Scan) check() error {
	if l.Cell == nil {
		return errors.New("Cell is nil: want a function")
	}
	for _, s := range l.State {
		for _, d := range s {
			if d < 1 {
				return fmt.Errorf("State has %v: want sides of 1 or more", s)
			}
		}
	}
	return nil
}

// Apply takes x shaped [n length …] and returns [n length …].
func (l Scan) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if x.Rank() < 2 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length …]", x.Rank()))
	}
	var start []*Node
	for _, s := range l.State {
		start = append(start, Zeros(x.Graph(), shapes.Make(x.DType(), append([]int{x.Shape().Dimensions[0]}, s...)...)))
	}
	return overTime(scope, timeFirst(x), start, func(state []*Node, x *Node) ([]*Node, *Node) { return l.Cell(scope.ResetVisited(), state, x) })
}

// overTime runs a cell over the time steps of x [length n …], and returns [n length …]. What the
// cell reads besides, variables of scope and other nodes, has gradients, too.
func overTime(scope *model.Scope, x *Node, start []*Node, cell Cell) *Node {
	g := x.Graph()
	if c := cacheOf(g); c != nil {
		return c.scan(scope, timeFirst(x), start, cell)
	}
	first := Reshape(Slice(x, AxisElem(0)), x.Shape().Dimensions[1:]...)
	next, y := cell(start, first) // makes the variables
	if len(next) != len(start) {
		panic(fmt.Errorf("the cell returns %d states of %d: want as many", len(next), len(start)))
	}
	for i, s := range next {
		if !s.Shape().Equal(start[i].Shape()) {
			panic(fmt.Errorf("the cell makes %s of state %d, which is %s: want the same shape", s.Shape(), i, start[i].Shape()))
		}
	}
	from := g.LastNode().Id() + 1
	unchanging(scope, g, func() { next, y = cell(start, first) })
	weights := readsOf(scope, append(slices.Clone(next), y), append(slices.Clone(start), first), from)
	apart(weights)
	at := valuesOf(scope, g) // the gradient is written later, when a step may have set others
	then := func(state []*Node, x *Node) ([]*Node, *Node) {
		now := valuesOf(scope, g)
		at.set()
		defer now.set()
		return cell(state, x)
	}
	return timeFirst(loweringOf(g).Scan(then, start, x, weights, scope.IsTraining(g)))
}

// timeFirst exchanges the first two axes.
func timeFirst(x *Node) *Node {
	axes := []int{1, 0}
	for i := 2; i < x.Rank(); i++ {
		axes = append(axes, i)
	}
	return TransposeAllAxes(x, axes...)
}

// GRU is a layer of gated recurrent units (Cho et al., 2014), in PyTorch's form, which is
// Keras's with reset_after.
type GRU struct {
	Name  string
	Units int
	Init  Init // of weights [inputs 3·units] and recurrent [units 3·units]; default: Glorot
}

func (l GRU) Title() (name, kind string) { return l.Name, "GRU" }

func (l GRU) check() error { return least("Units", l.Units, 1) }

// Apply takes x shaped [n length inputs] and returns [n length units]. The gates stand in
// PyTorch's order: reset, update, new.
func (l GRU) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	u := l.Units
	x = Dense{Units: 3 * u, Init: l.Init}.Apply(scope, timeFirst(x))
	if h := fromZeros(scope, x, Recurrence{Kind: "GRU"}, u, l.Init); h != nil {
		return h
	}
	return overTime(scope.In("recurrent"), x, []*Node{zeros(x, u)}, func(state []*Node, x *Node) ([]*Node, *Node) {
		h := gruStep(state[0], x, recurrentDense(state[0], recurrentWeights(scope, x.Graph(), u, 3*u, l.Init)))
		return []*Node{h}, h
	})
}

// gruStep is the output after a time step, from the one before, what the inputs give the gates,
// and what the output before gives them.
func gruStep(h, x, got *Node) *Node {
	u := h.Shape().Dimensions[1]
	gate := func(x *Node, k int) *Node { return SliceAxis(x, 1, AxisRange(k*u, (k+1)*u)) }
	reset := Sigmoid(Add(gate(x, 0), gate(got, 0)))
	update := Sigmoid(Add(gate(x, 1), gate(got, 1)))
	new := Tanh(Add(gate(x, 2), Mul(reset, gate(got, 2))))
	return Add(new, Mul(update, Sub(h, new)))
}

// RNN is a layer of simple recurrent units (Elman, 1990): act(x·weights + h·recurrent + biases).
type RNN struct {
	Name  string
	Units int
	Act   Act  // default: tanh
	Init  Init // of weights [inputs units] and recurrent [units units]; default: Glorot
}

func (l RNN) Title() (name, kind string) { return l.Name, "SimpleRNN" }

func (l RNN) check() error { return least("Units", l.Units, 1) }

// Apply takes x shaped [n length inputs] and returns [n length units].
func (l RNN) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	act := l.Act
	if act == nil {
		act = Tanh
	}
	x = Dense{Units: l.Units, Init: l.Init}.Apply(scope, timeFirst(x))
	if h := fromZeros(scope, x, Recurrence{Kind: "SimpleRNN", Act: act}, l.Units, l.Init); h != nil {
		return h
	}
	return overTime(scope.In("recurrent"), x, []*Node{zeros(x, l.Units)}, func(state []*Node, x *Node) ([]*Node, *Node) {
		h := act(Add(x, recurrentDense(state[0], recurrentWeights(scope, x.Graph(), l.Units, l.Units, l.Init))))
		return []*Node{h}, h
	})
}

// recurrentWeights are those of a cell's dense layer on its state, in scope's "recurrent".
func recurrentWeights(scope *model.Scope, g *Graph, units, gates int, init Init) Linear {
	s := scope.At("recurrent")
	w := variable(s, g, "weights", init, Glorot, units, gates)
	return Linear{W: w, Biases: variable(s, g, "biases", nil, Fill(0), gates)}
}

// recurrentDense is a cell's dense layer on its state.
func recurrentDense(h *Node, l Linear) *Node { return loweringOf(h.Graph()).Dense(h, l)[0] }

// Recurrence is a recurrence that begins with zeros and whose cell is known by its name, so that
// a [Lowering] may compute it as a whole.
type Recurrence struct {
	Kind      string // of the layer: LSTM, GRU or SimpleRNN
	Act       Act    // of a SimpleRNN
	Carried   bool   // it begins with a state of its own, for which there is only Lowering.LSTM
	Z         *Node  // what the inputs give the gates, [length n gates·units]
	Recurrent *Node  // [units gates·units]
	Biases    *Node  // of what the output before gives the gates, [gates·units]; nil: none
}

// By is the recurrence in the operations of a lowering: its LSTM or its Scan.
func (r Recurrence) By(l Lowering) *Node {
	d, u := r.Z.Shape().Dimensions, r.Recurrent.Shape().Dimensions[0]
	zero := zeros(r.Z, u)
	if r.Kind == "LSTM" {
		h, _ := l.LSTM(Reshape(r.Z, d[0]*d[1], d[2]), r.Biases, r.Recurrent, zero, zero, false)
		return h
	}
	dense := Linear{W: r.Recurrent, Biases: r.Biases}
	return l.Scan(func(state []*Node, x *Node) ([]*Node, *Node) {
		got := recurrentDense(state[0], dense)
		h := gruStep
		if r.Kind != "GRU" {
			h = func(_, x, got *Node) *Node { return r.Act(Add(x, got)) }
		}
		y := h(state[0], x, got)
		return []*Node{y}, y
	}, []*Node{zero}, r.Z, []*Node{r.Recurrent, r.Biases}, true)
}

// fromZeros is the lowering's own form of a recurrence over x [length n …], as [n length units];
// nil: it has none, or states come from a cache.
func fromZeros(scope *model.Scope, x *Node, r Recurrence, units int, init Init) *Node {
	g := x.Graph()
	if cacheOf(g) != nil {
		return nil
	}
	l := recurrentWeights(scope, g, units, x.Shape().Dimensions[2], init)
	r.Z, r.Recurrent, r.Biases = x, l.W, l.Biases
	if h := loweringOf(g).Recurrence(r); h != nil {
		return timeFirst(h)
	}
	return nil
}

// zeros are those of a state [n units], where x is [length n …].
func zeros(x *Node, units int) *Node {
	return Zeros(x.Graph(), shapes.Make(x.DType(), x.Shape().Dimensions[1], units))
}

// Bidirectional runs a layer over sequences forwards, and one like it backwards, with weights
// of its own, and joins what both give at each time step (Schuster and Paliwal, 1997).
type Bidirectional struct {
	Name  string
	Layer Layer // such as LSTM{Units: 64}; needs no name
}

func (l Bidirectional) Title() (name, kind string) { return l.Name, "Bidirectional" }

func (l Bidirectional) check() error { return checkOne(l.Layer) }

func (l Bidirectional) branches() []branch { return []branch{{"Layer", []Layer{l.Layer}}} }

// Apply takes x shaped [n length inputs] and returns [n length 2·units].
func (l Bidirectional) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	forward, _ := apply(l.Layer, scope.In("forward"), x, nil)
	reversed := gradient.Reversed(x, 1)
	if mask := MaskOf(x); mask != nil {
		reversed = WithMask(reversed, Reverse(mask, 1))
	}
	backward, _ := apply(l.Layer, scope.In("backward"), reversed, nil)
	if forward.Rank() != 3 || forward.Shape().Dimensions[1] != x.Shape().Dimensions[1] {
		panic(fmt.Errorf("the layer makes %s of %s: want something for each time step", forward.Shape(), x.Shape()))
	}
	return Concatenate([]*Node{forward, gradient.Reversed(backward, 1)}, -1)
}

// LastStep takes the last time step of sequences: the last one that is there, where x has a
// mask.
type LastStep struct{ Name string }

func (l LastStep) Title() (name, kind string) { return l.Name, "LastStep" }

// Apply takes x shaped [n length …] and returns [n …].
func (l LastStep) Apply(_ *model.Scope, x *Node) *Node { return step(x, -1) }

// FirstStep takes the first time step of sequences, such as the class token of BERT and ViT.
type FirstStep struct{ Name string }

func (l FirstStep) Title() (name, kind string) { return l.Name, "FirstStep" }

// Apply takes x shaped [n length …] and returns [n …].
func (l FirstStep) Apply(_ *model.Scope, x *Node) *Node { return step(x, 0) }

// step is one time step of sequences [n length …], counted from the last one below 0.
func step(x *Node, at int) *Node {
	if x.Rank() < 3 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length …]", x.Rank()))
	}
	if c := cacheOf(x.Graph()); c != nil {
		return c.last(x)
	}
	d := x.Shape().Dimensions
	if mask := MaskOf(x); mask != nil && at < 0 {
		there := mask.Shape().Clone()
		there.DType = dtypes.Int32
		step := Mul(ConvertDType(mask, dtypes.Int32), AddScalar(Iota(x.Graph(), there, 1), 1))
		last := Equal(step, BroadcastToDims(ReduceAndKeep(step, ReduceMax, 1), d[0], d[1]))
		return ReduceSum(zeroed(x, LogicalAnd(last, mask)), 1)
	}
	return Reshape(Slice(x, AxisRange(), AxisElem((at+d[1])%d[1])), append([]int{d[0]}, d[2:]...)...)
}
