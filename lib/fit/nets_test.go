package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// step is loss and gradients of a batch from the formula's weights.
func oneStep(t *testing.T, n *Net, d Data, batch int) (float64, map[string][]float32) {
	t.Helper()
	if err := n.SetWeights(formulaWeights(n)); err != nil {
		t.Fatal(err)
	}
	p, err := n.Phases(load(t, n, n.name, d), batch)
	if err != nil {
		t.Fatal(err)
	}
	p.InOrder = true
	if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward()); err != nil {
		t.Fatal(err)
	}
	loss, err := p.Value()
	if err != nil {
		t.Fatal(err)
	}
	gradients, err := p.Gradients()
	if err != nil {
		t.Fatal(err)
	}
	return loss, gradients
}

// TestVisibility holds that the gradient the article writes down is the one
// that is derived, and that every joint counts without V and with Blind.
func TestVisibility(t *testing.T) {
	t.Parallel()
	s := open(t)
	seen := formulaData("Peaks", 20, 2, 1)
	all := seen
	all.V = nil
	type result struct {
		loss      float64
		gradients map[string][]float32
	}
	got := map[string]result{}
	for _, tt := range []struct {
		name string
		data Data
		loss losses.Visibility
		same string // an earlier case with the same numbers
	}{
		{"derived", seen, losses.Visibility{}, ""},
		{"explicit", seen, losses.Visibility{Explicit: true}, "derived"},
		{"derived blind", seen, losses.Visibility{Blind: true}, ""},
		{"explicit blind", seen, losses.Visibility{Blind: true, Explicit: true}, "derived blind"},
		{"derived without V", all, losses.Visibility{}, "derived blind"},
		{"explicit without V", all, losses.Visibility{Explicit: true}, "derived blind"},
	} {
		var r result
		r.loss, r.gradients = oneStep(t, attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), models.Peaks(), Config{Loss: tt.loss}), tt.data, 20)
		got[tt.name] = r
		want, is := got[tt.same]
		if !is {
			continue
		}
		if !(math.Abs(r.loss-want.loss) <= 1e-6*want.loss) {
			t.Errorf("loss: %s %v, %s %v", tt.name, r.loss, tt.same, want.loss)
		}
		t.Run(tt.name, func(t *testing.T) { compare(t, r.gradients, want.gradients, 1e-6) })
	}
	if a, b := got["derived"].loss, got["derived blind"].loss; a == b {
		t.Errorf("blind: got the same loss %v, want another", b)
	}
}

// TestDropout holds that dropout zeroes its part while the net is trained,
// scales the rest, and does nothing otherwise.
func TestDropout(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	const rate = 0.3
	net := models.Net{Name: "net", Input: []int{1000}, Layers: []models.Layer{
		models.Dropout{Name: "dropout", Rate: rate}, models.Dense{Name: "scale", Units: 1, NoBias: true}}}
	wide := net
	wide.Layers = []models.Layer{models.Dense{Name: "one", Units: 1000, NoBias: true, Init: models.Fill(0.001)}, models.Dropout{Name: "dropout", Rate: rate}}
	n := attach(t, s, "net", wide, Config{Seed: 4, Optimizer: optim.SGD{LearningRate: 1e-20}})
	x := slices.Repeat([]float32{1}, 8000)
	data := load(t, n, "ones", Data{X: x, Y: slices.Clone(x)})
	p, err := n.WithContext(ctx).Phases(data, 8)
	if err != nil {
		t.Fatal(err)
	}
	var last []float32
	for range 2 {
		if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update()); err != nil {
			t.Fatal(err)
		}
		out, err := p.Output()
		if err != nil {
			t.Fatal(err)
		}
		zeros := 0
		for i, y := range out {
			if y == 0 {
				zeros++
			} else if math.Abs(float64(y)-1/(1-rate)) > 1e-4 {
				t.Fatalf("output %d: got %v, want 0 or %v", i, y, 1/(1-rate))
			}
		}
		if part := float64(zeros) / 8000; math.Abs(part-rate) > 0.03 {
			t.Errorf("zeros: got %.3f of all, want %v", part, rate)
		}
		if slices.Equal(out, last) {
			t.Error("second batch: got the same zeros, want others")
		}
		last = out
	}
	answer, err := n.WithContext(ctx).Predict(data)
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range answer.Output {
		if math.Abs(float64(y)-1) > 1e-4 {
			t.Fatalf("prediction %d: got %v, want 1", i, y)
		}
	}
}

// TestBatchNorm holds that a net that is not trained uses the running means.
func TestBatchNorm(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "net", Input: []int{2}, Layers: []models.Layer{models.BatchNorm{Name: "bn"}}}
	n := attach(t, s, "net", net, Config{})
	if err := n.SetWeights([]Tensor{
		{Name: "bn/scale", Dims: []int{2}, Data: []float32{2, 3}}, {Name: "bn/offset", Dims: []int{2}, Data: []float32{10, 20}},
		{Name: "bn/mean", Dims: []int{2}, Data: []float32{1, -1}}, {Name: "bn/variance", Dims: []int{2}, Data: []float32{4, 9}},
	}); err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict([]float32{5, 5, 1, -1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{14, 26, 10, 20} { // (x-mean)/√variance·scale + offset
		if math.Abs(float64(p.Output[i])-want) > 1e-4 {
			t.Errorf("output %d: got %v, want %v", i, p.Output[i], want)
		}
	}
}

// compiler is a client of the plugin itself, for what XLA makes of a program.
func compiler(t *testing.T) *pjrt.Client {
	t.Helper()
	plugin, err := pjrt.Load(os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := plugin.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// TestLSTMLength holds that a step is not written out place by place: neither its
// text, nor what XLA makes of it, which its compile time goes by.
func TestLSTMLength(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := compiler(t)
	sizes := func(length int) (text, compiled int) {
		n := attach(t, s, fmt.Sprint("l", length), models.SineLSTM(5, length), Config{})
		data := load(t, n, fmt.Sprint("d", length), numbers(8, length, length, 1))
		p, err := n.epochProgram(data, n.plainSteps(4, 2))
		if err != nil {
			t.Fatal(err)
		}
		x, err := client.Compile(p.Text(nil), pjrt.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		optimized, _, err := x.Optimized()
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Text(nil)), len(optimized)
	}
	shortText, shortCompiled := sizes(10)
	longText, longCompiled := sizes(1000)
	for _, tt := range []struct {
		what        string
		short, long int
		most        float64
	}{{"text", shortText, longText, 1.02}, {"compiled program", shortCompiled, longCompiled, 1.05}} {
		if d := float64(tt.long) / float64(tt.short); d > tt.most {
			t.Errorf("%s: got %d bytes for 1000 places and %d for 10, want the same but for digits", tt.what, tt.long, tt.short)
		}
	}
}

// TestBF16 holds that a net that computes in bfloat16 learns, with weights in
// float32.
func TestBF16(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.MLP(20), Config{BF16: true, Seed: 1})
	data := load(t, n, "bars", digits(400, n.model.Input, 1))
	h, err := n.Fit(data, Train{Epochs: 6, Batch: 20, Validation: data})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Last().Validation.Accuracy(); a < 0.9 {
		t.Errorf("accuracy: got %v, want 0.9 or more", a)
	}
	weights, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	fine := false
	for _, x := range weights[0].Data {
		fine = fine || math.Float32bits(x)&0xffff != 0
	}
	if !fine {
		t.Error("weights: got bfloat16, want float32")
	}
}
