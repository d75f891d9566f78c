package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gaiden/lib/fit/result"
	"gaiden/lib/lower"
	"gaiden/lib/sampling"
)

// Generate continues a prompt, or several, until its context ends: texts (with Config.Tokenizer)
// or tokens as []int32 or [][]int32.
func (n *Net) Generate(prompt any, s Sampling) (g *result.Generated, err error) {
	// Keys, values and recurrent states are kept, so that a token costs one time step, until a
	// text is longer than the net takes: then the net sees the last tokens.
	ctx := n.Context()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	bad := func(err error) error { return fmt.Errorf("fit: %s: Generate: %w", n.name, err) }
	if err := s.Check(); err != nil {
		return nil, bad(err)
	}
	s.Length = cmp.Or(s.Length, 100)
	if err := n.openUntil(ctx); err != nil {
		return nil, err
	}
	how, err := n.generating()
	if err != nil {
		return nil, err
	}
	texts, prompts, err := n.prompts(prompt, how.vocab)
	if err != nil {
		return nil, bad(err)
	}
	if len(s.Stop) > 0 && n.config.Tokenizer == nil {
		return nil, bad(fmt.Errorf("Stop has texts, and Config.Tokenizer is nil: want a tokenizer, or StopTokens"))
	}
	w := &writing{Sampling: s, net: n, how: how, ctx: ctx, texts: texts, began: time.Now()}
	for r := range prompts {
		w.result.Sequences = append(w.result.Sequences, result.Sequence{Prompt: texts[r]})
	}
	end := w.display()
	defer func() { end(g, err) }()
	c, err := w.open(prompts)
	if err != nil {
		return nil, bad(err)
	}
	err = w.write(c)
	w.result.Elapsed = time.Since(w.began) - w.result.Compile
	if err != nil && isEnd(ctx, err) {
		w.result.Stopped = context.Cause(ctx).Error()
		if n.ctx == nil {
			err = nil // the user's own wish
		}
		return &w.result, err
	}
	if err != nil {
		return nil, bad(err)
	}
	return &w.result, nil
}

// prompts are tokens of what Generate is given.
func (n *Net) prompts(prompt any, vocab int) (texts []string, tokens [][]int32, err error) {
	switch p := prompt.(type) {
	case string:
		texts = []string{p}
	case []string:
		texts = p
	case []int32:
		tokens = [][]int32{p}
	case [][]int32:
		tokens = p
	default:
		return nil, nil, fmt.Errorf("the prompt is a %T: want a string or []string, or tokens as []int32 or [][]int32", prompt)
	}
	if texts != nil && n.config.Tokenizer == nil {
		return nil, nil, fmt.Errorf("the prompt is a text, and Config.Tokenizer is nil: want a tokenizer, such as data.Text's, or tokens as []int32")
	}
	for _, text := range texts {
		l, err := n.config.Tokenizer.Encode(text)
		if err != nil {
			return nil, nil, err
		}
		tokens = append(tokens, l)
	}
	if len(tokens) == 0 {
		return nil, nil, errors.New("there is no prompt: want at least one")
	}
	for r, l := range tokens {
		for i, t := range l {
			if t < 0 || int(t) >= vocab {
				return nil, nil, fmt.Errorf("token %d of prompt %d is %d: want 0 to %d, because the net has %d tokens", i, r+1, t, vocab-1, vocab)
			}
		}
	}
	if texts == nil {
		texts = make([]string, len(tokens))
	}
	return texts, tokens, nil
}

// writing is a call of Generate.
type writing struct {
	sampling.Sampling
	net    *Net
	how    *generator
	ctx    context.Context
	texts  []string
	began  time.Time
	result result.Generated
	show   func(text string) // nil: nothing is displayed
	shown  int               // bytes of the first text that Stream has
}

// display begins to show the first text.
func (w *writing) display() (end func(*result.Generated, error)) {
	if result.DisplayText == nil || w.Quiet || w.Stream != nil {
		return func(*result.Generated, error) {}
	}
	show, end := result.DisplayText()
	w.show = show
	return end
}

