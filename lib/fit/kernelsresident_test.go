package fit

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestResident holds that the steps of a resident kernel are one kernel in the program.
func TestResident(t *testing.T) {
	n := attach(t, open(t), "resident", models.MLP(1000), Config{})
	data := load(t, n, "resident/data", digits(2600, n.model.Input, 1))
	n.target = played("cuda", "9.0")
	p, err := n.Steps(data, Train{Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	text := string(p.Text(nil))
	if got := strings.Count(text, ptx.Target+"("); got != 1 || strings.Contains(text, triton.Target) {
		t.Errorf("got %d kernels, and Triton's: %t, want one and none", got, strings.Contains(text, triton.Target))
	}
}

// TestRefusedResident trains on a device that does not take the kernel, here a CPU that
// passes for a GPU: the run goes on with XLA's, and says why.
func TestRefusedResident(t *testing.T) {
	s := open(t)
	tables.Lock()
	tables.of = map[*session.Session]*tiling.Table{s: {}} // kept nowhere
	tables.Unlock()
	var losses [2][]float32
	for i, platform := range []string{"cpu", "cuda"} {
		kernels := []Kernels{XLAKernels, AutoKernels}[i] // a CPU's own are not what a GPU falls back on
		n := attach(t, s, "refuses"+platform, models.MLP(1000), Config{Seed: 3, Kernels: kernels})
		data := load(t, n, "refused/mlp", digits(2100, n.model.Input, 1))
		n.target = played(platform, "9.0")
		h, err := n.Train(context.Background(), data, Train{Batch: 100})
		if err != nil || h.Steps != 21 {
			t.Fatalf("%s: got %d steps and %v, want 21", platform, h.Steps, err)
		}
		if told := strings.Contains(h.Note, "does not take Gaiden's for MLP"); told != (platform == "cuda") {
			t.Errorf("%s: got note %q", platform, h.Note)
		}
		losses[i] = h.Losses
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(losses[0], losses[1]) {
		t.Errorf("got losses %v after the refusal, want %v", losses[1], losses[0])
	}
}

// TestImages holds which convolutions are of the kernels that have an image in a
// processor's shared memory: on a device that has been tried, those of several channels,
// both ways, of enough images.
func TestImages(t *testing.T) {
	s := open(t)
	for _, tt := range []struct {
		name       string
		capability string
		net        models.Net
		config     Config
		batch      int
		want       int
	}{
		{"Keras's", "9.0", models.KerasCNN(), Config{Optimizer: AdaDelta{}}, 128, 2},
		{"Keras's in bfloat16", "9.0", models.KerasCNN(), Config{Optimizer: AdaDelta{}, BF16: true}, 128, 2},
		{"LeNet's", "9.0", models.LeNet5(), Config{}, 100, 2}, // the third one covers its images, and is a dense layer
		{"one convolution", "9.0", models.SeedCNN(), Config{}, 100, 0},
		{"few images", "9.0", models.KerasCNN(), Config{Optimizer: AdaDelta{}}, 40, 0},
		{"another GPU", "8.0", models.KerasCNN(), Config{Optimizer: AdaDelta{}}, 128, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := attach(t, s, "images", tt.net, tt.config)
			defer n.Reset()
			data := load(t, n, "images/data", digits(2*tt.batch, n.model.Input, 1))
			n.target = played("cuda", tt.capability)
			p, err := n.epochProgram(data, withKernels(t, n, data, plan.Part{Batch: tt.batch, Devices: 1, Unroll: 1, Limit: 2, Inner: 1}))
			if err != nil {
				t.Fatal(err)
			}
			text := string(p.Text(nil))
			if got := strings.Count(text, ptx.Target+"("); got != tt.want || !strings.Contains(text, triton.Target) {
				t.Errorf("got %d such kernels, and Triton's: %t, want %d and some", got, strings.Contains(text, triton.Target), tt.want)
			}
		})
	}
}
