package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// writer is a language model, as generate_torch.py and generate_jax.py read it.
type writer struct {
	Name                                string
	Vocab, Width, Heads, Layers, Length int // Length is of its positions
	Prompt, Tokens, Batch               int
	BF16                                bool // matrices are multiplied in bfloat16; the peers' weights are bfloat16
}

// writers are the nets and texts of bench generate: a small one, and GPT-2 for GPUs.
var writers = []writer{
	{"gpt b1", 256, 128, 4, 4, 512, 64, 128, 1, false},
	{"gpt b32", 256, 128, 4, 4, 512, 64, 128, 32, false},
	{"gpt prompt", 256, 128, 4, 4, 512, 500, 1, 1, false},
	{"gpt2 b1", 50304, 768, 12, 12, 1024, 64, 256, 1, true},
	{"gpt2 b32", 50304, 768, 12, 12, 1024, 64, 256, 32, true},
	{"gpt2 prompt", 50304, 768, 12, 12, 1024, 1000, 1, 1, true},
}

// benchGenerate measures greedy texts: prompt and tokens, µs for a token of each text.
func benchGenerate(b *bench) error {
	return inPrivateEach(b, writers, func(w writer) string { return w.Name }, func(s *session.Session, w writer) error {
		if w.Width > 128 && s.Welcome().Platform == "cpu" {
			return nil
		}
		return b.generate(s, w)
	})
}

func (w writer) net() models.Net {
	return models.Net{Name: w.Name, Input: []int{w.Length}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: w.Vocab, Units: w.Width},
		models.Positions{Name: "positions", Length: w.Length},
		models.Repeat{Name: "block", Times: w.Layers, Layer: models.TransformerBlock{Heads: w.Heads, Causal: true}},
		models.LayerNorm{Name: "norm"},
		models.Dense{Name: "head", Units: w.Vocab, NoBias: true},
	}}
}

func (b *bench) generate(s *session.Session, w writer) error {
	net := fit.New("bench", w.net(), fit.Config{Session: s, Seed: 1, BF16: w.BF16})
	prompts := make([][]int32, w.Batch)
	for r := range prompts {
		for i := range w.Prompt {
			prompts[r] = append(prompts[r], int32((7*i+r)%w.Vocab))
		}
	}
	generate := func() error {
		g, err := net.Generate(prompts, fit.Sampling{Length: w.Tokens, Quiet: true})
		if err == nil && g.Count() != w.Batch*w.Tokens {
			err = fmt.Errorf("got %d tokens, want %d", g.Count(), w.Batch*w.Tokens)
		}
		return err
	}
	timed := func(name string, f func() error) *subject {
		return &subject{name: name, measure: func() (float64, error) {
			began, turns := time.Now(), 0
			for ; time.Since(began) < 400*time.Millisecond; turns++ {
				if err := f(); err != nil {
					return 0, err
				}
			}
			return time.Since(began).Seconds() / float64(turns*w.Tokens) * 1e6, nil
		}}
	}
	subjects := []*subject{timed("gaiden generate", generate)}
	if w.Tokens == 1 { // next to what a forward pass of as many tokens takes
		short := w
		short.Length = w.Prompt
		forward := fit.New("forward", short.net(), fit.Config{Session: s, Seed: 1, BF16: w.BF16})
		subjects = append(subjects, timed("gaiden forward pass", func() error {
			_, err := forward.Predict(prompts)
			return err
		}))
	}
	for _, x := range subjects {
		if _, err := x.measure(); err != nil { // programs
			return err
		}
	}
	if err := b.keepGenerating(s, w, generate); err != nil {
		return err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	for _, name := range b.peers() {
		script := "generate_" + name + ".py"
		code, err := peers.ReadFile("peers/" + script)
		if err != nil {
			return err
		}
		p, l, err := b.prepare(script, code, string(text))
		if p != nil {
			defer p.end(peerGrace)
		}
		if err != nil {
			return err
		}
		subjects = append(subjects, l...)
	}
	return errors.Join(b.rounds(w.Name, subjects, func() error { return nil }), net.Reset())
}

// keepGenerating adds the kernels of one generation to a text next to the file of the records.
func (b *bench) keepGenerating(s *session.Session, w writer, generate func() error) error {
	recorded, err := profile.Record(s, generate)
	if errors.Is(err, profile.ErrNoProfiler) || err == nil && (len(recorded.Kernels) == 0 || b.out == "") {
		return nil
	}
	if err != nil {
		return err
	}
	return b.keepKernels(w.Name, recorded.Kernels, w.Tokens)
}
