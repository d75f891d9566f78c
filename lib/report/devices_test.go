package report

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"gaiden/lib/datasets"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// twoDevices is a session with two CPU devices: real ones, over a real socket.
func twoDevices(t *testing.T) *session.Session {
	t.Helper()
	socket, err := devicetest.Worker(devicetest.Plugin(t), session.Version, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Config{Socket: socket, Space: t.Name(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDevices(t *testing.T) {
	s := twoDevices(t)
	images, err := datasets.Synthetic(1, 600, 8, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	config := fit.Config{Seed: 1, Session: s}
	n := fit.New("mlp", models.Net{Name: "small", Input: []int{8, 8, 1}, Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "out", Units: 10}}}, config)
	trial := Trial{Net: n, Config: config, Data: "synthetic <8×8>",
		Train: fit.Data{X: images.Train.Pixels, Y: images.Train.Labels}, Test: fit.Data{X: images.Test.Pixels, Y: images.Test.Labels},
		Fit: fit.Train{Epochs: 4, Batch: 20}, CPUEpochs: 2}
	r, err := Devices(context.Background(), trial)
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Runs[0].History.Last(); last.Number != 4 {
		t.Errorf("a CPU alone did %d of 4 epochs", last.Number)
	}
	// A run beside a GPU, and one as a machine with two GPUs has it.
	r.Runs = nil
	if err := r.add(context.Background(), trial, s, "CPU", 1, false); err != nil {
		t.Fatal(err)
	}
	if err := r.add(context.Background(), trial, s, "2 GPUs, forced", 2, true); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || r.Runs[0].Where != "CPU" || r.Runs[1].History.Devices != 2 {
		t.Fatalf("got %+v, want the CPU and two devices", r.Runs)
	}
	seconds, estimated := r.Runs[0].Seconds()
	done := r.Runs[0].History.Last()
	if want := 2 * (done.Elapsed - r.Runs[0].History.Compile).Seconds(); !estimated || done.Number != 2 || math.Abs(seconds-want) > 1e-9 {
		t.Errorf("2 of 4 epochs: got %g s, estimated %t, want %g s, estimated", seconds, estimated, want)
	}
	// One seed: the same losses on one device as on two, but for the order of
	// sums.
	for i, e := range r.Runs[0].History.Epochs {
		if other := r.Runs[1].History.Epochs[i]; math.Abs(e.Train.Loss-other.Train.Loss) > 1e-4*e.Train.Loss {
			t.Errorf("epoch %d: got losses %g and %g, want the same", i+1, e.Train.Loss, other.Train.Loss)
		}
	}
	wellFormed(t, r.HTML())
	for _, want := range []string{"CPU", "2 GPUs, forced", "~", "for 4 epochs", "GPU: left out", "synthetic <8×8>"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("got %s, want %q in it", r, want)
		}
	}
	if _, found := r.Run("CPU"); !found {
		t.Error("there is no run CPU")
	}
	// The copies are gone, the net's own name was never used.
	list, err := s.List("mlp")
	if err != nil || len(list) != 0 {
		t.Errorf("left in the session: %v, %v, want nothing", list, err)
	}
}

// TestCPUSession holds that the session of the CPU is separate and ends with its use.
func TestCPUSession(t *testing.T) {
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	defer func(was func() (string, error)) { sessionBinary = was }(sessionBinary)
	sessionBinary = func() (string, error) { return "/proc/self/exe", nil }
	t.Setenv(devicetest.Role, "serve")
	s, end, err := cpuSession()
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Welcome(); w.Platform != "cpu" || len(w.Devices) == 0 {
		t.Errorf("got %+v, want a CPU", w)
	}
	end()
	if _, err := s.Status(); err == nil {
		t.Error("the session answers after its end")
	}
}

func TestDevicesRefuses(t *testing.T) {
	net := fit.New("net", models.Peaks(), fit.Config{})
	for _, tt := range []struct {
		trial Trial
		want  string
	}{
		{Trial{Net: net, Fit: fit.Train{Validation: &fit.Set{Name: "d"}}}, "got Fit.Validation d"},
		{Trial{Net: net, CPUEpochs: -1}, "CPUEpochs is -1: want 1 or more"},
		{Trial{Net: net, CPUEpochs: 1, NoCPU: true}, "CPUEpochs is 1, and NoCPU leaves it without use"},
		{Trial{Net: net, Most: -2}, "Most is -2: want 1 or more"},
		{Trial{Net: net, Phases: true}, "Phases is set without Fit.Batch"},
	} {
		if _, err := Devices(context.Background(), tt.trial); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	if _, err := Devices(context.Background(), Trial{}); err == nil || !strings.Contains(err.Error(), "no net") {
		t.Errorf("no net: got %v", err)
	}
	s := twoDevices(t)
	c := fit.Config{Session: s}
	n := fit.New("n", models.Peaks(), c)
	if _, err := Devices(context.Background(), Trial{Net: n, Config: c}); err == nil {
		t.Error("no data: got no error")
	}
	p := datasets.Peaks(10)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Devices(ctx, Trial{Net: n, Config: c, Train: fit.Data{X: p.X, Y: p.Y}, Fit: fit.Train{Batch: 10, Epochs: 1e6}})
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Errorf("stopped: got %v and %v, want what is known and that it was stopped", r, err)
	}
}

func TestDeviceRunsOfAnything(t *testing.T) {
	h := &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: fit.Score{Loss: math.NaN()}, Elapsed: time.Second}}}
	for _, r := range []*DeviceRuns{{}, {Runs: []DeviceRun{{Where: "<b>"}}}, {Runs: []DeviceRun{{Where: "CPU", History: h, Epochs: 1}, {Where: "GPU", History: &fit.History{}}}}} {
		wellFormed(t, r.HTML())
		if r.String() == "" {
			t.Error("got no text")
		}
	}
}
