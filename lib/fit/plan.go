package fit

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

// Plan is how Fit would train: kernels, devices and programs, and why.
func (n *Net) Plan(data *Set, t Train) (*plan.Plan, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	t, err := n.checked(data, t)
	if err != nil {
		return nil, err
	}
	return n.decide(data, t, plan.Call)
}

// decide makes the plan of a call of Fit whose settings are checked.
func (n *Net) decide(data *Set, t Train, use plan.Use) (*plan.Plan, error) {
	q, err := n.training(data, t.Batch)
	if err != nil {
		return nil, err
	}
	q.Use, q.Steps, q.Epochs, q.FullBatch = use, data.N/t.Batch, t.Epochs, t.Batch == data.N && data.stream == nil
	q.Accumulate = t.Accumulate
	q.Watched = t.watched() || len(n.carriedSlots()) > 0 && !t.KeepState
	if !t.DropLast {
		q.Rest = data.N % t.Batch
	}
	if q.Interval = t.interval(); q.Interval > 0 && data.stream != nil {
		q.Interval = 1 // its parts need not have as many steps
	}
	if last := t.lastSteps(data); last == t.epochSteps(data) {
	} else if t.Epochs == 1 {
		q.Steps, q.Rest = last, 0
	} else {
		q.Last = last
	}
	p, err := plan.Decide(q)
	if err != nil {
		return nil, fmt.Errorf("fit: %s: %w", n.name, err)
	}
	if n.decided != nil {
		n.decided(p)
	}
	return p, nil
}

// training is what is known of steps of a batch.
func (n *Net) training(s *Set, batch int) (t plan.Training, err error) {
	t = plan.Training{
		Target: n.target, Net: n.model, StateBytes: n.stateBytes(), StateArrays: len(n.layout.all()), Convolves: n.convolves, FeedForward: n.feedForward,
		Carries: len(n.carriedSlots()) > 0, ForwardFLOPs: n.forward, Rule: optim.RuleOf(n.config.Optimizer), Batch: batch, Known: n.known,
		Numbers: s.N * s.size, Attentions: n.attentions, Recurrences: n.recurrences, Options: n.lowering(),
		Settings: plan.Settings{Kernels: n.config.Kernels, Loop: n.loop, Unroll: n.unroll, Devices: n.config.Devices, AllDevices: n.config.AllDevices,
			PackState: n.packing},
	}
	if n.config.Step == nil {
		t.Head, t.WholeHead = n.headOf(s, 1)
	}
	if n.config.Step != nil || n.config.F16 {
		t.Settings.Kernels, t.Rule = XLAKernels, nil
	}
	for _, v := range n.layout.variables {
		t.Variables = append(t.Variables, plan.Variable{Name: v.name, Shape: v.shape, Trainable: v.trainable})
	}
	t.OtherLoss = n.otherLoss(s)
	t.Measured = n.columns(s) > lossColumns
	if n.kernelsMayRun() {
		t.Tilings = n.tilings().Changes()
	}
	if !n.target.CPU() || n.convolves { // else nothing depends on it
		t.Work, err = n.costOf(s, batch)
	}
	return t, err
}

// otherLoss is why kernels have no form of what a step minimizes, "" if they have one.
func (n *Net) otherLoss(s *Set) string {
	l := n.lossOf(s)
	y := s.shapeOf("y")
	switch {
	case n.config.Step != nil:
		return "a step of your own"
	case n.addsLoss:
		return "layers that add to the loss"
	case n.mixes:
		return "mixed examples"
	case n.masks:
		return "masks"
	case s.shapeOf("v").Ok():
		return "weights of examples"
	case !losses.Alike(l):
		return l.Title() + ", whose examples may count differently"
	case len(n.output) != 1 || !y.Ok() || y.DType != dtypes.Float32 && !(y.DType == dtypes.Int32 && y.Rank() == 1):
		return fmt.Sprintf("an output of %v with targets of %s", n.output, y)
	case n.model.TakesIntegers() || n.model.Inputs != nil:
		return "integers or several inputs"
	}
	return ""
}

// known is what was measured of steps of a batch.
func (n *Net) known(batch int) plan.Known {
	e := n.tilings().Known(n.stepKey(batch))
	return plan.Known{Fused: e.Micros, XLA: e.Plain, PreferXLA: e.UsePlain(), Refused: e.Refused}
}

// kernelsMayRun says whether there is a GPU that runs Triton's kernels, or a test that
// does without.
func (n *Net) kernelsMayRun() bool {
	return n.config.Kernels == plan.PlainKernels || n.target.Triton
}

// available are the kernels that steps of a batch could have.
func (n *Net) available(s *Set, batch int) (*plan.Set, error) {
	t, err := n.training(s, batch)
	if err != nil {
		return nil, err
	}
	return t.Available()
}
