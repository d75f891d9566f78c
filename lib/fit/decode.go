package fit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// prompt lengths that have a program; a longer one is read piece by piece.
const leastPrompt, mostPrompt = 16, 512

// read reads what is pending, but for the last token of each sequence.
func (c *conversation) read() error {
	most := 0
	for r, p := range c.pending {
		c.last[r] = p[len(p)-1]
		c.pending[r] = p[:len(p)-1]
		most = max(most, len(c.pending[r]))
		if len(c.tokens(r))+len(p) > c.how.length && c.how.length > 0 {
			c.windowed = true
		}
	}
	for done := 0; done < most; {
		width := min(most-done, mostPrompt)
		length := leastPrompt
		for length < width {
			length *= 2
		}
		ids, count := make([]int32, c.rows*length), make([]int32, c.rows)
		position := c.positions()
		for r, p := range c.pending {
			part := p[min(done, len(p)):min(done+width, len(p))]
			count[r] = int32(copy(ids[r*length:], part))
			c.log[r] = append(c.log[r], part...)
			c.log[r] = append(c.log[r], slices.Repeat([]int32{-1}, width-len(part))...)
		}
		at := c.slot
		c.slot += width
		done += width
		if c.windowed {
			continue
		}
		if err := c.room(max(at+length, c.slot+most-done+c.ahead(int32(c.Length))+c.net.together()-1)); err != nil {
			return err
		}
		p, err := c.program(fmt.Sprintf("prompt/%d/%d/%d", c.rows, c.slots, length), func() (*hlo.Program, error) {
			return c.net.promptProgram(c.layout, c.rows, c.slots, length)
		}, true)
		if err != nil {
			return err
		}
		in, err := c.inputs(at, position, count)
		if err != nil {
			return err
		}
		more, err := c.put(length, ids)
		if err != nil {
			return err
		}
		old := c.cache
		if _, err := c.run(p, append(in, more...)); err != nil {
			return err
		}
		free(old...)
		if err := during(c.ctx, nil, c.net.session.Wait); err != nil { // of long prompts, each piece can be stopped
			return err
		}
	}
	c.pending = nil
	return nil
}

// room makes the cache have so many slots at least.
func (c *conversation) room(want int) error {
	slots := leastPrompt
	for slots < want {
		if half := slots + slots/2; slots >= 64 && half >= want {
			slots = half
			break
		}
		slots *= 2
	}
	if c.cache != nil && c.slots >= want {
		return nil
	}
	layout, err := c.how.layout(c.net, c.rows, slots)
	if err != nil {
		return err
	}
	if c.cache == nil {
		c.cache, err = c.empty(layout, slots)
		c.dirty = true
	} else {
		var p *session.Program
		p, err = c.program(fmt.Sprintf("grow/%d/%d/%d", c.rows, c.slots, slots), func() (*hlo.Program, error) {
			return c.net.growProgram(c.layout, slots-c.slots)
		}, false)
		if err == nil {
			var out []*session.Array
			if out, err = p.Run(session.Call{Inputs: c.cache}); err == nil {
				free(c.cache...)
				c.cache = out
			}
		}
	}
	c.layout, c.slots = layout, slots
	return err
}

// empty is the arrays of a cache that holds nothing.
func (c *conversation) empty(l *cacheLayout, slots int) ([]*session.Array, error) {
	p, err := c.program(fmt.Sprintf("empty/%d/%d", c.rows, slots), func() (*hlo.Program, error) {
		return c.net.trace("empty", func(t *trace) []*Node { return t.zeros(shapesOf(l.slots)) })
	}, false)
	if err != nil {
		return nil, err
	}
	return p.Run(session.Call{})
}

