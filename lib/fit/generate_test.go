package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/session"
)

// talker is a net with random weights that are large enough for texts that do not repeat.
func talker(t *testing.T, name string, m models.Net, c Config) *Net {
	t.Helper()
	if c.Session == nil {
		c.Session = open(t)
	}
	n := attach(t, c.Session, name, m, c)
	w, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, uint64(len(name))))
	for _, x := range w {
		for i := range x.Data {
			if len(x.Dims) > 1 {
				x.Data[i] = float32(random.NormFloat64() * 0.5)
			} else {
				x.Data[i] += float32(random.NormFloat64() * 0.2)
			}
		}
	}
	if err := n.SetWeights(w); err != nil {
		t.Fatal(err)
	}
	return n
}

// greedy is what a net generates by Predict of all tokens so far, or as many as it takes.
func greedy(t *testing.T, n *Net, prompt []int32, count int) (fresh []int32) {
	t.Helper()
	length, vocab := n.model.Input[0], n.output[len(n.output)-1]
	all := slices.Clone(prompt)
	for range count {
		seen := all[max(0, len(all)-length):]
		x := append(slices.Clone(seen), make([]int32, length-len(seen))...)
		p, err := n.WithContext(context.Background()).Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		row := p.Output
		if len(n.output) == 2 {
			row = row[(len(seen)-1)*vocab : len(seen)*vocab]
		}
		best := 0
		for k, v := range row {
			if v > row[best] {
				best = k
			}
		}
		all = append(all, int32(best))
	}
	return all[len(prompt):]
}

// languages are nets of each kind of layer for sequences of 24 tokens.
func languages(vocab int) map[string]models.Net {
	const length, units = 24, 12
	net := func(layers ...models.Layer) models.Net {
		layers = append([]models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: units}}, layers...)
		return models.Net{Name: "lm", Input: []int{length}, Layers: append(layers, models.Dense{Name: "head", Units: vocab})}
	}
	block := func(b models.TransformerBlock) models.Layer {
		return models.Repeat{Name: "block", Times: 2, Layer: b}
	}
	// A block of your own, whose layers are those of package models.
	own := models.Net{Name: "own", Input: []int{length}, Integers: true, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Embedding{Name: "tokens", Vocab: vocab, Units: units}, in["x"])
		shared := models.Attention{Name: "attention", Heads: 3, Causal: true, RoPE: 100}
		x = Add(x, models.Call(scope, shared, x))
		x = Add(x, models.Call(scope, shared, models.Call(scope, models.LayerNorm{Name: "norm"}, x)))
		return models.Call(scope, models.Dense{Name: "head", Units: vocab}, x)
	}}
	// A block of your own in GoMLX, which knows nothing of caches.
	plain := models.Net{Name: "plain", Input: []int{length}, Integers: true, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Embedding{Name: "tokens", Vocab: vocab, Units: units}, in["x"])
		d := x.Shape().Dimensions
		before := Concatenate([]*Node{ZerosLike(Slice(x, AxisRange(), AxisRange(0, 1))), Slice(x, AxisRange(), AxisRange(0, d[1]-1))}, 1)
		return models.Call(scope, models.Dense{Name: "head", Units: vocab}, Tanh(Add(x, MulScalar(before, 2))))
	}}
	return map[string]models.Net{
		"gpt":       net(models.Positions{Name: "positions", Length: length}, block(models.TransformerBlock{Heads: 2, Causal: true}), models.LayerNorm{Name: "norm"}),
		"llama":     net(block(models.TransformerBlock{Heads: 6, KVHeads: 3, Causal: true, RoPE: 10000, Gated: true, RMSNorm: true, NoBias: true, Act: models.SiLU})),
		"alibi":     net(block(models.TransformerBlock{Heads: 3, Causal: true, ALiBi: true})),
		"window":    net(block(models.TransformerBlock{Heads: 2, Causal: true, Window: 3, RoPE: 50})),
		"lstm":      net(models.LSTM{Name: "lstm", Units: 9}),
		"gru":       net(models.GRU{Name: "gru", Units: 9}, models.RNN{Name: "rnn", Units: 7}),
		"last":      net(models.Residual{Name: "more", Main: []models.Layer{models.GRU{Name: "gru", Units: units}}}, models.LastStep{}),
		"wave":      net(models.Conv1D{Name: "c1", Channels: 8, Kernel: 2, Causal: true, Act: models.ReLU}, models.Conv1D{Name: "c2", Channels: 8, Kernel: 3, Dilation: 2, Causal: true}),
		"own":       own,
		"plain":     plain,
		"flat":      {Name: "flat", Input: []int{5}, Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: 6}, models.Flatten{}, models.Dense{Name: "head", Units: vocab}}},
		"both ways": {Name: "both", Input: []int{5}, Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: 6}, models.Bidirectional{Name: "both", Layer: models.GRU{Units: 5}}, models.LastStep{}, models.Dense{Name: "head", Units: vocab}}},
		"averages": net(models.Scan{Name: "average", State: [][]int{{units}, {units, 1}}, Cell: func(_ *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			mean := Add(MulScalar(state[0], 0.7), x)
			sum := Add(state[1], InsertAxes(MulScalar(mean, 0.1), -1))
			return []*Node{mean, sum}, Add(mean, Reshape(sum, x.Shape().Dimensions...))
		}}),
	}
}

