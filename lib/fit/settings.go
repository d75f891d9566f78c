package fit

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/metrics"
	"gaiden/lib/optim"
)

// check says which setting means nothing, or has no use.
func (c Config) check() error {
	packages := []string{reflect.TypeFor[losses.MSE]().PkgPath(), reflect.TypeFor[optim.Adam]().PkgPath()}
	for _, v := range []struct {
		name  string
		value any
	}{{"Optimizer", c.Optimizer}, {"Loss", c.Loss}} {
		if t := reflect.TypeOf(v.value); t != nil && t.Kind() == reflect.Pointer && (reflect.ValueOf(v.value).IsNil() || slices.Contains(packages, t.Elem().PkgPath())) {
			return fmt.Errorf("Config.%s is a %s: want %s{…}, without &", v.name, t, t.Elem())
		}
	}
	switch {
	case c.Kernels < AutoKernels || c.Kernels > plainOps:
		return fmt.Errorf("Config.Kernels is %d: want fit.AutoKernels, XLAKernels or FusedKernels", c.Kernels)
	case c.AllDevices && c.Devices == 0:
		return fmt.Errorf("Config.AllDevices is set without Config.Devices: want how many to use, or AllDevices left out")
	}
	if c.F16 && (c.BF16 || c.Step != nil) {
		return fmt.Errorf("Config.F16 is set with BF16 (%t) or Step (%t): want BF16 in its place, which needs no loss scale", c.BF16, c.Step != nil)
	}
	if c.Step != nil && (c.Loss != nil || c.Metrics != nil) {
		return fmt.Errorf("Config.Step is set with Config.Loss or Metrics: want Minimize and Report of the step in their place")
	}
	if err := losses.Check(c.Loss, 0); err != nil {
		return fmt.Errorf("Config.Loss: %w", err)
	}
	if err := metrics.Check(c.Metrics); err != nil {
		return fmt.Errorf("Config.%w", err)
	}
	return optim.Check(c.Optimizer)
}

// check says what of a run means nothing, or has no use, for a net and its data.
func (t Train) check(n *Net, data *Set) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("fit: %s: %s", n.name, fmt.Sprintf(format, args...))
	}
	loss := n.lossOf(data)
	_, err := n.measured(data).maximizes(t.Monitor, n.labelled(data))
	if err == nil {
		err = t.ReduceOnPlateau.Check()
	}
	switch {
	case err != nil:
		return bad("%v", err)
	case t.Monitor != "" && t.Threshold == 0 && t.Patience == 0 && !t.KeepBest && t.ReduceOnPlateau.Patience == 0:
		return bad("Monitor is %q, and nothing goes by it: want Threshold, Patience, KeepBest or ReduceOnPlateau too, or Monitor left out", t.Monitor)
	case t.StepInterval < 0 || t.StepInterval > 0 && t.OnStep == nil:
		return bad("StepInterval is %d: want 1 or more, with OnStep, or 0", t.StepInterval)
	case t.Steps < 0:
		return bad("Steps of %d: want 1 or more, or 0 for Epochs", t.Steps)
	case t.Epochs < 0:
		return bad("%d epochs: want 1 or more", t.Epochs)
	case t.Batch < 0:
		return bad("batch of %d: want 1 or more", t.Batch)
	case t.Accumulate < 0:
		return bad("Accumulate of %d: want 1 or more parts of a batch, or 0", t.Accumulate)
	case t.Accumulate > 1 && t.Batch%(t.Accumulate*max(1, n.config.Devices)) != 0:
		return bad("a batch of %d in %d parts on %d devices: want parts of the same size", t.Batch, t.Accumulate, max(1, n.config.Devices))
	case (t.Accumulate > 1 || n.config.Devices > 1) && n.ofBatch(loss, data):
		return bad("%s is a loss of a whole batch, which Accumulate of %d and %d devices divide: want neither, or a loss of each example", loss.Title(), t.Accumulate, max(1, n.config.Devices))
	case t.Accumulate > 1 && len(n.carriedSlots()) > 0:
		return bad("Accumulate of %d, and %s has a layer that is Stateful, whose batch is not divided: want it left out", t.Accumulate, n.model.Name)
	case t.Batch > data.N:
		return bad("batch of %d from the %d examples of %s: want no more than there are", t.Batch, data.N, data.Name)
	case t.Batch > 0 && t.Epochs > math.MaxInt32/((data.N+t.Batch-1)/t.Batch):
		return bad("%d epochs of %d examples in batches of %d: want no more than %d steps", t.Epochs, data.N, t.Batch, math.MaxInt32)
	case !(t.LearningRate >= 0 && t.LearningRate <= math.MaxFloat32):
		return bad("learning rate of %g: want more than 0, or 0 for the optimizer's", t.LearningRate)
	case math.IsNaN(t.Threshold) || math.IsInf(t.Threshold, 0):
		return bad("threshold of %g: want the result at which to end, or 0 for none", t.Threshold)
	case t.Threshold < 0 && n.config.Step == nil && (t.Monitor == "" || t.Monitor == "loss") && isKind(loss):
		return bad("threshold of %g: want more than 0, for %s is never less, or 0 for none", t.Threshold, loss.Title())
	case t.Patience < 0:
		return bad("patience of %d epochs: want 1 or more, or 0 to train all epochs", t.Patience)
	case t.KeepState && len(n.carriedSlots()) == 0:
		return bad("KeepState is set, and %s has no layer that is Stateful: want it left out", n.model.Name)
	case t.Validation != nil && t.Validation.kind() != data.kind():
		return bad("Validation %s has %s, and %s has %s: want the same of both", t.Validation.Name, t.Validation.kind(), data.Name, data.kind())
	}
	return nil
}

// ofBatch says whether a loss for a set is one of a whole batch, and not the mean of its examples'
// own losses.
func (n *Net) ofBatch(loss losses.Loss, s *Set) (is bool) {
	switch l := loss.(type) {
	case losses.Joint:
		return losses.OfBatch(l) || s.shapeOf("v").Ok()
	case losses.Func:
		_, err := n.trace("loss", func(t *trace) []*Node {
			b := t.gather(1, s, t.sources(s), func(a *Node) *Node { return Slice(a, AxisRange(0, 1)) })
			x := l.Of(Parameter(t.g, "output", shapes.Make(dtypes.Float32, append([]int{1}, n.output...)...)), b.y)
			is = x != nil && x.IsScalar()
			return []*Node{x}
		})
		return is && err == nil // what is wrong is said where the loss is used
	}
	return losses.OfBatch(loss)
}

// kind is what the targets of a set are.
func (s *Set) kind() string {
	switch {
	case s.labelled():
		return "labels"
	case s.targets == 0:
		return "no targets"
	}
	return "numbers as targets"
}
