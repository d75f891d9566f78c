package hosts_test

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"gaiden/lib/datasets"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestTraining trains nets on two devices that share each batch: those of one process, and
// those of two. On GPUs the losses must be the same; the test double of the CPU's plugin adds
// nothing up, and so the training only has to run there.
func TestTraining(t *testing.T) {
	gpus := onGPUs()
	if t.Setenv("GAIDEN_MEMORY_FRACTION", "0.35"); !gpus { // a GPU has two sessions here
		t.Setenv("GAIDEN_CPU_DEVICES", "2")
	}
	together := devicetest.Start(t)
	if gpus {
		t.Setenv("GAIDEN_DEVICE", "cuda:1")
	} else {
		t.Setenv("GAIDEN_CPU_DEVICES", "1")
	}
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	if gpus {
		t.Setenv("GAIDEN_DEVICE", "cuda:0")
	}
	began := time.Now()
	apart := devicetest.Start(t)
	s := add(t, open(t, apart), apart, f)
	t.Logf("two processes are ready after %v", time.Since(began).Round(time.Millisecond))
	one := open(t, together)
	if n := len(one.Welcome().Devices); n != 2 {
		t.Skipf("got %d devices in one process, want 2", n)
	}
	for _, tt := range []struct {
		net           models.Net
		images, batch int
		size          [3]int
		epochs        int
		onCPU         bool
	}{
		{models.MLP(16), 64, 16, [3]int{28, 28, 1}, 3, true},
		{models.MLP(1000), 20_000, 1000, [3]int{28, 28, 1}, 3, false},
		{models.ResNet152(), 8192, 2048, [3]int{32, 32, 3}, 3, false},
	} {
		if !gpus && !tt.onCPU {
			continue
		}
		t.Run(tt.net.Name, func(t *testing.T) {
			images, err := datasets.Synthetic(1, tt.images+100, tt.size[0], tt.size[1], tt.size[2])
			if err != nil {
				t.Fatal(err)
			}
			images = images.First(tt.images, 100)
			train := func(s *session.Session, name string) []float32 {
				n, err := fit.Attach(s, tt.net.Name, tt.net, fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: !gpus})
				if err != nil {
					t.Fatal(err)
				}
				data, err := n.Upload(tt.net.Name+"/data", fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
				if err != nil {
					t.Fatal(err)
				}
				var losses []float32
				for i := range 2 {
					began := time.Now()
					h, err := n.Fit(data, fit.Train{Epochs: tt.epochs, Batch: tt.batch, DropLast: true})
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if h.Devices != 2 {
						t.Errorf("%s: trained on %d devices, want 2", name, h.Devices)
					}
					t.Logf("%s, run %d: %v for %d steps, of it %v to compile, %v on the devices; loss %v to %v", name, i+1,
						time.Since(began).Round(time.Millisecond), h.Steps, h.Compile, h.Device, h.Losses[0], h.Losses[len(h.Losses)-1])
					losses = append(losses, h.Losses...)
				}
				return losses
			}
			want, got := train(one, "one process"), train(s, "two processes")
			if len(got) != len(want) || len(got) == 0 {
				t.Fatalf("got %d losses, want %d", len(got), len(want))
			}
			worst, at := 0.0, 0
			for i := range want {
				if d := math.Abs(float64(got[i]-want[i])) / math.Max(1, math.Abs(float64(want[i]))); d > worst || d != d {
					worst, at = d, i
				}
			}
			t.Logf("losses differ by at most %.2g, at step %d: %v and %v", worst, at, got[at], want[at])
			if gpus && !(worst < 1e-3) {
				t.Errorf("losses of two processes differ by %g, want less than 0.001", worst)
			}
		})
	}
}
