package fit

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/models"
)

// TestWeights holds that a weight of 2 is the example twice, and of 0 none, for labels and
// numbers: the same loss, and the same weights after a step.
func TestWeights(t *testing.T) {
	t.Parallel()
	s := open(t)
	x := []float32{1, 2, -1, 0.5, 3, 1}
	twice := []float32{1, 2, -1, 0.5, -1, 0.5}
	net := func(units int) models.Net {
		return models.Net{Name: "linear", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "out", Units: units}}}
	}
	square := losses.Func{Name: "square", Of: func(out, y *Node) *Node { return Square(Sub(out, y)) }}
	nan := float32(math.NaN())
	for name, tt := range map[string]struct {
		units      int
		loss       losses.Loss
		weighted   Data
		duplicated Data
	}{
		"labels":      {3, nil, Data{X: x, Y: []int32{0, 2, 1}, V: []float32{1, 2, 0}}, Data{X: twice, Y: []int32{0, 2, 2}}},
		"numbers":     {1, nil, Data{X: x, Y: []float32{3, 4, nan}, V: []float32{1, 2, 0}}, Data{X: twice, Y: []float32{3, 4, 4}}},
		"of examples": {2, losses.Huber{}, Data{X: x, Y: []float32{3, 4, 1, 2, nan, 1}, V: []float32{1, 2, 0}}, Data{X: twice, Y: []float32{3, 4, 1, 2, 1, 2}}},
		"one's own":   {1, square, Data{X: x, Y: []float32{3, 4, 9}, V: []float32{1, 2, 0}}, Data{X: twice, Y: []float32{3, 4, 4}}},
	} {
		var loss []float64
		var out [][]float32
		for _, d := range []Data{tt.weighted, tt.duplicated} {
			n := attach(t, s, "n", net(tt.units), Config{Seed: 1, Loss: tt.loss})
			set := load(t, n, "d", d)
			if again := load(t, n, "d", d); again.Fresh {
				t.Errorf("%s: the same data were uploaded twice", name)
			}
			before, err := n.Evaluate(set)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.Fit(set, Train{Batch: 3}); err != nil {
				t.Fatal(err)
			}
			loss = append(loss, before.Loss)
			out = append(out, slices.Concat(weightsOf(t, n)["out/weights"], weightsOf(t, n)["out/biases"]))
			if _, err := n.Phases(set, 3); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		if math.Abs(loss[0]-loss[1]) > 1e-6 {
			t.Errorf("%s: loss %v with weights, %v with copies", name, loss[0], loss[1])
		}
		for i := range out[0] {
			if math.Abs(float64(out[0][i]-out[1][i])) > 1e-6 {
				t.Errorf("%s: weight %d is %v with weights, %v with copies", name, i, out[0][i], out[1][i])
			}
		}
	}
}

// TestSequences holds that nets learn with CTC and by contrast, in bfloat16 too.
func TestSequences(t *testing.T) {
	t.Parallel()
	s := open(t)
	r := digits(64, []int{6}, 1)
	labels := r.Y.([]int32)
	var x []float32
	var y []int32
	for i := range 64 {
		a, b := int(labels[i])%3+1, int(labels[(i+1)%64])%3+1
		for step := range 6 {
			one := make([]float32, 4)
			switch step {
			case 1, 2:
				one[a] = 1
			case 4:
				one[b] = 1
			default:
				one[0] = 1
			}
			x = append(x, one...)
		}
		y = append(y, int32(a), int32(b))
	}
	for _, bf16 := range []bool{false, true} {
		ctc := attach(t, s, "ctc", models.Net{Name: "ctc", Input: []int{6, 4}, Layers: []models.Layer{models.Dense{Name: "out", Units: 4}}}, Config{Seed: 1, Loss: losses.CTC{}, BF16: bf16})
		set := load(t, ctc, "sequences", Data{X: x, Y: y})
		h, err := ctc.Fit(set, Train{Epochs: 60, Batch: 16, LearningRate: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		if h.Last().Train.Loss > 0.2 || h.Last().Train.Labels {
			t.Errorf("CTC, bf16 %t: got %v, want a loss below 0.2", bf16, h.Last())
		}
		near := attach(t, s, "near", models.Net{Name: "near", Input: []int{6}, Layers: []models.Layer{models.Dense{Name: "out", Units: 4}}}, Config{Seed: 1, Loss: losses.Contrastive{}, BF16: bf16})
		set = load(t, near, "bars", r)
		first, err := near.Evaluate(set)
		if err != nil {
			t.Fatal(err)
		}
		if h, err = near.Fit(set, Train{Epochs: 30, Batch: 32, LearningRate: 0.02}); err != nil || h.Last().Train.Loss > 0.8*first.Loss {
			t.Errorf("contrastive, bf16 %t: got %v, %v, want less than %v", bf16, h.Last(), err, first)
		}
		for _, n := range []*Net{ctc, near} {
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
