package fit

import (
	"math"
	"strings"
	"testing"

	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestBlockwise holds that a language model with attention in blocks learns as one with
// plain attention, in calls, jobs and phases, that the plan says so, and that its programs do not
// grow with the length.
func TestBlockwise(t *testing.T) {
	t.Parallel()
	s := open(t)
	const n, length, vocab = 16, 12, 7
	x, y := text(n, length, vocab)
	var losses [2][]float32
	for k, form := range []lower.AttentionForm{lower.PlainAttention, lower.BlockwiseAttention} {
		net := attach(t, s, "net", gpt(vocab, length), Config{Seed: 1, FirstLook: true, Optimizer: optim.SGD{LearningRate: 0.1}})
		net.options.Attention = lower.AttentionChoice{Form: form, Queries: 5, Keys: 4}
		set := load(t, net, "text", Data{X: x, Y: y})
		h, err := net.Fit(set, Train{Epochs: 2, Batch: 8, InOrder: true})
		if err != nil {
			t.Fatal(err)
		}
		losses[k] = h.Losses
		p, err := net.Plan(set, Train{Epochs: 1, Batch: 8})
		want := []string{"attention        plain: 12 × 12 scores of 16 heads at once\n", "attention        in blocks of 5 × 4: 12 × 12 scores of 16 heads"}[k]
		if err != nil || strings.Count(p.String(), want) != 1 {
			t.Errorf("plan %v, %v: want %q once", p, err, want)
		}
		if form == lower.BlockwiseAttention {
			if _, err := net.Phases(set, 8); err != nil {
				t.Errorf("phases: %v", err)
			}
		}
		if err := net.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range losses[0] {
		if d := math.Abs(float64(losses[0][i] - losses[1][i])); !(d < 1e-5) {
			t.Errorf("loss %d is %v in blocks, %v without", i, losses[1][i], losses[0][i])
		}
	}
	var sizes [2]int
	for k, length := range []int{512, 8192} {
		x, y := text(2, length, vocab)
		net := attach(t, s, "long", gpt(vocab, length), Config{Seed: 1})
		p, err := net.epochProgram(load(t, net, "long", Data{X: x, Y: y}), plan.Steps(net.target, false, 2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if sizes[k] = p.Size(); !p.Has("while") {
			t.Errorf("length %d: the program has no loop", length)
		}
		if err := net.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	if sizes[1] > sizes[0]+sizes[0]/50 {
		t.Errorf("programs for lengths 512 and 8192 have %d operations: want as many", sizes)
	}
}

// TestFlashProgram holds that cuDNN's attention is in a program for a GPU where it is
// requested and cuDNN has it, and nowhere else.
func TestFlashProgram(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := func(units, heads int, block models.TransformerBlock) models.Net {
		block.Heads, block.Causal = heads, true
		return models.Net{Name: "net", Input: []int{6}, Layers: []models.Layer{
			models.Embedding{Name: "tokens", Vocab: 7, Units: units}, models.Repeat{Name: "block", Times: 2, Layer: block}, models.Dense{Name: "head", Units: 7}}}
	}
	x, y := text(4, 6, 7)
	for name, tt := range map[string]struct {
		net     models.Net
		bf16    bool
		request lower.AttentionForm
		target  lower.Target
		calls   int
	}{
		"requested":     {net(16, 2, models.TransformerBlock{}), true, lower.CuDNNAttention, played("cuda", "8.0"), 2},
		"not requested": {net(16, 2, models.TransformerBlock{}), true, lower.AutomaticAttention, played("cuda", "9.0"), 0},
		"float32":       {net(16, 2, models.TransformerBlock{}), false, lower.CuDNNAttention, played("cuda", "9.0"), 0},
		"head size 6":   {net(12, 2, models.TransformerBlock{}), true, lower.CuDNNAttention, played("cuda", "9.0"), 0},
		"ALiBi":         {net(16, 2, models.TransformerBlock{ALiBi: true}), true, lower.CuDNNAttention, played("cuda", "9.0"), 0},
		"dropout":       {net(16, 2, models.TransformerBlock{Dropout: 0.1}), true, lower.CuDNNAttention, played("cuda", "9.0"), 0},
		"Hopper, 256":   {net(256, 1, models.TransformerBlock{}), true, lower.CuDNNAttention, played("cuda", "9.0"), 2},
		"Ampere, 256":   {net(256, 1, models.TransformerBlock{}), true, lower.CuDNNAttention, played("cuda", "8.0"), 0},
		"another GPU":   {net(16, 2, models.TransformerBlock{}), true, lower.CuDNNAttention, played("rocm", ""), 0},
	} {
		n := attach(t, s, "flash", tt.net, Config{Seed: 1, BF16: tt.bf16})
		set := load(t, n, "text", Data{X: x, Y: y})
		n.options.Attention.Form, n.target = tt.request, tt.target
		p, err := n.epochProgram(set, plan.Steps(n.target, false, 4, 1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := string(p.Text(nil))
		forward, backward := strings.Count(text, "@__cudnn$fmhaSoftmax("), strings.Count(text, "@__cudnn$fmhaSoftmaxBackward(")
		if forward != tt.calls || backward != tt.calls {
			t.Errorf("%s: %d calls forward, %d backward: want %d each", name, forward, backward, tt.calls)
		}
		n.target = lower.TargetOf(s.Welcome())
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}
