package fit

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/step"
	"gaiden/lib/gradient"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
)

// stepWriter writes one training step.
type stepWriter struct {
	t         *trace
	variables []*Node // as they are now
	loss      []*Node // of each Minimize
	added     []*Node // by layers, and not taken by Added yet
	names     []string
	reports   []*Node
	adapted   []*Node       // variables by Adapted; nil outside of it
	train     *stepTraining // nil: a test, in which no weight changes
}

// stepTraining is what a training step has besides.
type stepTraining struct {
	part         plan.Part
	moments      []*Node                // as they are now
	rate, number *Node                  // number is that of the step, from 1
	past         map[int]map[*Node]bool // values of trained variables before each Minimize
	gradients    []*Node                // of the sum of losses of a part of a batch, which Minimize leaves to Accumulate
	calls        []int                  // of Minimize so far, for each trained variable
	all          []int                  // that a step does; nil: not known yet
}

// ForwardInputs and the others are [step.Writer]'s.
func (w *stepWriter) ForwardInputs(in models.Inputs) *Node {
	return w.noting(w.t.apply(in, w.train != nil))
}

// noting notes what the layers that gave y have added to the loss.
func (w *stepWriter) noting(y *Node) *Node {
	if w.t.added != nil {
		w.added, w.t.added = append(w.added, w.t.added), nil
	}
	return y
}

func (w *stepWriter) Added() *Node {
	sum := w.t.scalar(float32(0))
	for _, x := range w.added {
		sum = Add(sum, x)
	}
	w.added = nil
	return sum
}

func (w *stepWriter) Apply(layer string, x *Node) *Node {
	t := w.t
	i := slices.Index(t.net.model.Names(), layer)
	if i < 0 {
		panic(fmt.Errorf("Step.Apply of %q: want a layer or part of %s: %s; the whole net is Step.Forward", layer, t.net.model.Name, strings.Join(t.net.model.Names(), ", ")))
	}
	if t.net.config.narrows() && x.DType().IsFloat() {
		x = ConvertDType(x, t.net.config.float())
	}
	return w.noting(t.building(w.train != nil, func() *Node { return t.net.model.Layer(i, layer, t.store.RootScope(), x, t.mark) }))
}

func (w *stepWriter) Random(normal bool, shape shapes.Shape) *Node {
	if normal {
		return w.t.store.RandomNormal(w.t.g, shape)
	}
	return w.t.store.RandomUniform(w.t.g, shape)
}

func (w *stepWriter) Minimize(loss *Node, layers ...string) {
	w.scalar("Step.Minimize", loss)
	if w.adapted != nil {
		panic(errors.New("Step.Minimize inside of Step.Adapted: want it after that, of a loss made there"))
	}
	of := w.trained("Minimize", layers)
	w.loss = append(w.loss, StopGradient(loss))
	if w.train != nil {
		w.minimize(loss, of)
	}
}

func (w *stepWriter) Adapted(loss *Node, rate float64, then func(), layers ...string) {
	w.scalar("Step.Adapted", loss)
	of, l, outside := w.trained("Adapted", layers), &w.t.net.layout, w.adapted
	before := outside
	if before == nil {
		before = w.variables
	}
	var wrt []*Node
	for _, k := range of {
		wrt = append(wrt, before[l.trained[k]])
	}
	w.adapted = w.t.buffers(before)
	for i, g := range Gradient(loss, wrt...) {
		w.adapted[l.trained[of[i]]] = Sub(wrt[i], MulScalar(g, rate))
	}
	w.t.set(w.adapted)
	then()
	w.adapted = outside
	w.t.set(w.t.buffers(before))
}

func (w *stepWriter) Follow(part, other string, decay float64) {
	if !(decay >= 0 && decay < 1) {
		panic(fmt.Errorf("Step.Follow: decay is %g: want 0 or more, and less than 1", decay))
	}
	if w.adapted != nil {
		panic(errors.New("Step.Follow inside of Step.Adapted: want it after that, where the weights are the net's again"))
	}
	all := w.t.net.layout.variables
	from := map[string]int{}
	for i, v := range all {
		if name, is := strings.CutPrefix(v.name, other+"/"); is {
			from[name] = i
		}
	}
	found := 0
	for i, v := range all {
		name, is := strings.CutPrefix(v.name, part+"/")
		if !is || !v.shape.DType.IsFloat() {
			continue
		}
		j, is := from[name]
		if !is || !all[j].shape.Equal(v.shape) {
			panic(fmt.Errorf("Step.Follow of %q and %q: the second has no %s of shape %s: want two parts of %s with the same layers", part, other, name, v.shape, w.t.net.model.Name))
		}
		if found++; w.train != nil {
			w.variables[i] = StopGradient(Add(MulScalar(w.variables[i], decay), MulScalar(w.variables[j], 1-decay)))
		}
	}
	if found == 0 {
		panic(fmt.Errorf("Step.Follow of %q: want a part with weights of %s: %s", part, w.t.net.model.Name, strings.Join(w.t.net.model.Names(), ", ")))
	}
	w.t.set(w.variables)
}