// TestGenerateGreedy holds that greedy tokens are those that a full forward pass gives for all
// tokens so far: for each kind of layer, prompts of different lengths, and past the length
// that the net takes.
func TestGenerateGreedy(t *testing.T) {
	t.Parallel()
	const vocab = 11
	s := open(t)
	for name, m := range languages(vocab) {
		t.Run(name, func(t *testing.T) {
			n := talker(t, strings.ReplaceAll(name, " ", ""), m, Config{Session: s, FirstLook: true})
			count := m.Input[0] - 7
			prompts := [][]int32{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 3, 1}}
			switch name {
			case "flat", "both ways":
				count = 9
			case "gpt", "plain":
				count += 9
			}
			if len(n.output) == 2 { // else Predict takes whole sequences only
				prompts = append(prompts, []int32{4})
			}
			if name == "last" {
				prompts, count = [][]int32{slices.Repeat([]int32{1, 5, 2}, m.Input[0]/3)}, 1
			}
			g, err := n.WithContext(context.Background()).Generate(prompts, Sampling{Length: count})
			if err != nil {
				t.Fatal(err)
			}
			for r, p := range prompts {
				if want := greedy(t, n, p, count); !slices.Equal(g.Sequences[r].Tokens, want) {
					t.Errorf("prompt %v: got  %v\nwant %v", p, g.Sequences[r].Tokens, want)
				}
			}
			if want := name != "plain" && name != "flat" && name != "both ways"; n.generator.cached != want {
				t.Errorf("it has a cache: %t, want %t; %s", !want, want, n.generator.why)
			}
		})
	}
}

// TestGenerateBF16 holds that a net in bfloat16 generates with a cache what it does by
// windows, as long as rounding does not decide.
func TestGenerateBF16(t *testing.T) {
	t.Parallel()
	n := talker(t, "bf16", languages(11)["llama"], Config{BF16: true, FirstLook: true}).WithContext(context.Background())
	prompt := []int32{1, 2, 3}
	g, err := n.Generate(prompt, Sampling{Length: 12})
	if err != nil {
		t.Fatal(err)
	}
	if want := greedy(t, n, prompt, 12); !slices.Equal(g.Sequences[0].Tokens, want) {
		t.Errorf("got %v, want %v", g.Sequences[0].Tokens, want)
	}
}

