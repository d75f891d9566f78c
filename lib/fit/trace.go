package fit

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// writer is the backend that a net's programs are written with.
type writer struct {
	hlo.Backend
	target  lower.Target
	options lower.Options
	plain   bool // no kernels but XLA's
	devices int
	calls   map[*Node]standIn // for extract
	shared  *xla.Shared       // of the program; nil: it has no kernels

	attentions  []lower.Attention // of the net, as they were written
	recurrences []string          // the same: why each has no kernels, or ""
	ops         func() fused.Ops  // with tilings that were chosen
	head        *head             // of the last product; nil: there is none
}

// Lowering is how layers become operations.
func (w *writer) Lowering() models.Lowering {
	attends := func(a lower.Attention) { w.attentions = append(w.attentions, a) }
	calls := fused.Calls{Ops: w.kernels()}
	if w.options.RecurrentKernels {
		calls.Recurrent = w.ops()
		calls.Recurrent.Write = w.call
	}
	recurs := func(refused string) { w.recurrences = append(w.recurrences, refused) }
	multiplies := func(x, weights, biases, y *Node) { w.head = &head{x, weights, biases, y} }
	t := w.target
	t.Triton = w.Kernels() != nil
	return xla.Lowering{Target: t, Options: w.options, Calls: calls, Attends: attends, Recurs: recurs, Multiplies: multiplies, Shared: w.shared}
}

func (w *writer) Builder(name string) compute.Builder {
	w.Backend.Builder(name)
	if w.HLO.WriteNorms = !w.target.CPU(); w.Kernels() != nil {
		w.shared = xla.NewShared()
	}
	if w.devices > 1 {
		if err := w.HLO.DistributedSPMD(w.devices); err != nil {
			panic(err) // a graph is being built: trace makes it an error
		}
	}
	return w.HLO
}

// Kernels is the builder of the last graph, for fused.On; nil where that is to keep to
// XLA's kernels.
func (w *writer) Kernels() *hlo.Builder {
	if w.plain || !w.target.Triton {
		return nil
	}
	return w.HLO
}

// standIn writes the operation that replaces a node in the program's text.
type standIn func(f *hlo.Function, in []compute.Value) ([]compute.Value, error)

// kernels are the fused operations of the program; they are plain where it has no kernels.
func (w *writer) kernels() fused.Ops { return fused.Ops{Builder: w.Kernels(), Write: w.call} }

// call writes an operation on operands in place of a node; it has no gradient.
func (w *writer) call(do func(f *hlo.Function, in []compute.Value) ([]compute.Value, error), operands ...*Node) []*Node {
	stopped := make([]*Node, len(operands))
	for i, x := range operands {
		stopped[i] = StopGradient(x)
	}
	write := func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
		out, err := do(f, in)
		return append(out, in[0]), err // GoMLX takes a clone of one result for its first operand
	}
	w.HLO.ReplaceNext(write)
	all := OptimizationBarriers(stopped...)
	w.calls[opOf(all[0])] = write
	return all
}

// trace is a program in the making.
type trace struct {
	net      *Net
	w        *writer
	g        *Graph
	store    *model.Store
	marks    []mark
	training bool   // what was built last is trained
	added    *Node  // what layers have added to the loss; nil: nothing
	prefix   string // of the names that extract gives parameters
}

// mark is a label that holds from a node on.
type mark struct {
	from  NodeId
	label string
}

// trace builds a program for one device: f returns its outputs. What f panics
// with becomes an error.
func (n *Net) trace(name string, f func(t *trace) []*Node) (*hlo.Program, error) {
	return n.traceFor(1, name, f)
}

// traceFor builds a program that runs on several devices at once.
func (n *Net) traceFor(devices int, name string, f func(t *trace) []*Node) (p *hlo.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			var l *models.LayerError
			if err = models.Recovered(r); errors.As(err, &l) {
				err = fmt.Errorf("fit: %s: %w", n.name, l)
			} else {
				err = fmt.Errorf("fit: %s: program %s: %w", n.name, name, err)
			}
		}
	}()
	t := &trace{net: n, w: &writer{target: n.target, options: n.lowering(), plain: n.config.Kernels == XLAKernels, devices: devices, calls: map[*Node]standIn{}}, store: model.NewStore()}
	t.w.ops = t.ops
	t.g = NewGraph(t.w, n.name+"/"+name)
	model.SetStore(t.g, t.store)
	if err := t.store.SetRNGStateFromSeed(n.config.Seed); err != nil {
		return nil, err
	}
	if err := t.g.Compile(f(t)...); err != nil {
		return nil, err
	}
	return t.w.Program, nil
}

