package fused

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestSequencePlan holds a step by the kernel against one in GoMLX's ops; that
// those are the net's own, package fit tests.
func TestSequencePlan(t *testing.T) {
	const n, examples, length = 3, 7, 4
	net := models.SineLSTM(5, length)
	plan, err := NewSequencePlan(net, n)
	if err != nil {
		t.Fatal(err)
	}
	in := []*tensors.Tensor{random(1, f32(examples, length), 1, 0), random(2, f32(examples, length), 1, 0),
		tensor(shapes.Make(dtypes.Int32, examples), []float64{6, 0, 2, 1, 3, 5, 4}), tensor(f32(), []float64{0.1})}
	weights := variables(t, net)
	at := map[string]int{}
	for i, w := range weights {
		at[w.name] = len(in)
		in = append(in, random(uint64(20+i), w.shape, 0.5, 0), random(uint64(40+i), w.shape, 0.1, 0), tensor(w.shape, slices.Repeat([]float64{0.5}, w.shape.Size())))
	}
	// Batch 2 would begin at 7: the last begins at 4.
	compareWhole(t, net.Name, plan, optim.Adam{}.Rule(), weights, at, in, n, 2, "[sequence_5 group_adam]")
}

func TestNewSequencePlan(t *testing.T) {
	other := models.SineLSTM(5, 10)
	other.Layers = slices.Clone(other.Layers)
	other.Layers[0] = models.Dense{Name: "l1", Units: 5, Act: models.ReLU}
	for _, tt := range []struct {
		net   models.Net
		batch int
		want  string // of the error
	}{
		{models.SineLSTM(5, 100), 20, ""},
		{models.SineLSTM(9, 100), 20, "9 units and batches of 20 are too many"},
		{models.SineLSTM(5, 100), 4096, "5 units and batches of 4096 are too many"},
		{models.MLP(10), 20, "want an input of [length numbers]"},
		{other, 20, "without activations"},
	} {
		if _, err := NewSequencePlan(tt.net, tt.batch); fmt.Sprint(err) != "<nil>" && tt.want == "" || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s, %d: got %v, want %q", tt.net.Name, tt.batch, err, tt.want)
		}
	}
}
