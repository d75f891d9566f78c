package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/data"
	"gaiden/lib/models"
)

// numbers are examples and targets with a rule between them.
func numbers(n, in, out int, seed uint64) Data {
	r := rand.New(rand.NewPCG(seed, 2))
	x, y := make([]float32, n*in), make([]float32, n*out)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	for i := range y {
		y[i] = x[i/out*in+i%out%in] * 0.5
	}
	return Data{X: x, Y: y}
}

// tiny are nets of each kind that compile fast.
func tiny() []struct {
	net  models.Net
	data Data
} {
	chain := models.Net{Name: "lstm", Input: []int{7, 2}, Layers: []models.Layer{
		models.Dense{Name: "l1", Units: 3}, models.LSTM{Name: "l2", Units: 4}, models.Dense{Name: "l3", Units: 1}}}
	residual := models.Net{Name: "resnet", Input: []int{8, 8, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "conv1", Channels: 4, Kernel: 3, Stride: 2, Pad: 1, NoBias: true},
		models.BatchNorm{Name: "bn1", Act: models.ReLU},
		models.Residual{Name: "block", Act: models.ReLU,
			Main: []models.Layer{models.Conv2D{Name: "conv1", Channels: 6, Kernel: 3, Same: true}, models.BatchNorm{Name: "bn1"}},
			Skip: []models.Layer{models.Conv2D{Name: "conv2", Channels: 6, Kernel: 1}, models.BatchNorm{Name: "bn2"}}},
		models.GlobalAvgPool{Name: "pool"},
		models.Dense{Name: "output", Units: 10}}}
	function := models.Net{Name: "gomlx", Input: []int{4, 4, 1}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := in["x"]
		x = Reshape(x, x.Shape().Dimensions[0], 16)
		x = activation.Relu(layers.Dense(scope.In("f1"), x, true, 12))
		return layers.Dense(scope.In("f2"), x, true, 10)
	}}
	mlp := models.MLP(9)
	return []struct {
		net  models.Net
		data Data
	}{
		{mlp, digits(40, mlp.Input, 1)},
		{small(), digits(40, []int{16}, 1)},
		{residual, digits(40, residual.Input, 1)},
		{chain, numbers(40, 14, 7, 1)},
		{function, digits(40, function.Input, 1)},
	}
}

// kinds are the nets of tiny whose state has an array of every kind, between
// them: moments and vectors in each, random numbers (small), running means
// (resnet), matrices that a loop reads (lstm). Both, small and resnet, run on one
// device and on two. Tests that compare two forms of one program with each other
// take these, and programs of a first look: XLA decides what shares memory, and
// what runs when, before it comes to the options of one.
func kinds() (l []kind) {
	devices := map[string][]int{"small": {1, 2}, "resnet": {1, 2}, "lstm": {1}}
	for _, tt := range tiny() {
		if d := devices[tt.net.Name]; d != nil {
			l = append(l, kind{tt.net, tt.data, d})
		}
	}
	return l
}

type kind struct {
	net     models.Net
	data    Data
	devices []int
}

// TestPhases holds that the phases, done one after the other, give the losses
// of the epoch program.
func TestPhases(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range tiny() {
		t.Run(tt.net.Name, func(t *testing.T) {
			c := Config{Seed: 5, FirstLook: true}
			n := attach(t, s, fmt.Sprint("epoch", i), tt.net, c)
			data := load(t, n, fmt.Sprint("data", i), tt.data)
			h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3, Batch: 8})
			if err != nil {
				t.Fatal(err)
			}
			m := attach(t, s, fmt.Sprint("phases", i), tt.net, c)
			p, err := m.WithContext(ctx).Phases(data, 8)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range h.Losses {
				if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update()); err != nil {
					t.Fatal(err)
				}
				got, err := p.Value()
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(got-float64(want)) > 2e-4*math.Max(1, math.Abs(got)) {
					t.Fatalf("loss of step %d: got %v, want %v as the epoch program has it", k+1, got, want)
				}
			}
			a, err := n.WithContext(ctx).Evaluate(data)
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.WithContext(ctx).Evaluate(data)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(a.Loss-b.Loss) > 1e-3*math.Max(1, a.Loss) {
				t.Errorf("test afterwards: phases %v, epoch program %v", b, a)
			}
		})
	}
}

