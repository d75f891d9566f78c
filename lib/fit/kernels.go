package fit

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
)

// Kernels says which GPU kernels the steps of an epoch are made of. The numbers
// are the same but for rounding. On a CPU of Intel's with AVX-512, or of AMD's with AVX2 alone,
// large products of matrices are those of package gemm, and an LSTM's places package lstm's, but
// with XLAKernels. All else there, on several devices, and for what package fused has no plan
// for (optimizers of one's own, other losses than CrossEntropy but for MSE of a small net of
// sequences or of up to three small dense layers: then a step is two kernels), they are always
// XLA's.
//
// A large multilayer perceptron's steps are one kernel for many of them, whose blocks
// keep weights and moments on the device's processors: two hidden layers with ReLU, up
// to 1,024 units and 16 classes, with batches of up to 128, on a device of
// compute capability 9.0 with a processor for each of 128 blocks. Its products are
// TF32, with BF16 too.
//
// Convolutions of 6 channels or more, of batches of more than 40 images that have room
// in a processor's shared memory, are one kernel there and one back on such a device. They
// round factors to Float16, which has TF32's digits, with a scale for each image.
//
// Nets with batch norm or with an LSTM have no plan either, but kernels for these
// layers: two each way for a norm, with the activation and a residual block's sum in
// them, and one each way for an LSTM of up to 128 units. Those of norms are not
// measured to be faster in general, so AutoKernels leaves them to XLA until [Net.Tune]
// has found that they are faster for this net; FusedKernels uses them. So it is with nets
// that have a large product.
type Kernels int

const (
	// AutoKernels are those of package fused, until they are found to be slower
	// than XLA's, see Net.Tune, or the device refuses them: History.Note of that run
	// says so.
	AutoKernels Kernels = iota
	// XLAKernels are XLA's.
	XLAKernels
	// FusedKernels are those of package fused, even where they are slower.
	FusedKernels

	// plainOps is the plan of FusedKernels in GoMLX's ops: how it is tested on a
	// CPU.
	plainOps
)

// fuses says whether the steps of a chunk use kernels of package fused: 0, or
// the value for chunk.Fused.
func (n *Net) fuses(s *Set, c chunk) int {
	k := n.config.Kernels
	if k == plainOps {
		return 1
	}
	if !n.cuda() || k == XLAKernels || c.Devices > 1 {
		return 0
	}
	if !n.fusible(s, c.Batch) {
		return 0
	}
	table := n.tilings()
	if k == AutoKernels && !n.prefers(table.Known(n.stepKey(c.Batch)), c.Batch) {
		return 0
	}
	return 1 + table.Changes()
}

// prefers says whether AutoKernels are package fused's for steps of a batch, by what is
// known of them.
func (n *Net) prefers(known tiling.Entry, batch int) bool {
	if untold(known) {
		return !n.model.HasBatchNorm() && !n.heavy(batch)
	}
	return !known.UsePlain()
}

// largeProduct is the number of FLOPs of a product from which cuBLAS is faster than
// package fused, as far as is known. µs a step on an H100 with fused kernels and with
// XLA's, with convolutions too: the MLP's of 1,000 units with batches of 512, whose largest
// product has 1.0e9, 144 and 173, of 1,024 236 and 227, of 2,048 492 and 387; the FCN's
// with 128, 1.1e9, 202 and 237, with 256 301 and 280, with 1,024 987 and 479. Keras' CNN
// with 1,024 has one of 2.4e9, and convolutions that are nine times as much: 839 and 1,562,
// with 4,096 3,099 and 5,718.
const largeProduct = 2e9

// heavy says whether products that are large with a batch are at least half of what the
// net computes on its way forward.
func (n *Net) heavy(batch int) bool {
	large := 0.0
	for _, v := range n.layout.variables {
		if f := 2 * float64(batch) * float64(v.shape.Size()); v.trainable && v.shape.Rank() == 2 && f >= largeProduct {
			large += f
		}
	}
	return large > 0 && large >= n.forward*float64(batch)/2
}

// refuses says whether err is that of a device that cannot do a program, and not of
// one that has something else to do.
func refuses(err error) bool {
	return errors.Is(err, wire.CompileError) || errors.Is(err, wire.Unsupported)
}

