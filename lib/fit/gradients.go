package fit

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/step"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// Batches are all examples, shuffled, size at a time; a size below 1 panics.
func (s *Set) Batches(size int) iter.Seq[step.Batch] {
	if size < 1 {
		panic(fmt.Errorf("fit: batches of %d examples of %s: want 1 or more", size, s.Name))
	}
	if s.stream != nil {
		panic(fmt.Errorf("fit: batches of %s, which is a stream: want a set from Upload, with as many examples as fit", s.Name))
	}
	s.epochs++
	seed := s.epochs
	return func(yield func(step.Batch) bool) {
		order := rand.New(rand.NewPCG(seed, 0x62617463686573)).Perm(s.N)
		for part := range slices.Chunk(order, size) {
			b := step.Batch{Data: s.Name}
			for _, i := range part {
				b.Examples = append(b.Examples, int32(i))
			}
			if !yield(b) {
				return
			}
		}
	}
}

// Gradients are the derivatives of the loss for a batch.
func (n *Net) Gradients(b step.Batch) *step.Gradients {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	arrays, loss, err := n.gradients(b)
	if err == nil {
		for _, i := range n.layout.trained {
			names = append(names, n.layout.variables[i].name)
		}
	}
	return step.NewGradients(n.core, names, arrays, loss, n.changeGradients, err)
}

// Apply is a step of the optimizer, if it leads to finite weights.
func (n *Net) Apply(g *step.Gradients) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if g != nil && g.Err() != nil {
		return g.Err()
	}
	gradients, err := g.Take(n.core)
	if err != nil {
		return fmt.Errorf("fit: %s: %w", n.name, err)
	}
	defer free(gradients...)
	ctx := n.Context()
	done, err := n.acquire(ctx, "changes")
	if err != nil {
		return err
	}
	defer done()
	p, err := n.wait(ctx, n.prepare("apply", n.applyProgram, nil), nil)
	if err != nil {
		return err
	}
	all := n.layout.all()
	state, err := n.state(all)
	if err != nil {
		return err
	}
	defer free(state...)
	rate, err := n.session.Put([]float32{float32(n.config.Optimizer.Rate())}, shapes.Make(dtypes.Float32), 0)
	if err != nil {
		return err
	}
	defer rate.Finalize()
	out, err := p.Run(session.Call{Inputs: slices.Concat(state, []*session.Array{rate}, gradients)})
	if err != nil {
		return err
	}
	defer free(out...)
	last := len(out) - 1
	wrong := make([]float32, 1)
	if err := during(ctx, nil, func() error { return out[last].Values(wrong) }); err != nil {
		return err
	}
	if wrong[0] != 0 {
		return fmt.Errorf("fit: %s: a step by these gradients leaves weights that are not finite; the net keeps those it has: want a smaller learning rate, or Gradients.Clip", n.name)
	}
	var changed []slot
	for _, i := range n.layout.trained {
		changed = append(changed, n.layout.variables[i])
	}
	return n.bind(slices.Concat(changed, n.layout.moments, []slot{n.layout.step}), out[:last])
}

// gradients computes those of a batch, and its loss.
func (n *Net) gradients(b step.Batch) (gradients []*session.Array, loss *session.Array, err error) {
	ctx := n.Context()
	if n.config.Step != nil {
		return nil, nil, fmt.Errorf("fit: %s: Gradients of a net with Config.Step, which minimizes by itself: want a net with Config.Loss", n.name)
	}
	done, err := n.acquire(ctx, "changes")
	if err != nil {
		return nil, nil, err
	}
	defer done()
	s, err := n.set(b.Data) // which an earlier cell may have uploaded
	if err != nil {
		return nil, nil, fmt.Errorf("fit: %s: batch of %q: want one of a set that Upload has put into the session: %w", n.name, b.Data, err)
	}
	if err := n.canTrain(s); err != nil {
		return nil, nil, err
	}
	size := len(b.Examples)
	if size == 0 || slices.ContainsFunc(b.Examples, func(i int32) bool { return i < 0 || int(i) >= s.N }) {
		return nil, nil, fmt.Errorf("fit: %s: batch of %d examples of %s: want 1 or more, with numbers from 0 to %d", n.name, size, s.Name, s.N-1)
	}
	if err := n.checkCarried(s, Train{Batch: size, InOrder: true}); err != nil {
		return nil, nil, err
	}
	devices, err := n.devicesOf(s, size)
	if err != nil {
		return nil, nil, err
	}
	p, err := n.wait(ctx, n.prepare(fmt.Sprintf("gradients/%s/%d/%d/%d", s.key(), s.N, size, devices), func() (*hlo.Program, error) { return n.gradientProgram(s, size, devices) }, nil), nil)
	if err != nil {
		return nil, nil, err
	}
	variables, err := n.state(n.layout.variables)
	if err != nil {
		return nil, nil, err
	}
	state, err := n.replicate(variables, devices)
	defer state.free()
	if err != nil {
		return nil, nil, err
	}
	sources, err := n.copiesOn(s.all(), devices)
	if err != nil {
		return nil, nil, err
	}
	own := make(copies, devices) // what differs from device to device
	defer own.free()
	for d := range own {
		index, err := n.session.Put(b.Examples[d*size/devices:(d+1)*size/devices], shapes.Make(dtypes.Int32, size/devices), d)
		if err != nil {
			return nil, nil, err
		}
		own[d] = append(own[d], index)
		replica, err := n.integers(d, d)
		if err != nil {
			return nil, nil, err
		}
		own[d] = append(own[d], replica...)
	}
	out, err := runOnce(p, state, sources, own)
	if err != nil {
		return nil, nil, err
	}
	out[1:].free()
	k := len(n.layout.trained)
	moved := out[0][1+k:]
	defer free(moved...)
	return out[0][1 : 1+k], out[0][0], n.bind(n.moved(), moved)
}

