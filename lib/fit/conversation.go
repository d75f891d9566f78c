package fit

import (
	"cmp"
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
// tokens [rows slots], last [rows], weights (which they are), and the arrays of the cache.
//
// While a call runs, the session has the tokens only: commit stores them together before they are
// shown, so that a conversation that is interrupted anywhere is as far as its text was shown. The
// cache gets its names when the call ends; where they are missing, it is computed again.
type conversation struct {
	*writing
	rows     int
	log      [][]int32 // tokens that the net has had, by sequence and slot; -1: none
	last     []int32   // token that it has not had yet; -1: none
	slot     int       // that is used next
	windowed bool      // it is too long for the cache, or the net has none
	keptValues

	kept    *transcript // what is committed; nil: nothing
	found   *transcript // what there was before; nil: nothing
	sent    *transcript // what the session was told last to store, which may have been in vain
	pending [][]int32   // tokens to be read
	unlock  func() error
}

// keptValues is what the net keeps of the tokens that it has had, and the weights of that.
type keptValues struct {
	layout  *cacheLayout
	slots   int
	cache   []*session.Array
	dirty   bool // the cache is ahead of what is committed
	weights []*session.Array
	stamp   *session.Array // their fingerprint
}

// prefix is that of a chat's names.
func (w *writing) prefix() string { return "chat/" + w.net.name + "/" + w.Chat + "/" }

// open finds the chat, or begins a conversation. prompts are what is to be read next.
func (w *writing) open(prompts [][]int32) (*conversation, error) {
	c := &conversation{writing: w, rows: len(prompts), windowed: !w.how.cached}
	if err := c.begin(prompts); err != nil {
		return nil, c.close(err)
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

// close stores what a call leaves that has ended with err, and returns its error.
func (c *conversation) close(err error) error {
	switch {
	case c.Chat == "":
	case errors.Is(err, wire.Lost):
		err = fmt.Errorf("%w; the chat %q %s", err, c.Chat, c.restore())
	case c.cache != nil && !c.dirty && !c.windowed:
		err = cmp.Or(err, c.net.session.Bind(c.names(), c.cache))
	}
	free(c.cache...)
	free(c.weights...)
	if c.stamp != nil {
		c.stamp.Finalize()
	}
	if c.unlock != nil {
		c.unlock()
	}
	return err
}

// restore gives the chat's tokens to the worker that follows one that has ended, unless another
// call has continued the chat since its lock went with the connection. It says what the chat is.
func (c *conversation) restore() (state string) {
	state = "is as it was before"
	if len(c.result.Sequences[0].Tokens) > 0 {
		state = "has the text that was shown: an empty prompt continues it"
	}
	if c.kept == nil && c.sent == nil {
		return state
	}
	switch others, err := c.restored(); {
	case err != nil:
		return fmt.Sprintf("is as in the newest snapshot: %v", err)
	case others:
		return "is what another call has made of it since"
	}
	return state
}

func (c *conversation) restored() (others bool, err error) {
	s, err := c.net.session.Reconnect()
	if err != nil {
		return false, err
	}
	defer s.Close()
	unlock, err := s.Lock(c.ctx, c.prefix(), "restores", creationTime)
	if errors.Is(err, wire.Busy) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	now, err := readTranscript(s, c.prefix())
	if err != nil || now.equal(c.kept) {
		return false, err
	}
	switch { // what was sent may have been stored before its answer was lost: nobody has seen it
	case now.equal(c.sent):
	case !now.begins(c.kept) && !now.begins(c.found): // of a snapshot from before a Restart, or another call's
		if others, err := boundSince(s, c.prefix()+"tokens"); others || err != nil {
			return others, err
		}
	}
	if c.kept == nil {
		_, err := s.Delete(c.prefix() + "*")
		return false, err
	}
	l, err := c.kept.put(s)
	if err != nil {
		return false, err
	}
	return false, s.Replace([]string{c.prefix() + "tokens", c.prefix() + "last"}, l, c.prefix()+"*")
}

// boundSince says whether the worker that s reaches has bound an array, rather than restored it from a
// snapshot of a worker before it.
func boundSince(s *session.Session, array string) (bool, error) {
	arrays, err := s.List(array)
	if err != nil || slices.ContainsFunc(arrays, func(a wire.ArrayInfo) bool { return a.Saved == 0 }) {
		return err == nil, err
	}
	snapshots, err := s.Snapshots()
	return slices.ContainsFunc(arrays, func(a wire.ArrayInfo) bool {
		return slices.ContainsFunc(snapshots, func(i wire.SnapshotInfo) bool { return i.Number == a.Saved && i.Generation == a.Generation })
	}), err
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
	k, err := readTranscript(n.session, prefix)
	if k == nil || err != nil {
		return err
	}
	c.found = k
	if c.kept = k; c.Restart {
		return nil // what there is goes when the first tokens are there
	}
	if k.rows != c.rows {
		return fmt.Errorf("the chat %q has %d texts, and there are %d prompts: want as many, or Restart", c.Chat, k.rows, c.rows)
	}
	for i, t := range k.tokens {
		if int(t) >= c.how.vocab {
			return fmt.Errorf("the chat %q has a token %d, and the net has %d: want Restart, because the net has changed", c.Chat, t, c.how.vocab)
		}
		if t >= 0 {
			c.slot = max(c.slot, i%k.slots+1)
		}
	}
	c.last = slices.Clone(k.last)
	for r := range k.rows {
		c.log = append(c.log, slices.Clone(k.tokens[r*k.slots:][:c.slot]))
	}
	if c.windowed || c.tooLong(0) {
		c.windowed = true
		return nil
	}
	c.slots = k.slots
	if c.layout, err = c.how.layout(n, c.rows, c.slots); err != nil {
		return err
	}
	if known, err := c.sameWeights(); err != nil {
		return err
	} else if known {
		if c.cache, err = n.session.Arrays(c.names()...); err == nil && c.fits() {
			_, err := n.session.Delete(prefix + "cache/*") // until the call ends
			return err
		}
		free(c.cache...)
	}
	return c.again()
}

// sameWeights says whether the session's cache is of the weights that the net has.
func (c *conversation) sameWeights() (bool, error) {
	l, err := c.net.session.Arrays(c.prefix() + "weights")
	if errors.Is(err, wire.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer free(l...)
	then, now := make([]int32, 1), make([]int32, 1)
	err = errors.Join(l[0].Values(then), c.stamp.Values(now))
	return err == nil && then[0] == now[0], err
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
	began := time.Now()
	f := c.net.prepare("generate/"+key, build, donate)
	select {
	case <-f.done:
	default: // a program that is there costs nothing, which chunk wants to know
		defer func() { c.result.Compile += time.Since(began) }()
	}
	return c.net.wait(c.ctx, f, nil)
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

// commit stores what was drawn in the session, under the chat's names.
func (c *conversation) commit() error {
	if c.Chat == "" {
		c.dirty = false
		return nil
	}
	k := &transcript{last: slices.Clone(c.last), rows: c.rows, slots: max(1, c.slot, c.slots)}
	for r := range c.rows {
		k.tokens = append(k.tokens, c.log[r]...)
		k.tokens = append(k.tokens, slices.Repeat([]int32{-1}, k.slots-len(c.log[r]))...)
	}
	l, err := k.put(c.net.session)
	if err != nil {
		return err
	}
	defer free(l...)
	prefix := c.prefix()
	c.sent = k
	err = c.net.session.Replace([]string{prefix + "tokens", prefix + "last", prefix + "weights"}, append(slices.Clip(l), c.stamp), prefix+"*")
	if err == nil { // before, close must not bind the cache: it is ahead of the tokens
		c.kept, c.dirty = k, false
	}
	return err
}