// without goes on with XLA's kernels where the device does not take those of package
// fused: an LSTM's of 65 to 128 units want 136 KiB of shared memory, which the GPUs of
// data centers have, and others do not. Later runs know it once ready has found that
// XLA's are taken: else the error is not the kernels'.
func (r *run) without(why error, ready func() error) error {
	n := r.net
	var batches []int
	for _, p := range []*portion{&r.main, &r.odd, &r.tail} {
		if p.Fused == 0 {
			continue
		}
		batches = append(batches, p.Batch)
		p.Fused, p.Resident, p.steps = 0, false, nil
		if n.config.Unroll == 0 {
			p.Inner, p.Unroll = p.turn(), 1
		}
	}
	if err := ready(); err != nil {
		return err
	}
	r.note(fmt.Sprintf("with XLA's kernels, as this device does not take Gaiden's for %s: %v", n.model.Name, why))
	n.refused(why, batches...) // if it cannot be saved the next process asks the device again
	return nil
}

// refused notes that the device does not take the kernels of steps of such batches.
func (n *Net) refused(why error, batches ...int) error {
	table := n.tilings()
	for _, batch := range batches {
		table.Set(n.stepKey(batch), tiling.Entry{Refused: why.Error()})
	}
	return table.Save()
}

// fusible says whether package fused has something for steps on a set.
func (n *Net) fusible(s *Set, batch int) bool {
	_, err := n.plan(s)
	return err == nil || n.sequences() || n.model.HasBatchNorm() || n.wholePlan(s, batch) != nil
}

// cuda says whether there is a GPU that runs Triton's kernels, or a test that
// does without.
func (n *Net) cuda() bool {
	return n.config.Kernels == plainOps || n.platform == "cuda"
}

// Fused says how the training steps of the net use kernels of package fused on
// a set, a line for each layer, or why they do not.
func (n *Net) Fused(s *Set) (string, error) {
	if s == nil {
		return "", n.noData()
	}
	if p := n.wholePlan(s, 1); p != nil {
		return p.String(), nil
	}
	p, err := n.plan(s)
	switch {
	case err != nil && n.model.HasBatchNorm():
		return "batch norms      two kernels each way, with FusedKernels or once Tune has found them faster\n", nil
	case err != nil && n.sequences():
		return "LSTM             one kernel each way for all places\n", nil
	case err != nil:
		return "", err
	}
	if r := n.resident(s, 1); r != nil {
		return p.String() + r.String(), nil
	}
	return p.String(), nil
}

// plan divides the net into fused operations.
func (n *Net) plan(s *Set) (*fused.Plan, error) {
	if _, is := n.lossOf(s).(CrossEntropy); !is || s.targets != 0 {
		return nil, fmt.Errorf("fit: %s: no fused kernels for %s: want cross entropy of labels", n.name, n.lossOf(s).Title())
	}
	if ruleOf(n.config.Optimizer) == nil {
		return nil, fmt.Errorf("fit: %s: no fused kernels for %T: want fit.Adam, SGD or AdaDelta", n.name, n.config.Optimizer)
	}
	if s.N*s.size > math.MaxInt32 {
		return nil, fmt.Errorf("fit: %s: no fused kernels for the %d numbers of %s: want less than 2³¹", n.name, s.N*s.size, s.Name)
	}
	for _, v := range n.layout.variables {
		switch {
		case v.trainable && v.shape.DType != dtypes.Float32:
			return nil, fmt.Errorf("fit: %s: no fused kernels for %s of %s: want Float32", n.name, v.name, v.shape.DType)
		case !v.trainable && v.shape.DType.IsFloat():
			return nil, fmt.Errorf("fit: %s: no fused kernels for %s, which a step changes and no gradient: want nets without batch norm", n.name, v.name)
		}
	}
	return fused.NewPlan(n.model)
}

// wholePlan is how a step of so many examples of a set is one kernel and an
// update, nil if it is not. The kernel's numbers are float32, with BF16 too: it
// is no faster with less.
func (n *Net) wholePlan(s *Set, batch int) fused.Whole {
	if _, is := n.lossOf(s).(MSE); !is || s.targets == 0 || ruleOf(n.config.Optimizer) == nil || s.N*max(s.size, s.targets) > math.MaxInt32 {
		return nil
	}
	for _, l := range n.model.Layers {
		if _, is := l.(models.LSTM); is {
			if _, plain := plainLSTM(l); !plain {
				return nil
			}
		}
	}
	for _, v := range n.layout.variables {
		if v.trainable && v.shape.DType != dtypes.Float32 {
			return nil
		}
	}
	for _, a := range s.arrays() {
		if shape, _ := a.Shape(); shape.DType != dtypes.Float32 {
			return nil
		}
	}
	p, err := fused.NewWhole(n.model, batch)
	if err != nil {
		return nil
	}
	return p
}

