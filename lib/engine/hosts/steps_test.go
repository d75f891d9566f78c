package hosts_test

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestSteps: steps and loops of your own, nets with a state and with random numbers, tests and
// predictions give on the devices of two processes what they give on those of one.
func TestSteps(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches; TestTraining is for two GPUs")
	}
	t.Setenv("GAIDEN_CPU_DEVICES", "2")
	one := open(t, devicetest.Start(t))
	t.Setenv("GAIDEN_CPU_DEVICES", "1")
	two, _ := pair(t)
	x, y := make([]float32, 64*8), make([]int32, 64)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for i := range y {
		y[i] = int32(i % 4)
	}
	config := func(s *session.Session) fit.Config {
		return fit.Config{Session: s, Seed: 1, Devices: 2, AllDevices: true, FirstLook: true}
	}
	attach := func(t *testing.T, name string, net models.Net, c fit.Config) (*fit.Net, *fit.Set) {
		n, err := fit.Attach(c.Session, name, net, c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := n.Upload(name+"/data", fit.Data{X: x, Y: y})
		if err != nil {
			t.Fatal(err)
		}
		return n, data
	}
	for name, do := range map[string]func(t *testing.T, s *session.Session) []float32{
		"batch norm, dropout": func(t *testing.T, s *session.Session) []float32 {
			net := small
			net.Layers = []models.Layer{models.Dense{Name: "l1", Units: 16}, models.BatchNorm{Name: "bn", Act: models.ReLU},
				models.Dropout{Name: "drop", Rate: 0.3}, models.Dense{Name: "output", Units: 4}}
			n, data := attach(t, "norm", net, config(s))
			h, err := n.Fit(data, fit.Train{Epochs: 3, Batch: 32, Validation: data})
			if err != nil {
				t.Fatal(err)
			}
			p, err := n.Predict(x[:8])
			if err != nil {
				t.Fatal(err)
			}
			return append(append(h.Losses, float32(h.Last().Validation.Loss)), p.Output...)
		},
		"a step": func(t *testing.T, s *session.Session) []float32 {
			c := config(s)
			c.Step = func(s *step.Step) {
				noise := s.Normal(s.X.Shape().Dimensions...)
				out := s.Forward(Add(s.X, MulScalar(noise, 0.1)))
				loss := losses.Mean(losses.CrossEntropy{}, out, s.Y)
				s.Minimize(loss)
				s.Report("own", MulScalar(loss, 2))
			}
			n, data := attach(t, "step", small, c)
			h, err := n.Fit(data, fit.Train{Epochs: 3, Batch: 32})
			if err != nil {
				t.Fatal(err)
			}
			return append(h.Losses, float32(h.Last().Train.Metric("own")))
		},
		"a loop": func(t *testing.T, s *session.Session) (all []float32) {
			n, data := attach(t, "loop", small, config(s))
			for range 2 {
				for b := range data.Batches(32) {
					g := n.Gradients(b)
					loss, err := g.Loss()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, float32(loss))
					if err := n.Apply(g); err != nil {
						t.Fatal(err)
					}
				}
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := do(t, one), do(t, two)
			if len(got) != len(want) || len(got) < 4 {
				t.Fatalf("got %d numbers, want %d", len(got), len(want))
			}
			for i := range want {
				if d := math.Abs(float64(got[i] - want[i])); !(d < 1e-5) {
					t.Errorf("number %d is %v on two processes, want %v as on one", i, got[i], want[i])
				}
			}
		})
	}
}