// TestGenerateRefuses holds that what cannot be generated is refused with what it wants.
func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	const vocab = 11
	list := func(input []int, layers ...models.Layer) models.Net {
		return models.Net{Name: "net", Input: input, Layers: layers}
	}
	tokens, head := models.Embedding{Name: "tokens", Vocab: vocab, Units: 4}, models.Dense{Name: "head", Units: vocab}
	lm := list([]int{8}, tokens, models.GRU{Name: "gru", Units: 4}, head)
	text := Config{Tokenizer: letters}
	for name, tt := range map[string]struct {
		net    models.Net
		config Config
		prompt any
		s      Sampling
		want   string
	}{
		"numbers":          {list([]int{8}, head), Config{}, []int32{1}, Sampling{}, "want ids of tokens"},
		"images":           {list([]int{2, 3}, tokens, head), Config{}, []int32{1}, Sampling{}, "want sequences of ids"},
		"other logits":     {list([]int{8}, tokens, models.Dense{Name: "head", Units: 3}), Config{}, []int32{1}, Sampling{}, "returns 3 numbers for a token, and takes 11"},
		"sees the future":  {list([]int{8}, tokens, models.Attention{Name: "attention", Heads: 1}, head), Config{}, []int32{1}, Sampling{}, "want a causal net"},
		"no text":          {lm, text, "", Sampling{}, "prompt 1 has no tokens"},
		"no prompts":       {lm, text, []string{}, Sampling{}, "want at least one"},
		"an empty one":     {lm, Config{}, [][]int32{{1}, {}}, Sampling{}, "prompt 2 has no tokens"},
		"unknown token":    {lm, Config{}, []int32{1, 11}, Sampling{}, "token 1 of prompt 1 is 11: want 0 to 10"},
		"negative token":   {lm, Config{}, []int32{-1}, Sampling{}, "is -1: want 0 to 10"},
		"a token beyond":   {lm, text, "l", Sampling{}, "is 11: want 0 to 10"},
		"a strange letter": {lm, text, "z", Sampling{}, "the vocabulary has no 'z'"},
		"no tokenizer":     {lm, Config{}, "a", Sampling{}, "Config.Tokenizer is nil"},
		"stop of no text":  {lm, Config{}, []int32{1}, Sampling{Stop: []string{"a"}}, "or StopTokens"},
		"a prompt of ints": {lm, Config{}, []int{1}, Sampling{}, "the prompt is a []int"},
		"a bad setting":    {lm, Config{}, []int32{1}, Sampling{Temperature: -1}, "Temperature is -1"},
		"a bad chat":       {lm, Config{}, []int32{1}, Sampling{Chat: "a/b"}, "want a word"},
		"too short":        {list([]int{4}, tokens, models.Flatten{}, head), Config{}, []int32{1, 2}, Sampling{}, "prompt 1 has 2 tokens, and net takes 4"},
	} {
		tt.config.FirstLook = true
		n := attach(t, s, "refuses", tt.net, tt.config).WithContext(ctx)
		g, err := n.Generate(tt.prompt, tt.s)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, %v; want %q", name, g, err, tt.want)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGenerateNotFinite holds that logits that are no numbers are an error that says of which token.
func TestGenerateNotFinite(t *testing.T) {
	t.Parallel()
	n := talker(t, "nan", languages(11)["gru"], Config{FirstLook: true}).WithContext(context.Background())
	w, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	last := w[len(w)-1]
	last.Data[0] = float32(math.NaN()) // which SetWeights refuses
	x, err := n.session.Put(last.Data, shapes.Make(dtypes.Float32, last.Dims...), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.session.Bind([]string{n.name + "/" + last.Name}, []*session.Array{x}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Generate([]int32{1}, Sampling{}); err == nil || !strings.Contains(err.Error(), "the logits of token 1 of text 1 are not finite") {
		t.Errorf("got %v", err)
	}
}

// TestGenerateStop holds that Stop ends a text within a second, with what there is, and that
// a chat goes on behind it.
func TestGenerateStop(t *testing.T) {
	t.Parallel()
	n := talker(t, "stopped", tell("mixed"), Config{Tokenizer: letters, FirstLook: true})
	whole, err := n.WithContext(context.Background()).Generate("abc", Sampling{Length: 200})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.drawn = 3
	var stopped time.Time
	pieces := 0
	g, err := n.WithContext(ctx).Generate("abc", Sampling{Length: 200, Chat: "stopped", Stream: func(string) {
		if pieces++; pieces == 4 {
			stopped = time.Now()
			cancel()
		}
	}})
	took, most := time.Since(stopped), time.Minute // elsewhere the machine may stall; without a stop it takes as long as the text
	if os.Getenv("GAIDEN_TIMING") != "" {
		most = time.Second
	}
	if g == nil || !errors.Is(err, context.Canceled) || took > most || len(g.Text()) < 12 || len(g.Text()) > 15 || g.Stopped == "" {
		t.Fatalf("got %v, %v after %v: want 12 letters and that it was stopped", g, err, took)
	}
	rest, err := n.WithContext(context.Background()).Generate("", Sampling{Length: 200 - len(g.Text()), Chat: "stopped"})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Text() + rest.Text(); got != whole.Text() {
		t.Errorf("got  %q\nwant %q", got, whole.Text())
	}
}

// TestGenerateWithoutAttention holds that a net with nothing to keep of earlier tokens writes: the
// next token depends on the last one only.
func TestGenerateWithoutAttention(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "bigram", models.Net{Input: []int{4}, Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: 5, Units: 3}, models.Dense{Name: "head", Units: 5}}}, Config{Seed: 1})
	long, err := n.Generate([]int32{1, 2, 3}, Sampling{Length: 6})
	if err != nil {
		t.Fatal(err)
	}
	short, err := n.Generate([]int32{3}, Sampling{Length: 6})
	if err != nil || !slices.Equal(long.Sequences[0].Tokens, short.Sequences[0].Tokens) {
		t.Errorf("got %v after 1 2 3 and %v after 3, %v", long.Sequences[0].Tokens, short.Sequences[0].Tokens, err)
	}
}