// TestLayers holds that the layers by themselves, and the parts of those that are sequences
// of others, derive the gradients that the whole does.
func TestLayers(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	type row struct {
		net    models.Net
		data   Data
		config Config
		within float64
		names  string
		times  []int
	}
	var rows []row
	for _, tt := range tiny() {
		if tt.net.Name == "small" { // its dropout draws other numbers each time
			tt.net.Layers = append(tt.net.Layers[:3:3], tt.net.Layers[4])
		}
		rows = append(rows, row{net: tt.net, data: tt.data, within: 1e-4})
	}
	book := data.TextOf(strings.Repeat("abcd efgh ", 20))
	gpt := func(name string, times int) models.Net {
		return models.Net{Name: name, Input: []int{6}, Layers: []models.Layer{
			models.Embedding{Name: "tokens", Vocab: book.Vocab(), Units: 8},
			models.Repeat{Name: "block", Times: times, Layer: models.TransformerBlock{Heads: 2, Causal: true}},
			models.Sequential{Name: "head", Layers: []models.Layer{models.LayerNorm{Name: "norm"}, models.Activation{Act: models.ReLU}, models.Dense{Name: "out", Units: book.Vocab()}}},
		}}
	}
	const parts = "tokens block/attention block/feedforward head/norm head/activation head/out"
	rows = append(rows,
		row{gpt("gpt", 1), book.Windows(6), Config{}, 1e-4, parts, []int{1, 1, 1, 1, 1, 1}},
		row{gpt("bf16", 1), book.Windows(6), Config{BF16: true}, 0.05, parts, []int{1, 1, 1, 1, 1, 1}},
		row{net: gpt("repeat", 3), data: book.Windows(6), names: parts, times: []int{1, 3, 3, 1, 1, 1}}, // of one of three: no sum to compare
		row{net: table(), data: tableData(40), within: 1e-4, names: "table output", times: []int{1, 1}})
	for i, tt := range rows {
		t.Run(tt.net.Name, func(t *testing.T) {
			tt.config.Seed, tt.config.FirstLook = 5, true
			n := attach(t, s, fmt.Sprint("net", i), tt.net, tt.config)
			p, err := n.WithContext(ctx).Phases(load(t, n, fmt.Sprint("data", i), tt.data), 8)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward()); err != nil {
				t.Fatal(err)
			}
			want, err := p.Gradients()
			if err != nil {
				t.Fatal(err)
			}
			all, err := p.Layers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			var times []int
			for _, l := range all {
				names, times = append(names, l.Name), append(times, l.Times)
			}
			if tt.names == "" {
				tt.names, tt.times = strings.Join(tt.net.Names(), " "), slices.Repeat([]int{1}, len(tt.net.Names()))
			}
			if got := strings.Join(names, " "); got != tt.names || !slices.Equal(times, tt.times) {
				t.Errorf("layers: got %s %v, want %s %v", got, times, tt.names, tt.times)
			}
			delete(want, "block/0/attention/key/biases") // 0 but for rounding: a softmax does not see them
			if got, err := p.Gradients(); err != nil {
				t.Fatal(err)
			} else if tt.within > 0 {
				compare(t, got, want, tt.within)
			}
			for _, l := range all { // each can be run again by itself
				if err := l.Forward.Run(); err != nil {
					t.Error(err)
				}
				if l.Backward != nil {
					if err := l.Backward.Run(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// rest is more than rounding leaves of sums that are 0, such as the gradients of
// biases before a batch norm.
const rest = 1e-6

// compare holds that two sets of numbers differ by no more than part of the
// largest of each array. Of zeros both are a rest.
func compare(t *testing.T, got, want map[string][]float32, part float64) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if len(g) != len(w) {
			t.Errorf("%s: got %d numbers, want %d", name, len(g), len(w))
			continue
		}
		size, worst, at := 0.0, 0.0, 0
		for i := range w {
			size = max(size, math.Abs(float64(w[i])))
			if d := math.Abs(float64(g[i] - w[i])); d > worst || d != d {
				worst, at = d, i
			}
		}
		most := part * size
		if size < rest {
			most = rest
		}
		if worst > most || worst != worst {
			t.Errorf("%s[%d]: got %v, want %v (within %g of %g)", name, at, g[at], w[at], part, size)
		}
	}
}

// TestLabels holds that ops are labelled by layer and phase, and that the FLOPs
// of a dense layer can be told apart.
func TestLabels(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.MLP(9), Config{})
	p, err := n.epochProgram(load(t, n, "d", digits(20, n.model.Input, 1)), n.plainSteps(4, 1))
	if err != nil {
		t.Fatal(err)
	}
	flops := map[string]float64{}
	for _, c := range p.Costs() {
		flops[c.Label] = c.FLOPs
	}
	tests := []struct {
		label string
		least float64 // products alone
	}{
		{"l1/forward", 2 * 4 * 784 * 9}, {"l2/forward", 2 * 4 * 9 * 9}, {"l3/forward", 2 * 4 * 9 * 10},
		{"l1/backward", 2 * 4 * 784 * 9}, {"l2/backward", 2 * 2 * 4 * 9 * 9}, {"l3/backward", 2 * 2 * 4 * 9 * 10},
		{"loss/forward", 1}, {"loss/backward", 1}, {"adam/update", 784 * 9},
	}
	for _, tt := range tests {
		if got := flops[tt.label]; got < tt.least || tt.least > 1000 && got > 2*tt.least && tt.label != "adam/update" {
			t.Errorf("%s: got %v FLOPs, want %v and a little more", tt.label, got, tt.least)
		}
	}
}
