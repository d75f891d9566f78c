package fit

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
	"gaiden/lib/models"
	"gaiden/lib/sampling"
	"gaiden/lib/session"
)

// generator is how a net generates tokens: with a cache, time step by time step, or by
// computing a window of the last tokens for each one.
type generator struct {
	vocab  int
	single bool   // the net returns logits of one token for a sequence
	cached bool   // else it is given windows
	why    string // it is not cached
	length int    // of the longest sequence that the net takes; 0: any
	padded bool   // a window may be shorter, with padding behind it
}

// generating finds out how the net generates. Its error says why it cannot.
func (n *Net) generating() (*generator, error) {
	if n.generator != nil {
		return n.generator, nil
	}
	bad := func(format string, args ...any) (*generator, error) {
		return nil, fmt.Errorf("fit: %s: Generate: %s", n.name, fmt.Sprintf(format, args...))
	}
	if len(n.model.Parts()) > 0 {
		return bad("%s is made of parts: want one of them, by Net.Part", n.model.Name)
	}
	all := n.model.AllInputs()
	in := all[0]
	switch {
	case len(all) > 1:
		return bad("%s has %d inputs: want one, the ids of tokens", n.model.Name, len(all))
	case !in.Integers:
		return bad("%s takes numbers: want ids of tokens, with an Embedding as its first layer or Integers set", n.model.Name)
	case len(in.Dims) != 1:
		return bad("%s takes examples of %v: want sequences of ids, [length]", n.model.Name, in.Dims)
	}
	g := &generator{single: len(n.output) == 1}
	switch {
	case len(n.output) == 1, len(n.output) == 2 && n.output[0] == in.Dims[0]:
		g.vocab = n.output[len(n.output)-1]
	default:
		return bad("%s returns %v for %d tokens: want logits of the next token, [vocab] or [%d vocab]", n.model.Name, n.output, in.Dims[0], in.Dims[0])
	}
	if in.Vocab > 0 && in.Vocab != g.vocab {
		return bad("%s returns %d numbers for a token, and takes %d tokens: want logits, one for each token", n.model.Name, g.vocab, in.Vocab)
	}
	unsure, err := n.model.Stepwise()
	if err == nil {
		var l *cacheLayout
		if l, err = n.cacheLayout(1, 16); err == nil {
			g.cached, g.length = true, l.length
		}
	}
	if g.cached && unsure {
		g.cached, err = n.continues(g, in)
		if e := (*wire.Error)(nil); errors.As(err, &e) {
			return nil, err
		}
		if err == nil && !g.cached {
			err = fmt.Errorf("it has a Function or layer that takes whole sequences")
		}
	}
	if g.cached {
		g.padded, n.generator = !g.single, g
		return g, nil
	}
	g.why, g.length = err.Error(), in.Dims[0]
	if !g.single {
		if g.padded, err = n.causal(g, in); err != nil {
			return nil, err
		}
		if !g.padded {
			return bad("%s: %s, and the logits for a token depend on later ones: want a causal net, or one that returns [vocab] for a sequence", n.model.Name, g.why)
		}
	}
	n.generator = g
	return g, nil
}

// cacheLayout is the arrays of a cache.
type cacheLayout struct {
	slots  []slot
	grows  []bool // it has slots for tokens, on axis 2
	length int    // of the longest sequence
}

// cacheLayout finds out what layers keep of so many sequences.
func (n *Net) cacheLayout(rows, slots int) (*cacheLayout, error) {
	l := &cacheLayout{}
	_, err := n.trace("cache", func(t *trace) []*Node {
		t.set(t.variables())
		vector := Zeros(t.g, shapes.Make(dtypes.Int32, rows))
		c := &models.Cache{Position: vector, Count: vector, Slot: t.scalar(int32(0)), At: Zeros(t.g, shapes.Make(dtypes.Int32, rows, slots)),
			Old: func(_ string, shape shapes.Shape) *Node { return Zeros(t.g, shape) }}
		y := t.continued(c, Zeros(t.g, shapes.Make(dtypes.Int32, rows, 1)))
		for i, name := range c.Names {
			l.slots = append(l.slots, slot{name: name, shape: c.New[i].Shape()})
		}
		l.grows, l.length = c.Slots, c.Length
		return append(c.New, y)
	})
	return l, err
}

// continued is the logits of time steps [rows length] that continue those in a cache.
func (t *trace) continued(c *models.Cache, ids *Node) *Node {
	models.SetCache(t.g, c)
	defer models.SetCache(t.g, nil)
	return t.apply(models.Inputs{t.net.model.AllInputs()[0].Name: ids}, false)
}

