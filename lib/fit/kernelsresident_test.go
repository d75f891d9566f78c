package fit

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestResident holds when the steps of a turn are one kernel: for a large enough
// classifier of three layers, on a device that has been tried and has a processor for
// each block. What the kernel computes is package resident's to test.
func TestResident(t *testing.T) {
	s := open(t)
	h200, cpu := played("cuda", "9.0"), lower.Target{}
	wide := models.MLP(1000)
	deep := models.MLP(1000)
	deep.Layers = append([]models.Layer{deep.Layers[0], models.Dense{Name: "l0", Units: 1000, Act: models.ReLU}}, deep.Layers[1:]...)
	for _, tt := range []struct {
		name   string
		target lower.Target
		net    models.Net
		config Config
		batch  int
		floats bool
		want   bool
	}{
		{"MLP", h200, wide, Config{}, 100, false, true},
		{"MLP in bfloat16", h200, wide, Config{BF16: true}, 100, false, true},
		{"MLP of float32", h200, wide, Config{}, 100, true, true},
		{"largest batch", h200, wide, Config{}, 128, false, true},
		{"larger batch", h200, wide, Config{}, 129, false, false},
		{"CPU", cpu, wide, Config{}, 100, false, false},
		{"part of a GPU", lower.Target{Platform: "cuda", Triton: true, Capability: "9.0", Processors: 127}, wide, Config{}, 100, false, false},
		{"another GPU", played("cuda", "8.0"), wide, Config{}, 100, false, false},
		{"light net", h200, models.MLP(300), Config{}, 100, false, false},
		{"wider than it fits", h200, models.MLP(1025), Config{}, 100, false, false},
		{"four layers", h200, deep, Config{}, 100, false, false},
		{"momentum", h200, wide, Config{Optimizer: SGD{Momentum: 0.9}}, 100, false, true},
		{"SGD", h200, wide, Config{Optimizer: SGD{}}, 100, false, true},
		{"AdaDelta", h200, wide, Config{Optimizer: AdaDelta{}}, 100, false, true},
		{"XLA's kernels", h200, wide, Config{Kernels: XLAKernels}, 100, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := attach(t, s, "resident", tt.net, tt.config)
			defer n.Reset()
			d := digits(2600, n.model.Input, 1)
			if tt.floats {
				x := make([]float32, len(d.X.([]byte)))
				for i, b := range d.X.([]byte) {
					x[i] = float32(b) / 255
				}
				d.X = x
			}
			data := load(t, n, "resident/data", d)
			n.target = tt.target
			fused := n.fuses(data, chunk{Batch: tt.batch, Devices: 1})
			steps := data.N / tt.batch
			c := n.split(steps, tt.batch, 1, hlo.Cost{FLOPs: 1e9}, fused > 0, fused > 0 && n.resident(data, tt.batch) != nil)
			if c.Fused = fused; c.Resident != tt.want {
				t.Fatalf("got resident %t, want %t", c.Resident, tt.want)
			}
			if !tt.want {
				return
			}
			if c.Unroll != steps {
				t.Errorf("got %d steps a kernel, want %d", c.Unroll, steps)
			}
			p, err := n.epochProgram(data, c)
			if err != nil {
				t.Fatal(err)
			}
			text := string(p.Text(nil))
			if got := strings.Count(text, ptx.Target+"("); got != 1 || strings.Contains(text, triton.Target) {
				t.Errorf("got %d kernels, and Triton's: %t, want one and none", got, strings.Contains(text, triton.Target))
			}
			told, err := n.Fused(data)
			if err != nil || !strings.Contains(told, "batches of up to 128, many steps are one kernel") {
				t.Errorf("Fused: got %q and %v", told, err)
			}
		})
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
			p, err := n.epochProgram(data, chunk{Batch: tt.batch, Devices: 1, Fused: 1, Unroll: 1, Limit: 2, Inner: 1})
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