func (w *stepWriter) Report(name string, value *Node) {
	w.scalar("Step.Report of "+name, value)
	if name == "" || name == "loss" || slices.Contains(w.names, name) {
		panic(fmt.Errorf("Step.Report of %q: want a name, each once, other than loss", name))
	}
	w.names, w.reports = append(w.names, name), append(w.reports, StopGradient(value))
}

// stepOutline is what is known of a step of your own once it was written.
type stepOutline struct {
	calls   []int // of Minimize, for each trained variable
	losses  int   // calls of Minimize
	reports []string
}

// outline is that of steps on a set.
func (n *Net) outline(s *Set, batch int) (*stepOutline, error) {
	key := s.key()
	n.outlining.Lock() // programs are written side by side
	o := n.outlines[key]
	n.outlining.Unlock()
	if o != nil {
		return o, nil
	}
	o = &stepOutline{}
	_, err := n.trace("step", func(t *trace) []*Node {
		variables, moments := t.variables(), t.slots(n.layout.moments)
		b := t.gather(batch, s, t.sources(s), func(a *Node) *Node { return Slice(a, AxisRange(0, batch)) })
		w := t.step(variables, b, &stepTraining{part: plan.Part{Batch: batch, Devices: 1}, moments: moments, rate: t.scalar(float32(0)), number: t.scalar(float32(1))})
		o.calls, o.losses, o.reports = w.train.calls, len(w.loss), w.names
		return w.loss
	})
	if err != nil {
		return nil, err
	}
	n.outlining.Lock()
	defer n.outlining.Unlock()
	if n.outlines == nil {
		n.outlines = map[string]*stepOutline{}
	}
	n.outlines[key] = o
	return o, nil
}

// missing is what errors of a node that is nil say.
var missing = regexp.MustCompile("(Node is|got) nil|nil pointer|Invalid")

// call writes what the user's function does. An error in it may come from a node that is nil.
func (w *stepWriter) call(s *step.Step) {
	var lacks []string
	for _, part := range []struct {
		name, because string
		node          *Node
	}{{"X", "the net has Inputs: they are in Step.In", s.X}, {"Y", "the data have no Y", s.Y}, {"V", "the data have no V", s.V}} {
		if part.node == nil {
			lacks = append(lacks, fmt.Sprintf("Step.%s is nil, for %s", part.name, part.because))
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err := models.Recovered(r)
			if missing.MatchString(err.Error()) {
				lacks = append(lacks, "Step.In has "+strings.Join(slices.Sorted(maps.Keys(s.In)), ", "))
				err = fmt.Errorf("%w; %s", err, strings.Join(lacks, "; "))
			}
			panic(fmt.Errorf("Config.Step: %w", err))
		}
	}()
	w.t.net.config.Step(s)
}

// step writes a step of your own: of a training, or of a test.
func (t *trace) step(variables []*Node, b batch, train *stepTraining) *stepWriter {
	t.set(variables)
	if train != nil {
		train.calls, train.past = make([]int, len(t.net.layout.trained)), map[int]map[*Node]bool{}
	}
	w := &stepWriter{t: t, variables: variables, train: train}
	w.call(&step.Step{X: b.in["x"], In: b.in, Y: b.y, V: b.v, Training: train != nil, Writer: w})
	if len(w.loss) == 0 {
		panic(fmt.Errorf("Config.Step minimizes nothing: want Step.Minimize of a loss"))
	}
	if models.Mixed(t.g) != nil {
		panic(fmt.Errorf("a layer of the net is MixUp, which mixes targets too, and Config.Step has its own: want it left out"))
	}
	if len(w.added) > 0 {
		panic(fmt.Errorf("layers add to the loss (models.AddLoss), and Config.Step leaves that out: want Step.Added in a loss"))
	}
	w.variables = t.buffers(w.variables)
	t.mark("fit/results")
	return w
}

// total is the sum of what was minimized.
func (w *stepWriter) total() *Node {
	sum := w.loss[0]
	for _, l := range w.loss[1:] {
		sum = Add(sum, l)
	}
	return sum
}