// continues tries whether the net gives the same logits with a cache and without.
func (n *Net) continues(g *generator, in models.Input) (bool, error) {
	const first, rows = 3, 2
	length := min(6, in.Dims[0])
	if g.length > 0 {
		length = min(length, g.length)
	}
	if length <= first {
		return false, nil
	}
	return n.alike("with and without a cache", length, g, func(t *trace, tokens *Node) (a, b *Node) {
		part := func(from, to int) *Node { return Slice(tokens, AxisRange(), AxisRange(from, to)) }
		full := t.apply(models.Inputs{in.Name: tokens}, false)
		old := map[string]*Node{}
		step := func(at, count, width int) *Node {
			slots := make([][]int32, rows)
			vector := func(x int) *Node { return Const(t.g, []int32{int32(x), int32(x)}) }
			for r := range slots {
				for i := range length + 1 {
					if i >= at+count {
						i = -1
					}
					slots[r] = append(slots[r], int32(i))
				}
			}
			c := &models.Cache{Position: vector(at), Count: vector(count), Slot: t.scalar(int32(at)), At: Const(t.g, slots), Old: func(name string, shape shapes.Shape) *Node {
				if x := old[name]; x != nil {
					return x
				}
				return Zeros(t.g, shape)
			}}
			y := t.continued(c, part(at, at+width))
			for i, name := range c.Names {
				old[name] = c.New[i]
			}
			return y
		}
		step(0, first, first+1) // one is padding
		var y []*Node
		for at := first; at < length; at++ {
			y = append(y, step(at, 1, 1))
		}
		if g.single {
			return full, y[len(y)-1]
		}
		return Slice(full, AxisRange(), AxisRange(first, length)), Concatenate(y, 1)
	})
}

// causal tries whether logits of a time step do not depend on later ones.
func (n *Net) causal(g *generator, in models.Input) (bool, error) {
	length := in.Dims[0]
	return n.alike("of one beginning", length, g, func(t *trace, tokens *Node) (a, b *Node) {
		half := (length + 1) / 2
		begin := func(x *Node) *Node {
			return Slice(t.apply(models.Inputs{in.Name: x}, false), AxisRange(), AxisRange(0, half))
		}
		if half == length {
			return begin(tokens), begin(tokens)
		}
		end := Reverse(Slice(tokens, AxisRange(), AxisRange(half, length)), 0)
		return begin(tokens), begin(Concatenate([]*Node{Slice(tokens, AxisRange(), AxisRange(0, half)), end}, 1))
	})
}

// alike says whether two ways to compute logits give the same, for some tokens of two
// sequences and weights that are a little other than the net's.
func (n *Net) alike(what string, length int, g *generator, build func(t *trace, tokens *Node) (a, b *Node)) (bool, error) {
	p, err := n.trace("logits "+what, func(t *trace) []*Node {
		variables := t.variables()
		moved := make([]*Node, len(variables))
		for i, v := range n.layout.variables {
			if moved[i] = variables[i]; v.weight {
				flat := Iota(t.g, shapes.Make(v.shape.DType, v.shape.Size()), 0)
				noise := MulScalar(Sin(MulScalar(flat, 1.7)), 0.1)
				moved[i] = Add(moved[i], Reshape(noise, v.shape.Dimensions...))
			}
		}
		t.set(moved)
		tokens := make([][]int32, 2)
		for r := range tokens {
			for i := range length {
				tokens[r] = append(tokens[r], int32((7*i*i+3*i+r*(i+1))%g.vocab))
			}
		}
		a, b := build(t, Const(t.g, tokens))
		return []*Node{Stack([]*Node{ReduceAllMax(Abs(Sub(a, b))), ReduceAllMax(Abs(a))}, 0)}
	})
	if err != nil {
		return false, err
	}
	x, err := n.compile(p, nil)
	if err != nil {
		return false, err
	}
	state, err := n.used()
	if err != nil {
		return false, err
	}
	defer free(state...)
	out, err := x.Run(session.Call{Inputs: state})
	if err != nil {
		return false, err
	}
	defer free(out...)
	values := make([]float32, 2)
	if err := out[0].Values(values); err != nil {
		return false, err
	}
	tolerance := float32(1e-3)
	if n.config.narrows() {
		tolerance = 0.05
	}
	return values[0] <= tolerance*values[1] && !math.IsInf(float64(values[1]), 0), nil
}

// drawing is what a program draws tokens with.
type drawing struct {
	t                             *trace
	s                             sampling.Sampling
	count, base                   *Node // tokens to draw, and the number of the first
	random, temperature, top, sum *Node
	zero, none, stop              *Node
}

// columns is how many tokens a program draws at most.
const columns = 256

