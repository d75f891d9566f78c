package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// gpt is a small language model for texts of some letters.
func gpt(vocab, length int) models.Net {
	return models.Net{Name: "gpt", Input: []int{length}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: vocab, Units: 16},
		models.Positions{Name: "positions", Length: length},
		models.Repeat{Name: "block", Times: 2, Layer: models.TransformerBlock{Heads: 2, Causal: true}},
		models.LayerNorm{Name: "norm"},
		models.Dense{Name: "head", Units: vocab},
	}}
}

// text is windows of a text whose next letter is known from those before it, and their next
// letters.
func text(n, length, vocab int) (x, y []int32) {
	for i := range n {
		for k := range length {
			letter := func(at int) int32 { return int32(at * at / 2 % vocab) }
			x, y = append(x, letter(i+k)), append(y, letter(i+k+1))
		}
	}
	return x, y
}

// TestGPT holds that a language model learns: ids as examples, a label for each position,
// cells and jobs alike, in float32 and bfloat16, with a schedule.
func TestGPT(t *testing.T) {
	t.Parallel()
	const n, length, vocab = 64, 8, 7
	s, ctx := open(t), context.Background()
	x, y := text(n, length, vocab)
	optimizer := optim.Scheduled{Optimizer: optim.AdamW{LearningRate: 0.01}, Schedule: optim.WarmupCosine{Warmup: 5, Steps: 120}}
	for _, c := range []Config{{Optimizer: optimizer}, {Optimizer: optimizer, BF16: true}, {Optimizer: optimizer, Loss: losses.CrossEntropy{Smoothing: 0.01}}} {
		net := attach(t, s, "gpt", gpt(vocab, length), c)
		set := load(t, net, "text", Data{X: x, Y: y})
		history, err := net.WithContext(ctx).Fit(set, Train{Epochs: 15, Batch: 8})
		if err != nil {
			t.Fatal(err)
		}
		if last := history.Last().Train; last.N != n*length || last.Accuracy() < 0.9 || last.Accuracy() > 1 {
			t.Errorf("%+v: last epoch %v: want more than 90 %% of %d right", c, last, n*length)
		}
		score, err := net.WithContext(ctx).Evaluate(set)
		if err != nil || score.N != n*length || score.Accuracy() < 0.9 {
			t.Errorf("%+v: test %v, %v: want more than 90 %% of %d right", c, score, err, n*length)
		}
		p, err := net.WithContext(ctx).Predict(set)
		if err != nil || len(p.Classes) != n*length || p.Width != length*vocab {
			t.Fatalf("%+v: %v, %v: want %d classes", c, p, err, n*length)
		}
		right := 0
		for i, class := range p.Classes {
			if class == y[i] {
				right++
			}
		}
		if right != score.Right {
			t.Errorf("%+v: Predict has %d right, Test %d", c, right, score.Right)
		}
		if again, err := net.WithContext(ctx).Predict(x); err != nil || !slices.Equal(again.Classes, p.Classes) {
			t.Errorf("%+v: Predict of numbers: %v, want what it says of the set", c, err)
		}
		if found, err := net.Data("text"); err != nil || found.positions != length {
			t.Errorf("found %v, %v: want %d labels an example", found, err, length)
		}
		if err := net.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	job := attach(t, s, "job", gpt(vocab, length), Config{Optimizer: optimizer})
	set := load(t, job, "text", Data{X: x, Y: y})
	j, err := job.FitJob(set, Train{Epochs: 15, Batch: 8, Validation: set})
	if err != nil {
		t.Fatal(err)
	}
	history, err := j.Follow(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last := history.Last(); last.Train.N != n*length || last.Validation.N != n*length || last.Validation.Accuracy() < 0.9 || last.Validation.Accuracy() > 1 {
		t.Errorf("job: last epoch %v: want more than 90 %% of %d right", last, n*length)
	}
}

// TestIgnored holds that labels below 0 count nothing: not in the loss, not in the accuracy.
func TestIgnored(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	x, y := text(6, 4, 5)
	all := attach(t, s, "all", gpt(5, 4), Config{})
	some := attach(t, s, "some", gpt(5, 4), Config{Loss: losses.CrossEntropy{IgnoreNegative: true}})
	whole, err := all.WithContext(ctx).Evaluate(load(t, all, "whole", Data{X: x, Y: y}))
	if err != nil {
		t.Fatal(err)
	}
	same, err := some.WithContext(ctx).Evaluate(load(t, some, "whole", Data{X: x, Y: y}))
	if err != nil || same.N != whole.N || same.Right != whole.Right {
		t.Errorf("without labels below 0: %v, %v, want %v", same, err, whole)
	}
	first := slices.Clone(y)
	for i := 4; i < len(first); i++ { // only the first example is left
		first[i] = -100
	}
	one, err := all.WithContext(ctx).Evaluate(load(t, all, "one", Data{X: x[:4], Y: y[:4]}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := some.WithContext(ctx).Evaluate(load(t, some, "first", Data{X: x, Y: first}))
	if err != nil || got.N != 4 || got.Right != one.Right || got.Loss-one.Loss > 1e-5 || one.Loss-got.Loss > 1e-5 {
		t.Errorf("with labels below 0: %v, %v, want %v", got, err, one)
	}
	// A set is refused by a net whose loss does not ignore such labels, whoever loaded it.
	ignored := load(t, some, "ignored", Data{X: x, Y: first})
	if _, err := all.WithContext(ctx).Fit(ignored, Train{}); err == nil || !strings.Contains(err.Error(), "the labels of ignored are -1 to") {
		t.Errorf("a set with ignored labels, for a net that ignores none: got %v", err)
	}
	if found, err := all.Data("ignored"); err != nil {
		t.Error(err)
	} else if score, err := some.WithContext(ctx).Evaluate(found); err != nil || score.N != 4 {
		t.Errorf("a set that another net has found: %v, %v, want 4 answers", score, err)
	}
	for i := range first {
		first[i] = -1
	}
	if _, err := some.Upload("none", Data{X: x, Y: first}); err == nil || !strings.Contains(err.Error(), "none: every label is below 0 or has weight 0") {
		t.Errorf("no label that counts: got %v", err)
	}
	if _, err := all.Upload("bad", Data{X: x, Y: first}); err == nil || !strings.Contains(err.Error(), "label 0 is -1") {
		t.Errorf("a label below 0 that is not ignored: got %v", err)
	}
}

// TestIDs holds which examples a net of ids takes, and what it says of others.
func TestIDs(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := attach(t, s, "ids", gpt(5, 2), Config{})
	y := []int32{1, 2}
	for _, tt := range []struct {
		x    any
		want string // "": they are [3 4]
	}{
		{[]int32{3, 4}, ""}, {[]int{3, 4}, ""}, {[]uint16{3, 4}, ""}, {[]byte{3, 4}, ""}, {[]float32{3, 4}, ""}, {[]float64{3, 4}, ""},
		{[]int32{3, 5}, "number 1 of the examples is 5: layer tokens of gpt knows the ids 0 to 4"}, {[]int64{-1, 0}, "number 0 of the examples is -1"},
		{[]float32{3.5, 1}, "number 0 of the examples is 3.5: want integers"}, {[]int64{1 << 40, 0}, "want integers within the range of int32"},
		{[]string{"a", "b"}, "examples are a []string: want integers, such as []int32, for layer tokens of gpt"},
		{[]int32{1, 2, 3}, "want a multiple of 2"}, {nil, "Data has no X: want the examples, as integers"},
	} {
		set, err := net.Upload("x", Data{X: tt.x, Y: y})
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%T %v: got %v, want %q", tt.x, tt.x, err, tt.want)
			}
			continue
		}
		got := make([]int32, 2)
		if err == nil {
			err = set.array("x").Values(got)
		}
		if err != nil || !slices.Equal(got, []int32{3, 4}) {
			t.Errorf("%T: got %v, %v, want [3 4]", tt.x, got, err)
		}
	}
	for _, tt := range []struct {
		y    any
		want string
	}{
		{[]int32{1}, "or one label for each of its positions"},
		{[]int32{1, 5}, "label 1 is 5"}, {[]float32{1, 0.5}, "number"},
	} {
		if _, err := net.Upload("y", Data{X: []int32{3, 4}, Y: tt.y}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("targets %v: got %v, want %q", tt.y, err, tt.want)
		}
	}
	floats := attach(t, s, "floats", models.Net{Name: "floats", Input: []int{2}, Layers: []models.Layer{models.Dense{Units: 3}}}, Config{})
	ids := load(t, net, "ids", Data{X: []int32{3, 4}, Y: y})
	if _, err := floats.Predict(ids); err == nil || !strings.Contains(err.Error(), "examples of ids: got numbers of type Int32, want []byte") {
		t.Errorf("ids for a net of numbers: got %v", err)
	}
	if _, err := floats.Upload("ints", Data{X: []int32{3, 4}, Y: y[:1]}); err == nil || !strings.Contains(err.Error(), "want []byte, []float32 or []float64") {
		t.Errorf("integers for a net of numbers: got %v", err)
	}
}

// TestClippedSteps holds that a step's gradients are clipped together, whether the state is
// packed or not: plain gradient descent moves all weights by the norm at most.
func TestClippedSteps(t *testing.T) {
	t.Parallel()
	s := open(t)
	const norm = 1e-3
	for _, packing := range []bool{false, true} {
		net := attach(t, s, "clipped", linear(3), Config{Optimizer: optim.Clipped{Optimizer: optim.SGD{LearningRate: 1}, Norm: norm}})
		net.packing = packing
		set := load(t, net, "clipped", Data{X: []float32{9, 8, -7, 3, 2, 1}, Y: []int32{0, 2, 1}})
		before, err := net.Weights()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Fit(set, Train{Epochs: 1, Batch: 3}); err != nil {
			t.Fatal(err)
		}
		after, err := net.Weights()
		if err != nil {
			t.Fatal(err)
		}
		square := 0.0
		for i := range before {
			for k := range before[i].Data {
				d := float64(after[i].Data[k] - before[i].Data[k])
				square += d * d
			}
		}
		if moved := math.Sqrt(square); math.Abs(moved-norm) > 1e-2*norm {
			t.Errorf("packed %t: the weights moved by %g, want %g", packing, moved, norm)
		}
		if err := net.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllPadding holds that examples which are padding alone train a net to finite numbers.
func TestAllPadding(t *testing.T) {
	t.Parallel()
	s := open(t)
	x := make([][]int32, 8)
	for i := range x {
		x[i] = make([]int32, 6)
		for k := range i / 4 * 3 {
			x[i][k] = 2
		}
	}
	for name, layers := range map[string][]models.Layer{
		"lstm": {models.LSTM{Units: 4}, models.LastStep{}}, "gru": {models.Bidirectional{Layer: models.GRU{Units: 3}}, models.LastStep{}},
		"rnn": {models.RNN{Units: 4}, models.FirstStep{}}, "attention": {models.Attention{Heads: 1}, models.GlobalAvgPool{}},
		"block": {models.TransformerBlock{Heads: 2}, models.LastStep{}}, "convolution": {models.Conv1D{Channels: 3, Kernel: 3, Same: true}, models.GlobalMaxPool{}},
		"maximum": {models.GlobalMaxPool{}}, "mean": {models.GlobalAvgPool{}},
	} {
		embedding := models.Embedding{Name: "tokens", Vocab: 5, Units: 4, MaskZero: true}
		n := attach(t, s, "padding-"+name, models.Net{Input: []int{6}, Layers: append(append([]models.Layer{embedding}, layers...), models.Dense{Name: "output", Units: 2})}, Config{Seed: 1, FirstLook: true})
		data := load(t, n, "padding", Data{X: x, Y: make([]int32, 8)})
		h, err := n.Fit(data, Train{Epochs: 3, Batch: 4, InOrder: true})
		if err != nil || len(h.Losses) != 6 || !(h.Losses[5] < 2) {
			t.Errorf("%s: got %v, %v, want finite losses", name, h, err)
		}
		if p, err := n.Predict(data); err != nil || !(p.Output[0] < 10 && p.Output[0] > -10) {
			t.Errorf("%s: got %v, %v, want finite numbers", name, p, err)
		}
	}
}
