package fit

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/models"
	"gaiden/lib/sampling"
)

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

// drawingKey is that of programs that draw alike.
func drawingKey(s sampling.Sampling) string {
	return fmt.Sprintf("%t/%t/%t/%v", s.Temperature > 0, s.TopK > 0, s.TopP > 0, s.StopTokens)
}

// loop draws until all is drawn. logits makes those of the next token, given the state and
// which sequences are still being written, and then gets the tokens.
func (d *drawing) loop(left *Node, state []*Node, step func(i *Node, state []*Node, active *Node) (logits *Node, next func(written, token *Node) []*Node)) []*Node {
	rows := left.Shape().Dimensions[0]
	k := len(state)
	fresh := FillScalar(d.t.g, shapes.Make(dtypes.Int32, rows, columns+d.t.net.together()-1), -1)
	more := func(i *Node, state []*Node) *Node {
		return LogicalAnd(LessThan(i, d.count), GreaterThan(ReduceAllMax(state[k]), d.zero))
	}
	one, turns := d.t.scalar(int32(1)), d.t.scalar(int32(d.t.net.together()))
	turn := func(i *Node, all []*Node) []*Node {
		left, fresh := all[k], all[k+1]
		active := LogicalAnd(GreaterThan(left, d.none), LessThan(BroadcastToDims(i, rows), BroadcastToDims(d.count, rows)))
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
	}
	out := d.t.whileTrue(d.zero, turns, append(append([]*Node{}, state...), left, fresh), more, func(i *Node, all []*Node) []*Node {
		if d.t.net.together() == 1 {
			return turn(i, all)
		}
		return d.t.while(d.zero, one, turns, all, func(j *Node, all []*Node) []*Node { return turn(Add(i, j), all) })
	})
	out[k+1] = Slice(out[k+1], AxisRange(), AxisRange(0, columns))
	return out
}

// together is how many tokens a GPU draws before the host looks whether there is more to do. It
// draws as many in any case: those that are too many do not count.
func (n *Net) together() int {
	switch {
	case n.turns > 0:
		return n.turns
	case n.target.CPU():
		return 1
	}
	return 8
}

// notFinite stands for a token whose logits are no numbers.
const notFinite = -2

// decodeProgram draws tokens with a cache: variables, cache, at [rows slots], position, last
// [rows], slot, left [rows], drawing → cache, fresh [rows columns].
func (n *Net) decodeProgram(l *cacheLayout, rows, slots int, s sampling.Sampling) (*hlo.Program, error) {
	return n.trace("decode", func(t *trace) []*Node {
		variables, cache := t.variables(), t.slots(l.slots)
		k := len(cache)
		p := t.content(rows, slots, "last")
		left := Parameter(t.g, "left", shapes.Make(dtypes.Int32, rows))
		d := t.drawing(rows, s)
		t.setOnce(variables)
		none := AddScalar(d.none, -1)
		state := append(append([]*Node{}, cache...), p.at, p.position, p.more)
		out := d.loop(left, state, func(i *Node, state []*Node, active *Node) (*Node, func(written, token *Node) []*Node) {
			at, position, last := state[k], state[k+1], state[k+2]
			place := Add(p.slot, i)
			at = DynamicUpdateSlice(at, InsertAxes(Where(active, position, none), -1), []*Node{d.zero, place})
			count := ConvertDType(active, dtypes.Int32)
			c := &models.Cache{CachePlace: models.CachePlace{Position: position, Slot: place, At: at}, Count: count, Old: l.among(state)}
			y := t.continued(c, InsertAxes(last, -1))
			return Reshape(y, rows, y.Shape().Size()/rows), func(written, token *Node) []*Node {
				return append(append([]*Node{}, c.New...), at, Add(position, count), Where(written, token, Where(active, none, last)))
			}
		})
		return append(out[:k:k], out[k+4])
	})
}

// content is parameters that say which tokens are in a cache, or will be, and one more [rows].
type content struct{ at, position, more, slot *Node }

func (t *trace) content(rows, slots int, more string) content {
	of := func(name string, dims ...int) *Node {
		return Parameter(t.g, name, shapes.Make(dtypes.Int32, dims...))
	}
	return content{of("at", rows, slots), of("position", rows), of(more, rows), of("slot")}
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

// promptProgram puts tokens into a cache: variables, cache, at with them, position, count [rows],
// slot, ids [rows length] → cache.
func (n *Net) promptProgram(l *cacheLayout, rows, slots, length int) (*hlo.Program, error) {
	return n.trace("prompt", func(t *trace) []*Node {
		variables, cache := t.variables(), t.slots(l.slots)
		p := t.content(rows, slots, "count")
		ids := Parameter(t.g, "ids", shapes.Make(dtypes.Int32, rows, length))
		t.set(variables)
		c := &models.Cache{CachePlace: models.CachePlace{Position: p.position, Slot: p.slot, At: p.at}, Count: p.more, Old: l.among(cache)}
		t.continued(c, ids)
		return c.New
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
		t.setOnce(variables)
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
			var bits *Node
			switch x.DType() {
			case dtypes.Float32:
				bits = Bitcast(x, dtypes.Int32)
			case dtypes.Int8:
				bits = ConvertDType(x, dtypes.Int32)
			}
			if bits != nil {
				bits = Reshape(bits, x.Shape().Size())
				odd := AddScalar(MulScalar(Iota(t.g, shapes.Make(dtypes.Int32, x.Shape().Size()), 0), 2), 1)
				sum = Add(sum, MulScalar(ReduceAllSum(Mul(bits, odd)), float64(2*i+1)))
			}
		}
		return []*Node{sum}
	})
}