// trainStep is train for a step of your own.
func (t *trace) trainStep(s *Set, variables, moments []*Node, b batch, rate, number *Node, c plan.Part) (next []*Node, row *Node) {
	o, err := t.net.outline(s, c.Share())
	if err != nil {
		panic(err)
	}
	train := &stepTraining{part: c, moments: moments, rate: rate, number: number, all: o.calls}
	if c.Accumulate > 1 {
		return t.accumulateStep(s, variables, b, train)
	}
	w := t.step(variables, b, train)
	if !slices.Equal(w.train.calls, o.calls) || !slices.Equal(w.names, o.reports) {
		panic(fmt.Errorf("Config.Step is not the same for each batch: want the same calls of Minimize and Report"))
	}
	f := stepResult{mean: w.total(), weight: t.scalar(float32(c.Batch)), right: t.scalar(float32(0)), variables: w.variables, measured: w.measured(t.scalar(float32(c.Share())))}
	if c.Split {
		t.reduce(&f, c.Devices)
		f.mean = DivScalar(f.mean, float64(c.Devices))
	}
	return append(slices.Clone(f.variables), w.train.moments...), f.row()
}

// accumulateStep is trainStep for a batch in parts, of a step that minimizes once.
func (t *trace) accumulateStep(s *Set, variables []*Node, b batch, train *stepTraining) (next []*Node, row *Node) {
	c, of := train.part, []int(nil)
	for k, n := range train.all {
		if n > 0 {
			of = append(of, k)
		}
	}
	f := t.addedUp(variables, b, s, c, of, func(now []*Node, p batch, _ []*Node) stepResult {
		w := t.step(now, p, &stepTraining{part: c})
		examples := t.scalar(float32(c.Share() / c.Accumulate))
		return stepResult{mean: Mul(w.loss[0], examples), weight: examples, right: t.scalar(float32(0)), gradients: w.train.gradients, variables: w.variables, measured: w.measured(examples)}
	})
	if c.Split {
		t.reduce(&f, c.Devices)
	}
	v, m := t.update(f, of, train.moments, train.rate, train.number)
	return append(v, m...), f.row()
}

// scoreStep is score for a step of your own: of a batch that counts in part, it is the mean
// of all.
func (t *trace) scoreStep(variables []*Node, b batch, mask *Node) *Node {
	n := t.net.ordered(b.in)[0].Shape().Dimensions[0]
	w := t.step(variables, b, nil)
	weight := t.scalar(float32(n))
	if mask != nil {
		weight = ReduceAllSum(mask)
	}
	return row(Mul(w.total(), weight), weight, t.scalar(float32(0)), w.measured(weight))
}

// measured are the sums of what was reported; nil if nothing was.
func (w *stepWriter) measured(weight *Node) *Node {
	var l []*Node
	for _, x := range w.reports {
		l = append(l, Mul(x, weight), weight)
	}
	if l == nil {
		return nil
	}
	return Stack(l, 0)
}

// reported are what steps on a set report, as metrics; none where no step can be written.
func (n *Net) reported(s *Set) (all measured) {
	o, err := n.outline(s, min(s.N, 32))
	if err != nil {
		return nil
	}
	for _, name := range o.reports {
		all = append(all, oneMeasured{Metric: metrics.Func{Name: name}, sums: 2})
	}
	return all
}

func (w *stepWriter) scalar(what string, x *Node) {
	if x == nil || !x.Shape().Equal(shapes.Make(dtypes.Float32)) {
		got := "nil"
		if x != nil {
			got = x.Shape().String()
		}
		panic(fmt.Errorf("%s: got %s, want a float32 scalar, such as ReduceAllMean of it", what, got))
	}
}

