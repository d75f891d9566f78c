package fit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// conversation is texts and what the net keeps of them. The session has it under chat's name:
// tokens [rows slots], last [rows], weights, and the arrays of the cache.
type conversation struct {
	*writing
	rows     int
	log      [][]int32 // tokens that the net has had, by sequence and slot; -1: none
	last     []int32   // token that it has not had yet; -1: none
	slot     int       // that is used next
	slots    int
	windowed bool // it is too long for the cache, or the net has none

	layout  *cacheLayout
	cache   []*session.Array
	weights []*session.Array
	stamp   *session.Array // fingerprint of the weights
	named   bool           // the cache's arrays have the chat's names
	pending [][]int32      // tokens to be read
	unlock  func() error
}

// prefix is that of a chat's names.
func (w *writing) prefix() string { return "chat/" + w.net.name + "/" + w.Chat + "/" }

// open finds the chat, or begins a conversation. prompts are what is to be read next.
func (w *writing) open(prompts [][]int32) (*conversation, error) {
	c := &conversation{writing: w, rows: len(prompts), windowed: !w.how.cached}
	if err := c.begin(prompts); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conversation) begin(prompts [][]int32) (err error) {
	if c.weights, err = c.net.used(); err != nil {
		return err
	}
	if c.Chat != "" {
		if err := c.find(); err != nil {
			return err
		}
	}
	if c.log == nil {
		c.log, c.last = make([][]int32, c.rows), slices.Repeat([]int32{-1}, c.rows)
	}
	for r, p := range prompts {
		if c.last[r] >= 0 {
			p = append([]int32{c.last[r]}, p...)
		}
		if len(p) == 0 {
			return fmt.Errorf("prompt %d has no tokens: want at least one, such as the token that begins a text", r+1)
		}
		if all := len(c.tokens(r)) + len(p); c.windowed {
			if err := c.fitsWindow(r, all); err != nil {
				return err
			}
		}
		c.pending = append(c.pending, p)
	}
	return nil
}

// fitsWindow is an error where a text of so many tokens is too short for a window.
func (c *conversation) fitsWindow(r, tokens int) error {
	if c.how.padded || tokens >= c.how.length {
		return nil
	}
	why := "it returns logits of the last token only"
	if c.how.why != "" {
		why = c.how.why
	}
	return fmt.Errorf("prompt %d has %d tokens, and %s takes %d, no less: %s: want a longer prompt", r+1, tokens, c.net.model.Name, c.how.length, why)
}

func (c *conversation) close() {
	free(c.cache...)
	free(c.weights...)
	if c.stamp != nil {
		c.stamp.Finalize()
	}
	if c.unlock != nil {
		c.unlock()
	}
}

// find takes up what the session has of a chat. What the net keeps of it is computed again where it is
// not there, or of other weights.
func (c *conversation) find() error {
	n, prefix := c.net, c.prefix()
	if strings.ContainsAny(c.Chat, "/* ") {
		return fmt.Errorf("Chat is %q: want a word without spaces, / or *", c.Chat)
	}
	var err error
	if c.unlock, err = n.session.Lock(c.ctx, prefix, "generates in", creationTime); err != nil {
		return err
	}
	if c.stamp, err = c.fingerprint(); err != nil {
		return err
	}
	if c.Restart {
		_, err := n.session.Delete(prefix + "*")
		return err
	}
	arrays, err := n.session.Arrays(prefix+"tokens", prefix+"last", prefix+"weights")
	if errors.Is(err, wire.NotFound) {
		return n.session.Bind([]string{prefix + "weights"}, []*session.Array{c.stamp})
	}
	if err != nil {
		return err
	}
	defer free(arrays...)
	shape, _ := arrays[0].Shape()
	rows, slots := shape.Dimensions[0], shape.Dimensions[1]
	if rows != c.rows {
		return fmt.Errorf("the chat %q has %d texts, and there are %d prompts: want as many, or Restart", c.Chat, rows, c.rows)
	}
	flat, then, now := make([]int32, rows*slots), make([]int32, 1), make([]int32, 1)
	c.last = make([]int32, rows)
	for i, to := range [][]int32{flat, c.last, then} {
		if err := arrays[i].Values(to); err != nil {
			return err
		}
	}
	if err := c.stamp.Values(now); err != nil {
		return err
	}
	for r := range rows {
		c.log = append(c.log, slices.Clone(flat[r*slots:(r+1)*slots]))
		for i, t := range c.log[r] {
			if int(t) >= c.how.vocab {
				return fmt.Errorf("the chat %q has a token %d, and the net has %d: want Restart, for the net has changed", c.Chat, t, c.how.vocab)
			}
			if t >= 0 {
				c.slot = max(c.slot, i+1)
			}
		}
	}
	for r := range rows {
		c.log[r] = c.log[r][:c.slot]
	}
	if c.windowed || c.tooLong(0) {
		c.windowed = true
		return nil
	}
	c.slots = slots
	if c.layout, err = n.cacheLayout(rows, slots); err != nil {
		return err
	}
	if then[0] == now[0] {
		if c.cache, err = n.session.Arrays(c.names()...); err == nil && c.fits() {
			c.named = true
			return nil
		}
		free(c.cache...)
	}
	return c.again()
}