// mark labels the ops made from now on.
func (t *trace) mark(label string) {
	t.w.HLO.SetLabel(label)
	t.marks = append(t.marks, mark{NodeId(len(t.g.Nodes())), label})
}

// variables makes the net's variables parameters of the program.
func (t *trace) variables() []*Node {
	nodes := make([]*Node, len(t.net.layout.variables))
	for i, v := range t.net.layout.variables {
		nodes[i] = t.variable(v).NodeValue(t.g)
	}
	return nodes
}

func (t *trace) variable(v slot) *model.Variable {
	if old := t.store.GetVariable(v.path); old != nil {
		return old
	}
	return t.store.VariableWithShape(v.path, v.shape, Zeros).SetTrainable(v.trainable)
}

// slots makes optimizer state and the step parameters of the program.
func (t *trace) slots(slots []slot) []*Node {
	nodes := make([]*Node, len(slots))
	for i, s := range slots {
		nodes[i] = Parameter(t.g, s.name, s.shape)
	}
	return nodes
}

// set gives the net's variables values for what is built next.
func (t *trace) set(values []*Node) {
	for i, v := range t.net.layout.variables {
		x := values[i]
		if t.net.config.narrows() && (v.trainable || v.frozen && v.weight) {
			x = ConvertDType(x, t.net.config.float())
		}
		t.variable(v).SetNodeValue(x)
	}
}

// setOnce is set for a loop whose turns read the values: narrow ones are made before it, as XLA
// would not have it.
func (t *trace) setOnce(values []*Node) {
	t.set(values)
	if !t.net.config.narrows() {
		return
	}
	var narrow []*Node
	for _, v := range t.net.layout.variables {
		narrow = append(narrow, t.variable(v).NodeValue(t.g))
	}
	for i, x := range OptimizationBarriers(narrow...) {
		t.variable(t.net.layout.variables[i]).SetNodeValue(x)
	}
}

// apply builds the net on a batch, with the values that set gave. What it
// returns is float32.
func (t *trace) apply(in models.Inputs, training bool) *Node {
	return t.applyNet(t.net.model, in, training, nil)
}

// applyNet is apply with other layers of the same names. What layer i gives passes
// through each, if that is not nil.
func (t *trace) applyNet(net models.Net, in models.Inputs, training bool, each func(i int, y *Node) *Node) *Node {
	return t.building(training, func() *Node { return net.Build(t.store.RootScope(), t.rounded(in), t.mark, each) })
}

// building builds layers, and notes what they add to the loss.
func (t *trace) building(training bool, build func() *Node) *Node {
	t.store.SetTraining(t.g, training)
	models.ComputeIn(t.store.RootScope(), t.net.config.float())
	t.training, t.w.head = training, nil
	if t.w.shared != nil {
		t.w.shared.Inference = !training
	}
	if t.net.addsLoss {
		models.ResetAddedLoss(t.g)
	}
	y := t.float(build())
	if t.net.addsLoss {
		t.added = models.AddedLoss(t.g)
	}
	return y
}

// rounded are inputs in the type that the net computes in.
func (t *trace) rounded(in models.Inputs) models.Inputs {
	if !t.net.config.narrows() {
		return in
	}
	out := models.Inputs{}
	for _, i := range t.net.model.AllInputs() {
		out[i.Name] = in[i.Name]
		if !i.Integers {
			out[i.Name] = ConvertDType(in[i.Name], t.net.config.float())
		}
	}
	return out
}

// ordered are inputs in the net's order.
func (n *Net) ordered(in models.Inputs) (l []*Node) {
	for _, i := range n.model.AllInputs() {
		l = append(l, in[i.Name])
	}
	return l
}

func (t *trace) float(y *Node) *Node {
	if y.DType() != dtypes.Float32 {
		return models.HandMask(y, ConvertDType(y, dtypes.Float32))
	}
	return y
}

// buffers are the values of the variables that are not trained, as the net has
// left them; others are as they were.
func (t *trace) buffers(old []*Node) []*Node {
	next := append([]*Node(nil), old...)
	for i, v := range t.net.layout.variables {
		if !v.trainable && !v.frozen {
			next[i] = t.variable(v).NodeValue(t.g)
		}
	}
	return next
}

// scalar is an int32 or float32 constant, made where it is called.
func (t *trace) scalar(value any) *Node { return Const(t.g, value) }

// allReduce adds an array up over the devices.
func (t *trace) allReduce(x *Node) *Node {
	t.w.HLO.ReplaceNext(func(f *hlo.Function, operands []compute.Value) ([]compute.Value, error) {
		return f.AllReduce(operands, compute.ReduceOpSum, nil)
	})
	return OptimizationBarriers(x)[0]
}