// ruleOf is an optimizer as kernels know it, nil if they do not.
func ruleOf(o Optimizer) kernels.Rule {
	switch o := o.(type) {
	case SGD:
		return kernels.SGD{Momentum: o.Momentum, Nesterov: o.Nesterov, WeightDecay: o.WeightDecay}
	case Adam:
		return kernels.Adam{Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, WeightDecay: o.WeightDecay}
	case AdaDelta:
		return kernels.AdaDelta{Rho: o.Rho, Epsilon: o.Epsilon, WeightDecay: o.WeightDecay}
	}
	return nil
}

// source is where a chunk's batches come from, and the number of its first step.
// Single programs get the number of steps done before each run; here it is
// counted from the chunk's beginning.
func (t *trace) source(c chunk, sources []*Node, order, place, step, begin *Node) (s fused.Source, at *Node) {
	at = begin
	if c.Unroll > 1 {
		at = Mul(at, t.scalar(int32(c.Unroll)))
	}
	if c.Single {
		step = Sub(step, at)
	}
	return fused.Source{X: sources[0], Labels: sources[1], Order: order, Place: place, Step: step, Batch: c.Batch}, at
}

// fused is a turn of an epoch's loop by the net's plan, or by resident or whole if that
// is not nil. The state is variables, moments, results and the number of the next step.
func (t *trace) fused(state []*Node, moments, unroll int, resident *fused.Resident, whole fused.Whole, s fused.Source, rate *Node) []*Node {
	n := t.net
	o := t.ops()
	if n.config.BF16 {
		o.Compute = dtypes.BFloat16
	}
	variables := len(state) - moments - 2
	var plan *fused.Plan
	var batches []fused.Batch
	if resident == nil && whole == nil { // which take their own
		var err error
		if plan, err = fused.NewPlan(n.model); err != nil {
			panic(err) // epochProgram has asked before
		}
		t.mark("data/gather")
		batches = o.Take(s, state[variables+moments+1], unroll)
	}
	turns := unroll
	if resident != nil {
		turns = 1
	}
	for k := range turns {
		v, m := state[:variables:variables], state[variables:variables+moments]
		journal := &fused.Journal{Rows: state[variables+moments], At: state[variables+moments+1]}
		t.set(v)
		step := fused.Step{Ops: o, Rule: ruleOf(n.config.Optimizer), Rate: rate, Journal: journal, Mark: t.mark}
		switch {
		case resident != nil:
			v, m = t.follow(func(step fused.Step) (map[string][]*Node, *Node) { return resident.Train(step, s, unroll), nil }, step, v, m)
		case whole != nil:
			v, m = t.follow(func(step fused.Step) (map[string][]*Node, *Node) { return whole.Train(step, s, journal.At) }, step, v, m)
		default:
			b := batches[k]
			step.X, step.Labels, step.T = Reshape(b.X, append([]int{s.Batch}, n.model.Input...)...), b.Labels, b.Number
			v, m = t.follow(plan.Train, step, v, m)
		}
		state = append(append(v, m...), journal.Rows, journal.At)
	}
	return state
}

// ops are the fused operations of the program.
func (t *trace) ops() fused.Ops {
	if t.net.config.Kernels == plainOps {
		return fused.Ops{}
	}
	return fused.Ops{Builder: t.w.builder, Choose: t.net.tilings().Choose, Images: t.net.hopper()}
}

// follow is a step as a plan's train writes it: variables and moments after it.
func (t *trace) follow(train func(fused.Step) (map[string][]*Node, *Node), step fused.Step, variables, moments []*Node) (v, m []*Node) {
	n, each := t.net, step.Rule.Moments()
	states := map[string][]*Node{}
	for k, i := range n.layout.trained {
		states[n.layout.variables[i].name] = append([]*Node{variables[i]}, moments[k*each:(k+1)*each]...)
	}
	t.store.SetTraining(t.g, true)
	step.State = func(name string) []*Node { return states[name] }
	step.Plain = func(i int, x *Node) (y *Node, names []string, weights []*Node) {
		name := n.model.Names()[i]
		for k, v := range n.layout.variables {
			if v.trainable && strings.HasPrefix(v.name, name+"/") {
				names, weights = append(names, v.name), append(weights, variables[k])
			}
		}
		return n.model.Layer(i, name, t.store.RootScope(), x, nil), names, weights
	}
	next, _ := train(step)
	v = t.buffers(variables)
	for _, i := range n.layout.trained {
		state := next[n.layout.variables[i].name]
		v[i], m = state[0], append(m, state[1:]...)
	}
	return v, m
}