// trained are the trained variables of some layers.
func (w *stepWriter) trained(call string, layers []string) (of []int) {
	l, names := &w.t.net.layout, w.t.net.model.Names()
	for _, name := range layers {
		if !slices.Contains(names, name) {
			panic(fmt.Errorf("Step.%s of %q: want layers or parts of %s: %s", call, name, w.t.net.model.Name, strings.Join(names, ", ")))
		}
	}
	for k, i := range l.trained {
		if layer, _, _ := strings.Cut(l.variables[i].name, "/"); len(layers) == 0 || slices.Contains(layers, layer) {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		panic(fmt.Errorf("Step.%s of %s: got no weights that are trained, want some", call, strings.Join(layers, ", ")))
	}
	return of
}

// minimize is a step of the optimizer on some trained variables.
func (w *stepWriter) minimize(loss *Node, of []int) {
	t, l, s := w.t, &w.t.net.layout, w.train
	var wrt []*Node
	for _, k := range of {
		wrt = append(wrt, w.variables[l.trained[k]])
	}
	for _, k := range of {
		if len(s.past[k]) > 0 && gradient.Reached(loss, s.past[k]) != nil {
			panic(fmt.Errorf("Step.Minimize: the loss was computed from %s before an earlier Minimize changed it: want Apply and the loss once more after that, one Minimize of both losses, or StopGradient", l.variables[l.trained[k]].name))
		}
	}
	hasGradient(loss, wrt)
	t.mark("loss/backward")
	if s.part.Accumulate > 1 {
		s.gradients = gradient.Final(MulScalar(loss, float64(s.part.Share()/s.part.Accumulate)), wrt...)
		return
	}
	gradients := gradient.Final(loss, wrt...)
	if s.part.Split {
		t.allReduceFlat(gradients, nil, nil)
		for i, g := range gradients {
			gradients[i] = DivScalar(g, float64(s.part.Devices))
		}
	}
	if t.net.target.CPU() {
		gradients = OptimizationBarriers(gradients...) // as in derive
	}
	f := stepResult{variables: t.buffers(w.variables), gradients: gradients}
	for _, k := range of {
		number := s.number
		if s.all != nil && s.all[k] > 1 { // the optimizer counts its own steps
			number = AddScalar(MulScalar(AddScalar(number, -1), float64(s.all[k])), float64(s.calls[k]+1))
		}
		f.numbers = append(f.numbers, number)
		s.calls[k]++
	}
	for i, k := range of {
		if s.past[k] == nil {
			s.past[k] = map[*Node]bool{}
		}
		s.past[k][wrt[i]] = true
	}
	w.variables, s.moments = t.update(f, of, s.moments, s.rate, s.number)
	for _, k := range of { // a later loss has no gradient by way of this update
		i := l.trained[k]
		w.variables[i] = Identity(StopGradient(w.variables[i]))
	}
	t.set(w.variables)
}

// Part is a layer or part by itself, given what the layer before it returns.
func (n *Net) Part(name string) *Net {
	c := n.config
	c.Step, c.Session = nil, n.config.Session
	n.mu.Lock()
	n.recall()
	n.mu.Unlock()
	p := New(n.name, n.model.Part(name, n.outputs), c)
	p.whole = n
	return p.WithContext(n.ctx)
}

// outputs are the shapes of what the layers return for two examples.
func (n *Net) outputs() (all []shapes.Shape, err error) {
	_, err = n.trace("outputs", func(t *trace) []*Node {
		in := n.model.Batch(2, func(_ string, shape shapes.Shape) *Node { return Zeros(t.g, shape) })
		return []*Node{n.model.Build(t.store.RootScope(), in, nil, func(_ int, y *Node) *Node {
			all = append(all, y.Shape())
			return y
		})}
	})
	return all, n.wantInput(err)
}

// wholeOnly is an error of what a part cannot do by itself.
func (n *Net) wholeOnly() error {
	if n.whole == nil {
		return nil
	}
	return fmt.Errorf("fit: %s: a part of the net does not change by itself: want the calls of the whole net, with Config.Step, or LoadWeights with weights.Map{Only: …}", n.model.Name)
}

// attachPart finds the arrays of a part, which the whole net creates.
func (n *Net) attachPart() error {
	if n.whole.mu.TryLock() { // else it is being used, and so it is there
		err := n.whole.open()
		n.whole.mu.Unlock()
		if err != nil {
			return err
		}
	}
	there, err := n.arrayTypes()
	n.arrayCount = len(there)
	return err
}

// stepTargets are targets for a step of your own, whatever they are.
func (n *Net) stepTargets(d Data, s *Set) (err error) {
	v := reflect.ValueOf(d.Y)
	kind := reflect.Invalid
	if v.Kind() == reflect.Slice {
		kind = v.Type().Elem().Kind()
	}
	shape := shapes.Make(dtypes.Int32, s.N)
	var y any
	switch {
	case d.Y == nil: // numbers of the user's own, such as returns
		return n.addWeights(s, d.V)
	case kind >= reflect.Int && kind <= reflect.Uint64:
		l := make([]int32, v.Len())
		for i := range l {
			x, text := integerAt(v, i)
			if l[i] = int32(x); int64(l[i]) != x {
				return fmt.Errorf("fit: %s: target %d is %s: want integers within the range of int32", s.Name, i, text)
			}
		}
		y = l
		s.sees(l, d.V)
		if s.positions = len(l) / s.N; s.positions > 1 {
			shape = shapes.Make(dtypes.Int32, s.N, s.positions)
		}
	case kind == reflect.Float32 || kind == reflect.Float64:
		if y, err = float32s(s.Name, "targets", d.Y); err != nil {
			return err
		}
		s.targets = v.Len() / s.N
		shape = shapes.Make(dtypes.Float32, s.N, s.targets)
	default:
		return fmt.Errorf("fit: %s: targets are a %T: want integers as []int32, numbers as []float32, or none", s.Name, d.Y)
	}
	if v.Len() == 0 || v.Len()%s.N != 0 {
		return fmt.Errorf("fit: %s: %d examples but %d targets: want as many for each", s.Name, s.N, v.Len())
	}
	s.arrays = append(s.arrays, setArray{"y", shape, y, nil})
	return n.addWeights(s, d.V)
}
