package fit

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/models"
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

	layouts map[[2]int]*cacheLayout // by rows and slots
}

// layout is that of a cache, which is found once.
func (g *generator) layout(n *Net, rows, slots int) (*cacheLayout, error) {
	at := [2]int{rows, slots}
	if l := g.layouts[at]; l != nil {
		return l, nil
	}
	l, err := n.cacheLayout(rows, slots)
	if err != nil {
		return nil, err
	}
	if g.layouts == nil || len(g.layouts) >= 100 {
		g.layouts = map[[2]int]*cacheLayout{}
	}
	g.layouts[at] = l
	return l, nil
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
		if l, err = n.cacheLayout(1, 16); err == nil && len(l.slots) == 0 {
			err = errors.New("its layers keep nothing of earlier tokens")
		} else if err == nil {
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
		c := &models.Cache{CachePlace: models.CachePlace{Position: vector, Slot: t.scalar(int32(0)), At: Zeros(t.g, shapes.Make(dtypes.Int32, rows, slots))}, Count: vector,
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
			c := &models.Cache{CachePlace: models.CachePlace{Position: vector(at), Slot: t.scalar(int32(at)), At: Const(t.g, slots)}, Count: vector(count), Old: func(name string, shape shapes.Shape) *Node {
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
	x, err := n.made("logits "+what, func(t *trace) []*Node {
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