// devicesOf is on how many devices the gradients of a batch are computed: as many as Fit would
// use, where they can share it.
func (n *Net) devicesOf(s *Set, batch int) (int, error) {
	if want := n.config.Devices; want < 2 || batch%want != 0 {
		return 1, nil
	}
	q, err := n.training(s, batch)
	if err != nil {
		return 0, err
	}
	q.Steps, q.Epochs = 1, 1
	p, err := plan.Decide(q)
	if err != nil {
		return 0, fmt.Errorf("fit: %s: %w", n.name, err)
	}
	return p.Devices, nil
}

// moved are the variables that a step changes without a gradient.
func (n *Net) moved() (l []slot) {
	for _, v := range n.layout.variables {
		if !v.trainable && !v.frozen {
			l = append(l, v)
		}
	}
	return l
}

// gradientProgram is the gradients of a batch: variables, sources, examples of a device, its
// number → loss, gradients, variables that are moved.
func (n *Net) gradientProgram(s *Set, size, devices int) (*hlo.Program, error) {
	return n.traceFor(devices, "gradients", func(t *trace) []*Node {
		c := plan.Part{Batch: size, Devices: devices, Split: devices > 1}
		variables := t.variables()
		sources := t.sources(s)
		index := Parameter(t.g, "index", shapes.Make(dtypes.Int32, c.Share()))
		replica := Parameter(t.g, "replica", shapes.Make(dtypes.Int32))
		for i, v := range n.layout.variables {
			if v.path == rng && c.Split {
				variables[i] = randomOf(variables[i], replica)
			}
		}
		f := t.derive(variables, t.gather(c.Share(), s, sources, rows(index)), s, c)
		if c.Split {
			t.reduce(&f, devices)
		}
		t.unscale(&f)
		out := append([]*Node{f.mean}, f.gradients...)
		for i, v := range n.layout.variables {
			if v.trainable || v.frozen {
				continue
			}
			now := f.variables[i]
			if v.shape.DType.IsFloat() { // running means: those of a batch that is not finite do not count
				wrong := GreaterThan(t.anyNotFinite(now), t.scalar(float32(0)))
				now = Where(wrong, variables[i], now)
			}
			out = append(out, now)
		}
		return out
	})
}

// applyProgram is a step of the optimizer: state, rate, gradients → trained variables, moments,
// step, and 1 where some of them are not finite.
func (n *Net) applyProgram() (*hlo.Program, error) {
	return n.trace("apply", func(t *trace) []*Node {
		l := &n.layout
		variables, moments := t.variables(), t.slots(l.moments)
		count := Parameter(t.g, "step", l.step.shape)
		rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
		f := stepResult{variables: variables, gradients: t.gradientParameters("gradient/")}
		next := Add(count, t.scalar(int32(1)))
		v, m := t.update(f, l.each(), moments, rate, ConvertDType(next, dtypes.Float32))
		wrong := t.scalar(float32(0))
		var out []*Node
		for _, i := range l.trained {
			out, wrong = append(out, v[i]), Max(wrong, t.anyNotFinite(v[i]))
		}
		return append(append(out, m...), next, wrong)
	})
}

// gradientParameters are the gradients as parameters of a program.
func (t *trace) gradientParameters(prefix string) (l []*Node) {
	for _, i := range t.net.layout.trained {
		v := t.net.layout.variables[i]
		l = append(l, Parameter(t.g, prefix+v.name, v.shape))
	}
	return l
}

// changeGradients does what gradients are told to do: see [step.Do].
func (n *Net) changeGradients(what string, g []*session.Array, by float64, other []*session.Array) ([]*session.Array, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := n.wait(n.Context(), n.prepare("gradients/"+what, func() (*hlo.Program, error) {
		return n.trace("gradients "+what, func(t *trace) []*Node {
			by := Parameter(t.g, "by", shapes.Make(dtypes.Float32))
			l := t.gradientParameters("gradient/")
			square := t.scalar(float32(0))
			switch what {
			case "norm":
				for _, x := range l {
					square = Add(square, ReduceAllSum(Square(x)))
				}
				return []*Node{Add(Sqrt(square), Sub(by, by))}
			case "norms":
				for i, x := range l {
					l[i] = Reshape(Add(Sqrt(ReduceAllSum(Square(x))), Sub(by, by)), 1)
				}
				return []*Node{Concatenate(l, 0)}
			case "add":
				for i, x := range t.gradientParameters("other/") {
					l[i] = Add(l[i], Add(x, Sub(by, by)))
				}
			case "scale":
				for i, x := range l {
					l[i] = Mul(x, by)
				}
			case "limit":
				for i, x := range l {
					l[i] = Min(Max(x, Neg(by)), by)
				}
			case "clip":
				return optim.ClipNorm(l, by)
			}
			return l
		})
	}, nil), nil)
	if err != nil {
		return nil, err
	}
	scalar, err := n.session.Put([]float32{float32(by)}, shapes.Make(dtypes.Float32), 0)
	if err != nil {
		return nil, err
	}
	defer scalar.Finalize()
	return p.Run(session.Call{Inputs: slices.Concat([]*session.Array{scalar}, g, other)})
}