// put uploads [rows width], and vectors.
func (c *conversation) put(width int, matrix []int32, vectors ...[]int32) (all []*session.Array, err error) {
	a, err := c.net.session.Put(matrix, shapes.Make(dtypes.Int32, c.rows, width), 0)
	if err != nil {
		return nil, err
	}
	all = append(all, a)
	for _, v := range vectors {
		a, err := c.net.session.Put(v, shapes.Make(dtypes.Int32, len(v)), 0)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// inputs are what trace.content takes: which tokens the log has, and what comes at a slot on.
func (c *conversation) inputs(slot int, position, more []int32) ([]*session.Array, error) {
	at := slices.Repeat([]int32{-1}, c.rows*c.slots)
	for r := range c.rows {
		k := int32(0)
		for i, t := range c.log[r] {
			if t >= 0 {
				at[r*c.slots+i] = k
				k++
			}
		}
	}
	all, err := c.put(c.slots, at, position, more)
	if err != nil {
		return nil, err
	}
	number, err := c.net.integers(0, slot)
	return append(all, number...), err
}

// run runs a program on the cache, which is then as the program leaves it, and returns what
// else it does.
func (c *conversation) run(p *session.Program, in []*session.Array) ([]*session.Array, error) {
	out, err := p.Run(session.Call{Inputs: slices.Concat(c.weights, c.cache, in)})
	free(in...)
	if err != nil {
		return nil, err
	}
	k := len(c.cache)
	c.cache, c.dirty = out[:k:k], true
	return out[k:], nil
}

// ahead is how many of so many time steps the net takes, for the longest sequence.
func (c *conversation) ahead(steps int32) int {
	if c.how.length > 0 {
		return max(0, min(int(steps), c.how.length-c.longest()))
	}
	return int(steps)
}

// draw draws at most count tokens for each sequence that has some left. stops says how many of
// them there are until a stop text: a chat is left with no more. steps is how many were drawn
// for the longest one.
func (c *conversation) draw(left []int32, count int, stops func(r int, fresh []int32) int) (fresh [][]int32, steps int, err error) {
	most := slices.Max(left)
	if !c.windowed && c.ahead(most) == 0 {
		c.windowed = true
	}
	step := c.window
	if !c.windowed {
		count = min(count, c.ahead(most))
		if err := c.room(c.slot + c.ahead(most) + c.net.together() - 1); err != nil {
			return nil, 0, err
		}
		step = c.decode
	}
	before := c.cache
	if fresh, err = step(left, count); err != nil {
		return nil, 0, err
	}
	early, again := slices.Clone(left), false
	for r, l := range fresh {
		if k := stops(r, l); k < len(l) {
			fresh[r], early[r], again = l[:k], int32(k), true
		}
	}
	if again && !c.windowed && c.Chat != "" && slices.Contains(c.layout.grows, false) { // states as they were; the slots that the cache had then are as they were
		for i := range c.cache {
			if !c.layout.grows[i] {
				c.cache[i], before[i] = before[i], c.cache[i]
			}
		}
		free(before...)
		before = c.cache
		if fresh, err = step(early, count); err != nil {
			return nil, 0, err
		}
	}
	if c.windowed {
		c.cache = nil // it lacks tokens
	}
	free(before...)
	steps = c.note(fresh)
	return fresh, steps, c.commit()
}

// note notes what was drawn, and in which slots the tokens before it are.
func (c *conversation) note(fresh [][]int32) (steps int) {
	for _, l := range fresh {
		steps = max(steps, len(l))
	}
	for r, l := range fresh {
		for i := range steps {
			had := int32(-1)
			if i < len(l) {
				had, c.last[r] = c.last[r], l[i]
			}
			c.log[r] = append(c.log[r], had)
		}
	}
	c.slot += steps
	return steps
}

// decode draws with the cache.
func (c *conversation) decode(left []int32, count int) ([][]int32, error) {
	p, err := c.program(fmt.Sprintf("decode/%d/%d/%s", c.rows, c.slots, drawingKey(c.Sampling)), func() (*hlo.Program, error) {
		return c.net.decodeProgram(c.layout, c.rows, c.slots, c.Sampling)
	}, true)
	if err != nil {
		return nil, err
	}
	in, err := c.inputs(c.slot, c.positions(), c.last)
	if err != nil {
		return nil, err
	}
	more, err := c.numbers(left, count)
	if err != nil {
		return nil, err
	}
	out, err := c.run(p, append(in, more...))
	if err != nil {
		return nil, err
	}
	return c.drawn(out)
}

// window draws without a cache: of each sequence the net sees the last tokens.
func (c *conversation) window(left []int32, count int) ([][]int32, error) {
	length := c.how.length
	p, err := c.program(fmt.Sprintf("window/%d/%s", c.rows, drawingKey(c.Sampling)), func() (*hlo.Program, error) {
		return c.net.windowProgram(c.rows, length, c.how.single, c.Sampling)
	}, false)
	if err != nil {
		return nil, err
	}
	windows, size := make([]int32, c.rows*length), make([]int32, c.rows)
	for r := range c.rows {
		all := append(c.tokens(r), c.last[r])
		if err := c.fitsWindow(r, len(all)); err != nil {
			return nil, err
		}
		size[r] = int32(copy(windows[r*length:], all[max(0, len(all)-length):]))
	}
	in, err := c.put(length, windows, size)
	if err != nil {
		return nil, err
	}
	more, err := c.numbers(left, count)
	if err != nil {
		return nil, err
	}
	in = append(in, more...)
	defer free(in...)
	out, err := p.Run(session.Call{Inputs: slices.Concat(c.weights, in)})
	if err != nil {
		return nil, err
	}
	return c.drawn(out)
}

// numbers are what a drawing takes: see trace.drawing.
func (c *conversation) numbers(left []int32, count int) (all []*session.Array, err error) {
	values := []any{left, []int32{int32(count)}}
	if c.Temperature > 0 {
		// A SplitMix64 step, so that seeds that differ little give other numbers.
		key := uint64(c.Seed) + 0x9e3779b97f4a7c15
		key = (key ^ key>>30) * 0xbf58476d1ce4e5b9
		key = (key ^ key>>27) * 0x94d049bb133111eb
		values = append(values, []uint64{uint64(c.slot)}, []uint64{key ^ key>>31}, []float32{float32(c.Temperature)})
		if c.TopK > 0 {
			values = append(values, []int32{int32(c.TopK)})
		}
		if c.TopP > 0 {
			values = append(values, []float32{float32(c.TopP)})
		}
	}
	for i, v := range values {
		shape := shapes.Make(dtypes.Int32)
		switch v.(type) {
		case []uint64:
			shape.DType = dtypes.Uint64
		case []float32:
			shape.DType = dtypes.Float32
		}
		if i == 0 {
			shape.Dimensions = []int{c.rows}
		}
		a, err := c.net.session.Put(v, shape, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// grace is how long Stop waits for tokens that are being drawn.
var grace = 700 * time.Millisecond

// drawn are the tokens that a program's last result has for each sequence.
func (c *conversation) drawn(out []*session.Array) ([][]int32, error) {
	defer free(out...)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.ctx))
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(c.ctx)) })
	})()
	flat := make([]int32, c.rows*columns)
	if err := during(ctx, nil, func() error { return out[len(out)-1].Values(flat) }); err != nil {
		return nil, err
	}
	fresh := make([][]int32, c.rows)
	for r := range fresh {
		for _, t := range flat[r*columns : (r+1)*columns] {
			if t == notFinite {
				return nil, fmt.Errorf("the logits of token %d of text %d are not finite: want weights that are, or a net in float32", len(c.result.Sequences[r].Tokens)+len(fresh[r])+1, r+1)
			}
			if t < 0 {
				break
			}
			fresh[r] = append(fresh[r], t)
		}
	}
	return fresh, nil
}