// write draws all tokens, in chunks between which the text is shown and Stop is seen.
func (w *writing) write(c *conversation) (err error) {
	defer func() { err = c.close(err) }()
	if err := c.read(); err != nil {
		return err
	}
	w.result.Prompt = time.Since(w.began) - w.result.Compile
	left := make([]int32, c.rows)
	for r := range left {
		left[r] = int32(w.Length)
	}
	for slices.Max(left) > 0 {
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		before, compiled := time.Now(), w.result.Compile
		fresh, count, err := c.draw(left, w.chunk(), w.stops)
		if err != nil {
			return err
		}
		if w.result.Compile == compiled && count > 0 {
			w.net.stepTime[w.key()] = time.Since(before) / time.Duration(count)
		}
		for r, l := range fresh {
			q := &w.result.Sequences[r]
			q.Tokens = append(q.Tokens, l...)
			left[r] -= int32(len(l))
			w.text(q)
			if w.ends(q) {
				left[r] = 0
			}
		}
		w.stream()
	}
	return nil
}

// chunk is how many tokens are drawn until somebody looks: few as long as it is not known how
// long one takes.
func (w *writing) chunk() int {
	token := w.net.stepTime[w.key()]
	switch {
	case w.net.drawn > 0:
		return w.net.drawn
	case token == 0:
		return 8
	}
	turns := w.net.together()
	return max(1, min(columns, int(2*lower.ChunkTime/token))/turns) * turns
}

// key is that of texts whose tokens take as long.
func (w *writing) key() string { return fmt.Sprint("generate/", len(w.result.Sequences)) }

// stops is how many of some tokens of a sequence there are until a stop text ends.
func (w *writing) stops(r int, fresh []int32) int {
	if len(w.Stop) == 0 {
		return len(fresh)
	}
	q := w.result.Sequences[r]
	for i := range fresh {
		q.Tokens = append(q.Tokens[:len(q.Tokens):len(q.Tokens)], fresh[i])
		w.text(&q)
		if stop, _ := w.stopOf(q.Text); stop != "" {
			return i + 1
		}
	}
	return len(fresh)
}

// stopOf is the first stop text in a text, and where it ends.
func (w *writing) stopOf(text string) (stop string, end int) {
	for _, s := range w.Stop {
		if i := strings.Index(text, s); i >= 0 && (stop == "" || i+len(s) < end) {
			stop, end = s, i+len(s)
		}
	}
	return stop, end
}

func (w *writing) text(q *result.Sequence) {
	if t := w.net.config.Tokenizer; t != nil {
		q.Text = t.Decode(q.Tokens)
	}
}

// ends says whether a sequence has come to a stop, and notes at which.
func (w *writing) ends(q *result.Sequence) bool {
	if stop, end := w.stopOf(q.Text); stop != "" {
		q.End, q.Text = stop, q.Text[:end]
		return true
	}
	for _, t := range w.StopTokens {
		if k := len(q.Tokens); k > 0 && q.Tokens[k-1] == t {
			q.End = fmt.Sprint("token ", t)
			if w.net.config.Tokenizer != nil {
				q.End = w.net.config.Tokenizer.Decode([]int32{t})
			}
			return true
		}
	}
	return false
}

// stream passes on what is new of the first text. An unfinished character waits.
func (w *writing) stream() {
	q := w.result.Sequences[0]
	text := q.Text
	if q.End == "" && len(q.Tokens) < w.Length {
		text = strings.TrimRight(text, string(utf8.RuneError))
		for k := 1; k < utf8.UTFMax && k <= len(text); k++ { // its first bytes only
			if tail := text[len(text)-k:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRuneInString(tail) {
					text = text[:len(text)-k]
				}
				break
			}
		}
	}
	if w.show != nil {
		w.show(q.Prompt + text)
	}
	if w.Stream != nil && len(text) > w.shown {
		w.Stream(text[w.shown:])
		w.shown = len(text)
	}
}
