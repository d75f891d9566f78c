package fit

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestRecomputed holds that a net that makes the outputs of its batch norms again
// learns as one that keeps them does, whatever stands behind them.
func TestRecomputed(t *testing.T) {
	t.Parallel()
	s := open(t)
	pooled := normal()
	pooled.Layers = append([]models.Layer{
		models.Conv2D{Name: "conv0", Channels: 4, Kernel: 2, Stride: 2, NoBias: true}, models.BatchNorm{Name: "bn0", Act: models.ReLU},
		models.MaxPool2D{Name: "pool0", Window: 3, Stride: 2, Pad: 1, Gradient: models.SelectAndScatter}, models.BatchNorm{Name: "bn01"},
	}, pooled.Layers...)
	pooled.Input = []int{32, 32, 2}
	var losses [2][]float32
	var texts [2]string
	for i, name := range []string{"kept", "again"} {
		n := attach(t, s, name, pooled, Config{Seed: 3, Optimizer: optim.SGD{LearningRate: 0.01, Momentum: 0.9}})
		n.options.Recompute = int64(i)
		data := load(t, n, "images", digits(64, n.model.Input, 1))
		h, err := n.Fit(data, Train{Batch: 16, Epochs: 3})
		if err != nil {
			t.Fatal(err)
		}
		losses[i] = h.Losses
		p, err := n.epochProgram(data, plan.Part{Batch: 16, Inner: 1, Unroll: 1, Limit: 1, Form: plan.Fresh, Devices: 1})
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(p.Text(nil))
	}
	if len(losses[0]) != 12 || len(losses[1]) != 12 {
		t.Fatalf("got %d and %d losses, want 12", len(losses[0]), len(losses[1]))
	}
	for i, want := range losses[0] {
		if got := losses[1][i]; math.Abs(float64(got-want)) > 1e-5*float64(want) { // a rate at which rounding does not grow
			t.Errorf("loss of step %d: got %g, want %g", i, got, want)
		}
	}
	for i, want := range []int{0, 3} { // those with a convolution behind them, or a pooling that reads the image on its way back
		if got := strings.Count(texts[i], "stablehlo.batch_norm_inference"); got != want {
			t.Errorf("got %d batch norms made again in program %d, want %d", got, i, want)
		}
	}
}

// TestRepeatRecompute holds that layers that are computed again for the backward pass have the
// gradients of those that are kept, but for rounding, with the same dropout, running means and
// random numbers after them, and that a step needs less memory.
func TestRepeatRecompute(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := compiler(t)
	const n, length, vocab = 16, 8, 7
	x, y := text(n, length, vocab)
	for name, layer := range map[string]models.Layer{
		"transformer": models.TransformerBlock{Heads: 2, Causal: true, Dropout: 0.2},
		"batch norm":  models.Sequential{Layers: []models.Layer{models.Dense{Name: "dense", Units: 16, Act: models.GELU}, models.BatchNorm{Name: "norm"}, models.Dropout{Rate: 0.1}}},
	} {
		var numbers [2]map[string][]float32
		var temporary [2]int64
		for i, again := range []bool{false, true} {
			net := attach(t, s, "repeat", models.Net{Name: "repeat", Input: []int{length}, Layers: []models.Layer{
				models.Embedding{Name: "tokens", Vocab: vocab, Units: 16},
				models.Repeat{Name: "block", Times: 3, Layer: layer, Recompute: again},
				models.Dropout{Rate: 0.1}, models.Dense{Name: "head", Units: vocab}}}, Config{Seed: 3, FirstLook: true})
			set := load(t, net, "text", Data{X: x, Y: y})
			numbers[i] = map[string][]float32{}
			for range 2 { // the second with other random numbers
				g := net.Gradients(batchOf("text", n))
				loss, err := g.Loss()
				if err != nil {
					t.Fatal(err)
				}
				numbers[i]["loss"] = append(numbers[i]["loss"], float32(loss))
				for _, of := range g.Names() {
					l, err := g.Values(of)
					if err != nil {
						t.Fatal(err)
					}
					numbers[i][of] = append(numbers[i][of], l...)
				}
			}
			for of, w := range weightsOf(t, net) {
				numbers[i]["weight "+of] = w
			}
			p, err := net.gradientProgram(set, n, 1)
			if err != nil {
				t.Fatal(err)
			}
			exe, err := client.Compile(p.Text(nil), pjrt.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := exe.MemoryStats()
			if err != nil {
				t.Fatal(err)
			}
			temporary[i] = m.Temporary
			if err := net.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		for of, l := range numbers[0] {
			for i, want := range l {
				if got := numbers[1][of][i]; !(math.Abs(float64(got-want)) <= 1e-5) {
					t.Errorf("%s: %s number %d is %v, recomputed %v", name, of, i, want, got)
					break
				}
			}
		}
		if numbers[0]["loss"][0] == numbers[0]["loss"][1] {
			t.Errorf("%s: both losses are %v: want other random numbers for the second", name, numbers[0]["loss"])
		}
		if temporary[1] >= temporary[0]*3/4 {
			t.Errorf("%s: a step takes %d bytes, %d with Recompute: want at most three quarters", name, temporary[0], temporary[1])
		}
	}
}

// normal is a net with all kinds of batch norms. Its convolutions have no biases: behind one
// a batch norm takes the mean away, so that a bias has the gradient 0, and what is computed
// of it is rounding.
func normal() models.Net {
	conv := func(name string, kernel int) models.Layer {
		return models.Conv2D{Name: name, Channels: 6, Kernel: kernel, Pad: kernel / 2, NoBias: true}
	}
	square := func(x *graph.Node) *graph.Node { return graph.Square(x) }
	return models.Net{Name: "normal", Input: []int{8, 8, 2}, Layers: []models.Layer{
		conv("conv1", 3), models.BatchNorm{Name: "bn1", Act: models.ReLU},
		models.Residual{Name: "block1", Act: models.ReLU, Main: []models.Layer{conv("conv1", 3), models.BatchNorm{Name: "bn1"}},
			Skip: []models.Layer{conv("conv2", 1), models.BatchNorm{Name: "bn2"}}},
		models.Residual{Name: "block2", Act: square, Main: []models.Layer{conv("conv1", 3), models.BatchNorm{Name: "bn1", Act: graph.Tanh}, conv("conv2", 1), models.BatchNorm{Name: "bn2", Epsilon: 1e-3}}},
		models.Residual{Name: "block3", Main: []models.Layer{models.BatchNorm{Name: "bn1", Momentum: 0.5, Act: square}}},
		models.GlobalAvgPool{Name: "pool"},
		models.Dense{Name: "output", Units: 10},
	}}
}