// fits says whether the arrays are those of the net's cache.
func (c *conversation) fits() bool {
	for i, a := range c.cache {
		if shape, _ := a.Shape(); !shape.Equal(c.layout.slots[i].shape) {
			return false
		}
	}
	return true
}

// again computes again what the net keeps of all tokens.
func (c *conversation) again() error {
	if err := c.net.session.Replace([]string{c.prefix() + "weights"}, []*session.Array{c.stamp}, c.prefix()+"cache/*"); err != nil {
		return err
	}
	for r := range c.rows {
		all := c.tokens(r)
		if c.last[r] >= 0 {
			all = append(all, c.last[r])
		}
		c.pending = append(c.pending, all)
	}
	c.cache, c.slots, c.slot = nil, 0, 0
	c.log, c.last = make([][]int32, c.rows), slices.Repeat([]int32{-1}, c.rows)
	return c.read()
}

// names are those of the cache's arrays in the session.
func (c *conversation) names() (l []string) {
	for _, s := range c.layout.slots {
		l = append(l, c.prefix()+"cache/"+s.name)
	}
	return l
}

// fingerprint is that of the weights.
func (c *conversation) fingerprint() (*session.Array, error) {
	p, err := c.program("fingerprint", c.net.fingerprintProgram, false)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(session.Call{Inputs: c.weights})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// program waits for a program. One that donates takes the memory of what has slots.
func (c *conversation) program(key string, build func() (*hlo.Program, error), donates bool) (*session.Program, error) {
	began := time.Now()
	defer func() { c.result.Compile += time.Since(began) }()
	var donate func(*hlo.Program) []bool
	if donates {
		donate = func(p *hlo.Program) []bool {
			mask := make([]bool, len(p.Inputs))
			for i, grows := range c.layout.grows {
				mask[len(c.weights)+i] = grows
			}
			return mask
		}
	}
	return c.net.wait(c.ctx, c.net.prepare("generate/"+key, build, donate), nil)
}

// tokens are those of a sequence that the net has had.
func (c *conversation) tokens(r int) (l []int32) {
	for _, t := range c.log[r] {
		if t >= 0 {
			l = append(l, t)
		}
	}
	return l
}

// longest is how many time steps the longest sequence has.
func (c *conversation) longest() (most int) {
	for r := range c.rows {
		most = max(most, len(c.tokens(r)))
	}
	return most
}

// tooLong says whether so many more time steps are more than the net takes.
func (c *conversation) tooLong(more int) bool {
	return c.how.length > 0 && c.longest()+more > c.how.length
}

// positions are the time steps that sequences have had.
func (c *conversation) positions() []int32 {
	l := make([]int32, c.rows)
	for r := range l {
		l[r] = int32(len(c.tokens(r)))
	}
	return l
}

// save gives the chat's names to its tokens, where there is no cache.
func (c *conversation) save() error {
	if c.Chat == "" {
		return nil
	}
	slots := max(1, c.slot)
	tokens := make([]int32, 0, c.rows*slots)
	for r := range c.rows {
		tokens = append(tokens, c.log[r]...)
		tokens = append(tokens, slices.Repeat([]int32{-1}, slots-len(c.log[r]))...)
	}
	l, err := c.put(slots, tokens, c.last)
	if err != nil {
		return err
	}
	defer free(l...)
	return c.net.session.Replace([]string{c.prefix() + "tokens", c.prefix() + "last"}, l, c.prefix()+"cache/*")
}
