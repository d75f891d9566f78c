package hosts_test

import (
	"errors"
	"math"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/datasets"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// pair is a session with one device and a follower with another: two GPUs of one host, or CPUs.
func pair(t *testing.T) (*session.Session, string, *follower) {
	t.Helper()
	if onGPUs() {
		t.Setenv("GAIDEN_DEVICE", "cuda:1")
	}
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	if onGPUs() {
		t.Setenv("GAIDEN_DEVICE", "cuda:0")
	}
	began := time.Now()
	socket := devicetest.Start(t)
	s := add(t, open(t, socket), socket, "", f)
	t.Logf("two processes are ready after %v", time.Since(began).Round(time.Millisecond))
	return s, socket, f
}

// TestTraining trains nets on two devices that share each batch: those of one process, and
// those of two. The losses must be the same.
func TestTraining(t *testing.T) {
	if !onGPUs() {
		t.Skip("needs two GPUs and a CUDA plugin: the test double of the CPU's adds nothing up")
	}
	t.Setenv("GAIDEN_MEMORY_FRACTION", "0.35") // a GPU has two sessions here
	together := devicetest.Start(t)
	s, _, _ := pair(t)
	one := open(t, together)
	if n := len(one.Welcome().Devices); n != 2 {
		t.Skipf("got %d devices in one process, want 2", n)
	}
	for _, tt := range []struct {
		net           models.Net
		images, batch int
		size          [3]int
		epochs        int
	}{
		{models.MLP(1000), 20_000, 1000, [3]int{28, 28, 1}, 3},
		{models.ResNet152(), 8192, 2048, [3]int{32, 32, 3}, 3},
	} {
		t.Run(tt.net.Name, func(t *testing.T) {
			images, err := datasets.Synthetic(1, tt.images+100, tt.size[0], tt.size[1], tt.size[2])
			if err != nil {
				t.Fatal(err)
			}
			images = images.First(tt.images, 100)
			train := func(s *session.Session, name string) []float32 {
				n, err := fit.Attach(s, tt.net.Name, tt.net, fit.Config{Seed: 1, Devices: 2, AllDevices: true})
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
			if !(worst < 1e-3) {
				t.Errorf("losses of two processes differ by %g, want less than 0.001", worst)
			}
		})
	}
}

// TestTrainingInterrupted kills a follower's worker while it trains: the training ends with an
// error, and the next one, on both again, does not.
func TestTrainingInterrupted(t *testing.T) {
	s, socket, f := pair(t)
	images, err := datasets.Synthetic(1, 164, 28, 28, 1)
	if err != nil {
		t.Fatal(err)
	}
	images = images.First(64, 100)
	train := func(epochs int, onEpoch func(*fit.Control) error) error {
		n, err := fit.Attach(s, "net", models.MLP(16), fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: true})
		if err != nil {
			return err
		}
		data, err := n.Upload("data", fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
		if err != nil {
			return err
		}
		_, err = n.Fit(data, fit.Train{Epochs: epochs, Batch: 16, OnEpoch: onEpoch})
		return err
	}
	var killed time.Time
	err = train(1_000_000, func(*fit.Control) error {
		if killed.IsZero() {
			killed = time.Now()
			syscall.Kill(f.worker(t), syscall.SIGKILL)
		}
		return nil
	})
	t.Logf("training ended after %v: %v", time.Since(killed), err)
	if !errors.Is(err, wire.Lost) {
		t.Errorf("got %v, want that the session was lost", err)
	}
	s = open(t, socket)
	t.Logf("the next generation serves after %v; note: %s", time.Since(killed), s.Welcome().Note)
	if n := len(s.Welcome().Devices); n != 2 {
		t.Fatalf("got %d devices, want 2", n)
	}
	if !onGPUs() {
		return // to compile it again takes long, and TestFollowers has done as much
	}
	if err := train(2, nil); err != nil {
		t.Error(err)
	}
	t.Logf("another training has ended after %v", time.Since(killed))
}