// drawing makes the parameters of a program's drawing: see numbers.
func (t *trace) drawing(rows int, s sampling.Sampling) *drawing {
	scalar := func(name string, kind dtypes.DType) *Node { return Parameter(t.g, name, shapes.Make(kind)) }
	d := &drawing{t: t, s: s, count: scalar("count", dtypes.Int32), zero: t.scalar(int32(0)), none: Zeros(t.g, shapes.Make(dtypes.Int32, rows))}
	if s.Temperature > 0 {
		d.base, d.random, d.temperature = scalar("base", dtypes.Uint64), scalar("random", dtypes.Uint64), scalar("temperature", dtypes.Float32)
		if s.TopK > 0 {
			d.top = scalar("topk", dtypes.Int32)
		}
		if s.TopP > 0 {
			d.sum = scalar("topp", dtypes.Float32)
		}
	}
	if len(s.StopTokens) > 0 {
		d.stop = BroadcastToDims(InsertAxes(Const(t.g, s.StopTokens), 0), rows, len(s.StopTokens))
	}
	return d
}

// key is that of programs that draw alike.
func drawingKey(s sampling.Sampling) string {
	return fmt.Sprintf("%t/%t/%t/%v", s.Temperature > 0, s.TopK > 0, s.TopP > 0, s.StopTokens)
}

// loop draws until all is drawn. logits makes those of the next token, given the state and
// which sequences are still being written, and then gets the tokens.
func (d *drawing) loop(left *Node, state []*Node, step func(i *Node, state []*Node, active *Node) (logits *Node, next func(written, token *Node) []*Node)) []*Node {
	rows := left.Shape().Dimensions[0]
	k := len(state)
	fresh := FillScalar(d.t.g, shapes.Make(dtypes.Int32, rows, columns), -1)
	more := func(i *Node, state []*Node) *Node {
		return LogicalAnd(LessThan(i, d.count), GreaterThan(ReduceAllMax(state[k]), d.zero))
	}
	return d.t.whileTrue(d.zero, d.t.scalar(int32(1)), append(append([]*Node{}, state...), left, fresh), more, func(i *Node, all []*Node) []*Node {
		left, fresh := all[k], all[k+1]
		active := GreaterThan(left, d.none)
		logits, next := step(i, all[:k], active)
		d.t.mark("generate/draw")
		var number *Node
		if d.base != nil {
			number = Add(d.base, ConvertDType(i, dtypes.Uint64))
		}
		token, wrong := sampling.Next(logits, d.temperature, d.top, d.sum, d.random, number)
		written := LogicalAnd(active, LogicalNot(wrong))
		shown := Where(written, token, Where(active, AddScalar(d.none, notFinite), AddScalar(d.none, -1)))
		goes := written
		if d.stop != nil {
			ends := ReduceMax(ConvertDType(Equal(BroadcastToDims(InsertAxes(token, -1), d.stop.Shape().Dimensions...), d.stop), dtypes.Int32), 1)
			goes = LogicalAnd(goes, Equal(ends, d.none))
		}
		left = Where(goes, AddScalar(left, -1), d.none)
		return append(next(written, token), left, DynamicUpdateSlice(fresh, InsertAxes(shown, -1), []*Node{d.zero, i}))
	})
}

// notFinite stands for a token whose logits are no numbers.
const notFinite = -2

// decodeProgram draws tokens with a cache: variables, cache, tokens [rows slots], at alike,
// position, last, left [rows], slot, drawing → cache, tokens, last, fresh [rows columns].
func (n *Net) decodeProgram(l *cacheLayout, rows, slots int, s sampling.Sampling) (*hlo.Program, error) {
	return n.trace("decode", func(t *trace) []*Node {
		variables, cache := t.variables(), t.slots(l.slots)
		k := len(cache)
		p := t.content(rows, slots)
		left := Parameter(t.g, "left", shapes.Make(dtypes.Int32, rows))
		d := t.drawing(rows, s)
		t.set(variables)
		none := AddScalar(d.none, -1)
		state := append(append([]*Node{}, cache...), p.tokens, p.at, p.position, p.last)
		out := d.loop(left, state, func(i *Node, state []*Node, active *Node) (*Node, func(written, token *Node) []*Node) {
			tokens, at, position, last := state[k], state[k+1], state[k+2], state[k+3]
			place := Add(p.slot, i)
			put := func(all, one *Node) *Node {
				return DynamicUpdateSlice(all, InsertAxes(Where(active, one, none), -1), []*Node{d.zero, place})
			}
			tokens, at = put(tokens, last), put(at, position)
			count := ConvertDType(active, dtypes.Int32)
			c := &models.Cache{Position: position, Count: count, Slot: place, At: at, Old: l.among(state)}
			y := t.continued(c, InsertAxes(last, -1))
			return Reshape(y, rows, y.Shape().Size()/rows), func(written, token *Node) []*Node {
				return append(append([]*Node{}, c.New...), tokens, at, Add(position, count), Where(written, token, Where(active, none, last)))
			}
		})
		return append(out[:k+1:k+1], out[k+3], out[k+5])
	})
}

