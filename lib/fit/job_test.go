package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// TestTrainJob holds that a job trains as Train does, bit by bit, on as many devices.
func TestTrainJob(t *testing.T) {
	t.Parallel()
	s := open(t)
	mlp := models.Net{Name: "mlp", Input: []int{16}, Layers: []models.Layer{models.Dense{Name: "h", Units: 8, Act: models.ReLU}, models.Dropout{Rate: 0.25}, models.Dense{Name: "o", Units: 10}}}
	plateau := optim.ReduceOnPlateau{Factor: 0.5, Patience: 1, MinDelta: 10} // after each epoch but the first
	for _, tt := range []struct {
		name    string
		model   models.Net
		devices int
		train   Train
	}{
		{"loop, last batch not full", mlp, 1, Train{Epochs: 3, Batch: 8}},
		{"single steps, order kept", small(), 1, Train{Epochs: 2, Batch: 10, InOrder: true, DropLast: true, LearningRate: 0.01}},
		{"whole batches", small(), 1, Train{Epochs: 4, Batch: 203}},
		{"loop on two devices", mlp, 2, Train{Epochs: 4, Batch: 8, ReduceOnPlateau: plateau, KeepBest: true}},
		{"single steps on four devices", small(), 4, Train{Epochs: 2, Batch: 12}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var weights [2][]Tensor
			var histories [2]*History
			for i := range 2 {
				n := attach(t, s, fmt.Sprint("net", i), tt.model, Config{Seed: 3, Devices: tt.devices, AllDevices: tt.devices > 1})
				data := load(t, n, "bars", digits(203, tt.model.Input, 1))
				tt.train.Validation = nil
				if tt.train.Batch < data.N {
					tt.train.Validation = load(t, n, "test", digits(77, tt.model.Input, 2))
				}
				var err error
				if i == 0 {
					histories[i], err = n.Fit(data, tt.train)
				} else {
					var j *Job
					if j, err = n.FitJob(data, tt.train); err == nil {
						histories[i], err = j.Follow(context.Background(), func(p Progress) { _ = p.String() })
					}
				}
				if err == nil {
					weights[i], err = n.Weights()
				}
				if err == nil {
					err = n.Reset()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			a, b := histories[0], histories[1]
			if a.Devices != tt.devices || b.Devices != tt.devices {
				t.Errorf("got %d devices, and %d in a job, want %d", a.Devices, b.Devices, tt.devices)
			}
			if !slices.Equal(a.Losses, b.Losses) || !slices.Equal(a.Right, b.Right) || len(a.Right) != a.Steps || b.Steps != a.Steps || b.Stopped != "" {
				t.Errorf("job: %d steps, stopped %q, losses %v, want %d, %v", b.Steps, b.Stopped, b.Losses[:min(3, len(b.Losses))], a.Steps, a.Losses[:3])
			}
			for i := range weights[0] {
				if !slices.Equal(weights[0][i].Data, weights[1][i].Data) {
					t.Errorf("%s is not what Train makes of it", weights[0][i].Name)
				}
			}
			if tt.train.Validation == nil {
				return
			}
			for i := range a.Epochs {
				x, y := a.Epochs[i], b.Epochs[i]
				if y.Train.Right != x.Train.Right || y.Train.N != x.Train.N || y.Validation == nil || y.Validation.Right != x.Validation.Right || abs(y.Validation.Loss-x.Validation.Loss) > 1e-5 {
					t.Errorf("epoch %d: job has %+v, %+v, want %+v, %+v", i+1, y.Train, y.Validation, x.Train, x.Validation)
				}
			}
		})
	}
	if l, err := s.List("job:"); err != nil || len(l) > 0 {
		t.Errorf("jobs that have ended leave %d arrays, %v", len(l), err)
	}
}

func abs(v float64) float64 { return max(v, -v) }

// TestTrainJobSurvives kills the worker in the middle of a job, twice: the loss
// curve is that of a job which nobody has disturbed.
func TestTrainJobSurvives(t *testing.T) {
	for _, devices := range []int{1, 2} {
		t.Run(fmt.Sprint(devices, " devices"), func(t *testing.T) { jobSurvives(t, devices) })
	}
}

func jobSurvives(t *testing.T, devices int) {
	t.Setenv("GAIDEN_CPU_DEVICES", fmt.Sprint(devices))
	socket := devicetest.Start(t)
	connect := func() *session.Session {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			s, err := session.Config{Socket: socket, Space: "kept", NoStart: true}.Open()
			if err == nil {
				return s
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	s := connect()
	defer func() { s.Close() }()
	net := models.Net{Name: "mlp", Input: []int{28 * 28}, Layers: []models.Layer{models.Dense{Name: "h", Units: 64, Act: models.ReLU}, models.Dropout{Rate: 0.1}, models.Dense{Name: "o", Units: 10}}}
	var curves [2][]float32
	for i, kills := range []int{0, 2} {
		name := fmt.Sprint("net", i)
		n := attach(t, s, name, net, Config{Seed: 3, Devices: devices, AllDevices: devices > 1})
		data := load(t, n, "bars", digits(2000, net.Input, 1))
		j, err := n.FitJob(data, Train{Epochs: 16, Batch: 10})
		if err != nil {
			t.Fatal(err)
		}
		killed := 0
		h, err := j.Follow(context.Background(), func(p Progress) {
			if killed == kills || p.Epoch < 4*(killed+1) {
				return
			}
			c := connect()
			defer c.Close()
			if _, err := c.Snapshot(""); err != nil { // in the middle of an epoch
				t.Error(err)
			}
			if st, err := c.Status(); err == nil {
				syscall.Kill(st.WorkerPID, syscall.SIGKILL)
				killed++
			}
		})
		if err != nil || killed != kills {
			t.Fatalf("%d of %d kills: %v", killed, kills, err)
		}
		s.Close()
		s = connect()
		if j, err = FindJob(s, name); err != nil {
			t.Fatal(err)
		}
		again, err := j.Follow(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.Losses, h.Losses) {
			t.Errorf("who followed the job has seen %d steps, its log has %d, or others", len(h.Losses), len(again.Losses))
		}
		if len(h.Epochs) != 16 {
			t.Errorf("%d epochs, stopped %q, want 16", len(h.Epochs), h.Stopped)
		}
		curves[i] = h.Losses
	}
	if !slices.Equal(curves[0], curves[1]) {
		t.Errorf("the curve of the job that was killed twice is another one: %d and %d steps", len(curves[1]), len(curves[0]))
	}
}

// TestTrainJobEnds: on request, by the validation, and by a loss that is no
// number, with weights that are whole.
func TestTrainJobEnds(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "cnn", small(), Config{Optimizer: optim.SGD{}})
	data := load(t, n, "bars", digits(100, n.model.Input, 1))
	if _, err := n.FitJob(data, Train{Patience: 2}); err == nil || !strings.Contains(err.Error(), "Validation") {
		t.Errorf("patience without a validation: got %v", err)
	}
	j, err := n.FitJob(data, Train{Epochs: 1000000, Batch: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Pause(); err != nil {
		t.Fatal(err)
	}
	if score, err := n.WithContext(ctx).Evaluate(data); err != nil || score.N != 100 {
		t.Errorf("test of a net whose job waits: %v, %v", score, err)
	}
	if err := errors.Join(j.Resume(), j.Stop()); err != nil {
		t.Fatal(err)
	}
	if h, err := j.Follow(ctx, nil); err != nil || h.Stopped != "on request" {
		t.Errorf("stopped job: %+v, %v", h, err)
	}
	j, err = n.FitJob(data, Train{Epochs: 50, Batch: 10, LearningRate: 1e-30, Patience: 2, Validation: data})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := j.Follow(ctx, nil); err != nil || len(h.Epochs) != 3 || !strings.Contains(h.Stopped, "2 periods") {
		t.Errorf("patience: %d epochs, stopped %q, %v, want 3", len(h.Epochs), h.Stopped, err)
	}
	if j, err = attach(t, s, n.name, n.model, Config{Optimizer: explosive{}}).FitJob(data, Train{Epochs: 3, Batch: 10}); err != nil {
		t.Fatal(err)
	}
	var wild *result.NotFiniteError
	if _, err := j.Follow(ctx, nil); !errors.As(err, &wild) || !strings.Contains(err.Error(), "kept the weights with which that epoch began") || wild.Part != "weights" {
		t.Errorf("a loss that is no number: got %v", err)
	}
	if score, err := n.WithContext(ctx).Evaluate(data); err != nil || score.Loss != score.Loss {
		t.Errorf("weights after it: %v, %v", score, err)
	}
	if _, err := FindJob(s, "none"); !errors.Is(err, wire.NotFound) {
		t.Errorf("no such job: got %v", err)
	}
}

// TestTrainJobAlone: nothing else changes a net that a job trains, whether the job
// runs or waits, and what was refused has not changed the job.
func TestTrainJobAlone(t *testing.T) {
	t.Parallel()
	s, ctx, train := open(t), context.Background(), Train{Epochs: 500, Batch: 10} // longer than the job's pause may come late
	alone := attach(t, s, "alone", small(), Config{Seed: 3})
	data := load(t, alone, "bars", digits(100, alone.model.Input, 1))
	want, err := alone.WithContext(ctx).Fit(data, train)
	if err != nil {
		t.Fatal(err)
	}
	n := attach(t, s, "net", small(), Config{Seed: 3})
	weights, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.WithContext(ctx).Phases(data, 10)
	if err == nil {
		err = errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward())
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := n.FitJob(data, train)
	for err == nil { // it has replaced what the phases hold
		var l []wire.JobInfo
		if l, err = s.Jobs(); err == nil && l[0].Entries > 0 {
			err = j.Pause()
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"Train":      func() error { _, err := n.WithContext(ctx).Fit(data, train); return err },
		"TrainJob":   func() error { _, err := n.FitJob(data, train); return err },
		"SetWeights": func() error { return n.SetWeights(weights) },
		"Restore":    func() error { _, err := n.LoadWeights("none"); return err },
		"Update":     p.Update,
		"ResetState": n.ResetState,
		"Reset":      n.Reset,
		"delete":     func() error { _, err := s.Delete("data/bars/x"); return err },
		"bind": func() error {
			return s.Bind([]string{"alone", "data/bars/x"}, []*session.Array{data.array("x"), data.array("x")})
		},
	} {
		err := change()
		var why *wire.Error
		if !errors.As(err, &why) || why.Code != wire.Invalid || !strings.Contains(why.Text, "paused") || !strings.Contains(why.Next, "%jobs stop net") {
			t.Errorf("%s during a job: got %v, want that it waits for the job", name, err)
		}
	}
	if _, err := s.Delete("alone/*"); err != nil {
		t.Errorf("delete of what no job needs: %v", err)
	}
	if err := j.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := j.Follow(ctx, nil); err != nil || !slices.Equal(got.Losses, want.Losses) {
		t.Errorf("the job has %d steps, %v; want those of Train, %d", len(got.Losses), err, len(want.Losses))
	}
	if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 10}); err != nil {
		t.Errorf("Train after the job: %v", err)
	}
}

// TestRollbackToAnother: a rollback to the arrays of another architecture is
// noticed, by a net that was open and by one that comes after it.
func TestRollbackToAnother(t *testing.T) {
	socket := devicetest.Start(t)
	s, err := session.Config{Socket: socket, Space: "other", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	net := func(units int) models.Net {
		return models.Net{Name: "mlp", Input: []int{16}, Layers: []models.Layer{models.Dense{Name: "h", Units: units}, models.Dense{Name: "o", Units: 10}}}
	}
	small := attach(t, s, "net", net(8), Config{})
	if _, err := s.Snapshot("small"); err != nil {
		t.Fatal(err)
	}
	if err := small.Reset(); err != nil {
		t.Fatal(err)
	}
	large := attach(t, s, "net", net(12), Config{})
	data := load(t, large, "bars", digits(100, []int{16}, 1))
	if _, err := large.Fit(data, Train{Batch: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("small", "net/"); err != nil {
		t.Fatal(err)
	}
	_, atAttach := Attach(s, "net", net(12), Config{})
	var wrong *result.ArchitectureError
	if !errors.As(atAttach, &wrong) {
		t.Fatalf("attach after it: got %v, want an ArchitectureError", atAttach)
	}
	for name, use := range map[string]func() error{
		"train":   func() error { _, err := large.Fit(data, Train{Batch: 10}); return err },
		"test":    func() error { _, err := large.Evaluate(data); return err },
		"weights": func() error { _, err := large.Weights(); return err },
	} {
		if err := use(); err == nil || err.Error() != atAttach.Error() {
			t.Errorf("%s after it: got %v, want %v", name, err, atAttach)
		}
	}
	if _, err := s.Undo(); err != nil {
		t.Errorf("undo of it: %v", err)
	}
	if err := large.Reset(); err != nil {
		t.Fatal(err)
	}
	deep := net(8) // what small has, and a layer more
	deep.Layers = append(deep.Layers, models.Dense{Name: "p", Units: 10})
	attach(t, s, "net", deep, Config{})
	if _, err := s.Snapshot("deep"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("small", "net/"); err != nil {
		t.Fatal(err)
	}
	small = attach(t, s, "net", net(8), Config{})
	if _, err := small.Fit(data, Train{Batch: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("deep", "net/"); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Fit(data, Train{Batch: 10}); !errors.As(err, &wrong) || !strings.Contains(wrong.Error(), "p/weights is float32[10 10], want nothing") {
		t.Errorf("train after a rollback to a deeper net: got %v, want what is more", err)
	}
	if _, err := s.Delete("net/*"); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Weights(); !errors.Is(err, wire.NotFound) || !strings.Contains(err.Error(), "has no arrays") {
		t.Errorf("weights of a net that is gone: got %v, want that it is", err)
	}
	if err := small.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Evaluate(data); err != nil {
		t.Errorf("test of a net that was reset: %v", err)
	}
}

// A rollback to another optimizer's training keeps the weights, and Train begins
// its own optimizer again.
func TestOptimizerRolledBack(t *testing.T) {
	s, err := session.Config{Socket: devicetest.Start(t), Space: "optimizer", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old := attach(t, s, "net", small(), Config{Optimizer: optim.SGD{Momentum: 0.9}})
	data := load(t, old, "bars", digits(100, old.model.Input, 1))
	want, err := old.Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot("sgd"); err != nil {
		t.Fatal(err)
	}
	n := attach(t, s, "net", small(), Config{})
	if _, err := n.Fit(data, Train{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("sgd", "net/"); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Evaluate(data); err != nil || got.Loss != want.Loss {
		t.Errorf("test after it: got %v, %v, want the snapshot's loss %v", got, err, want.Loss)
	}
	if _, err := n.Fit(data, Train{}); err != nil {
		t.Errorf("training after it: %v", err)
	}
	if l, err := s.List("net/sgd"); err != nil || len(l) > 0 {
		t.Errorf("state of the snapshot's optimizer: got %v, %v, want none", l, err)
	}
}
