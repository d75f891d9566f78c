package hosts_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// TestJobs: a job on two hosts continues when one is lost and comes back, with the losses of
// Fit. While a host is missing it waits, and says for what.
func TestJobs(t *testing.T) {
	on := func(gpu string) {
		if onGPUs() {
			t.Setenv("GAIDEN_DEVICE", gpu)
		}
	}
	on("cuda:1")
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	on("cuda:0")
	socket := devicetest.Start(t)
	s := add(t, open(t, socket), socket, "", f)
	net := models.Net{Name: "net", Input: []int{8}, Layers: []models.Layer{models.Dense{Name: "l1", Units: 16, Act: models.ReLU},
		models.Dropout{Name: "drop", Rate: 0.1}, models.Dense{Name: "output", Units: 4}}}
	x, y := make([]float32, 64*8), make([]int32, 64)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for i := range y {
		y[i] = int32(i % 4)
	}
	const epochs = 20
	train := func(name string, see func(fit.Progress)) []float32 {
		t.Helper()
		n, err := fit.Attach(s, name, net, fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: true})
		if err != nil {
			t.Fatal(err)
		}
		data, err := n.Upload("data", fit.Data{X: x, Y: y})
		if err != nil {
			t.Fatal(err)
		}
		var h *fit.History
		if settings := (fit.Train{Epochs: epochs, Batch: 24, Validation: data}); see == nil {
			h, err = n.Fit(data, settings)
		} else if j, e := n.FitJob(data, settings); e != nil {
			err = e
		} else {
			h, err = j.Follow(t.Context(), see)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Devices != 2 || len(h.Epochs) != epochs {
			t.Errorf("%s: got %d devices, %d epochs, stopped %q, want 2, %d", name, h.Devices, len(h.Epochs), h.Stopped, epochs)
		}
		return h.Losses
	}
	want := train("calm", nil)
	disturbed := 0
	got := train("net", func(p fit.Progress) {
		switch text := p.String(); {
		case disturbed == 0 && p.Epoch >= 4:
			disturbed++
			syscall.Kill(f.worker(t), syscall.SIGKILL)
		case disturbed == 1 && p.Epoch >= 8:
			disturbed++
			f.Process.Kill()
			f.Wait()
		case disturbed == 2 && strings.Contains(text, "paused"):
			disturbed++
			if !strings.Contains(text, "it needs 2 devices, and the session has 1") || !strings.Contains(text, "%hosts add") {
				t.Errorf("job without its host: got %q, want that it waits for devices", text)
			}
			c := open(t, socket)
			if _, err := c.ResumeJob("net"); !errors.Is(err, wire.Unavailable) {
				t.Errorf("resume without the host: got %v, want a refusal", err)
			}
			on("cuda:1")
			f = startFollower(t, f.address)
			if onGPUs() {
				add(t, c, socket, "", f)
				break
			}
			other := startFollower(t, f.address+"2") // of three hosts, a program uses all or one
			c = add(t, c, socket, "", f, other)
			waits := func() bool {
				l, err := c.Jobs()
				return err == nil && slices.ContainsFunc(l, func(i wire.JobInfo) bool { return strings.Contains(i.Why, "it runs on 2 hosts, and the session has 3") })
			}
			for end := time.Now().Add(recovery); !waits(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("a job for two hosts does not say that it waits on three")
				}
			}
			if _, err := c.Ask(wire.AskBody{Verb: wire.Hosts, Remove: []string{other.address}}); err != nil {
				t.Error(err)
			}
		}
	})
	equal := func(a, b float32) bool { return a == b || onGPUs() && math.Abs(float64(a-b)) < 1e-4 } // whose workers may choose other algorithms
	if disturbed != 3 || !slices.EqualFunc(got, want, equal) {
		t.Errorf("after %d events, got %d losses, want the %d of Fit, which nobody has disturbed", disturbed, len(got), len(want))
	}
}