// content is parameters that say which tokens are in a cache, or will be.
type content struct{ tokens, at, position, last, slot *Node }

func (t *trace) content(rows, slots int) content {
	of := func(name string, dims ...int) *Node {
		return Parameter(t.g, name, shapes.Make(dtypes.Int32, dims...))
	}
	return content{of("tokens", rows, slots), of("at", rows, slots), of("position", rows), of("last", rows), of("slot")}
}

// among finds arrays by their names.
func (l *cacheLayout) among(nodes []*Node) func(name string, shape shapes.Shape) *Node {
	return func(name string, shape shapes.Shape) *Node {
		for i, s := range l.slots {
			if s.name == name {
				return nodes[i]
			}
		}
		panic(fmt.Errorf("the cache has no %s of %s", name, shape))
	}
}

// promptProgram puts tokens into a cache: variables, cache, tokens and at with them, position,
// last, slot, ids [rows length], count [rows] → cache, tokens, last.
func (n *Net) promptProgram(l *cacheLayout, rows, slots, length int) (*hlo.Program, error) {
	return n.trace("prompt", func(t *trace) []*Node {
		variables, cache := t.variables(), t.slots(l.slots)
		p := t.content(rows, slots)
		ids := Parameter(t.g, "ids", shapes.Make(dtypes.Int32, rows, length))
		count := Parameter(t.g, "count", shapes.Make(dtypes.Int32, rows))
		t.set(variables)
		c := &models.Cache{Position: p.position, Count: count, Slot: p.slot, At: p.at, Old: l.among(cache)}
		t.continued(c, ids)
		return append(c.New, p.tokens, p.last)
	})
}

// windowProgram draws tokens without a cache: variables, window [rows length], size [rows], left
// [rows], drawing → fresh [rows columns].
func (n *Net) windowProgram(rows, length int, single bool, s sampling.Sampling) (*hlo.Program, error) {
	return n.trace("window", func(t *trace) []*Node {
		variables := t.variables()
		shape := shapes.Make(dtypes.Int32, rows, length)
		window, size := Parameter(t.g, "window", shape), Parameter(t.g, "size", shapes.Make(dtypes.Int32, rows))
		left := Parameter(t.g, "left", shapes.Make(dtypes.Int32, rows))
		d := t.drawing(rows, s)
		t.set(variables)
		column, row, one := Iota(t.g, shape, 1), Iota(t.g, shapes.Make(dtypes.Int32, rows, 1), 0), AddScalar(d.none, 1)
		wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), rows, length) }
		full := AddScalar(d.none, float64(length))
		out := d.loop(left, []*Node{window, size}, func(_ *Node, state []*Node, _ *Node) (*Node, func(written, token *Node) []*Node) {
			window, size := state[0], state[1]
			y := t.apply(models.Inputs{n.model.AllInputs()[0].Name: window}, false)
			if !single {
				y = Gather(y, Concatenate([]*Node{row, InsertAxes(Sub(size, one), -1)}, 1))
			}
			return y, func(written, token *Node) []*Node {
				shifted := Concatenate([]*Node{Slice(window, AxisRange(), AxisRange(1, length)), InsertAxes(token, -1)}, 1)
				placed := Where(Equal(column, wide(size)), wide(token), window)
				next := Where(wide(Equal(size, full)), shifted, placed)
				return []*Node{Where(wide(written), next, window), Where(LogicalAnd(written, LessThan(size, full)), Add(size, one), size)}
			}
		})
		return out[3:]
	})
}

// growProgram gives arrays of a cache more slots.
func (n *Net) growProgram(l *cacheLayout, more int) (*hlo.Program, error) {
	return n.trace("grow", func(t *trace) (out []*Node) {
		for i, x := range t.slots(l.slots) {
			if l.grows[i] {
				d := x.Shape().Clone()
				d.Dimensions[2] = more
				x = Concatenate([]*Node{x, Zeros(t.g, d)}, 2)
			}
			out = append(out, x)
		}
		return out
	})
}

// fingerprintProgram is a number that is another one for other weights.
func (n *Net) fingerprintProgram() (*hlo.Program, error) {
	return n.trace("fingerprint", func(t *trace) []*Node {
		sum := t.scalar(int32(0))
		for i, x := range t.variables() {
			if x.DType() == dtypes.Float32 {
				odd := AddScalar(MulScalar(Iota(t.g, shapes.Make(dtypes.Int32, x.Shape().Size()), 0), 2), 1)
				bits := Reshape(Bitcast(x, dtypes.Int32), x.Shape().Size())
				sum = Add(sum, MulScalar(ReduceAllSum(Mul(bits, odd)), float64(2*i+1)))
			}
		}
		return []*Node{sum}
	})
}
