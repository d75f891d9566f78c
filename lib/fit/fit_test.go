package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// server is one worker for all tests of the process: real devices, a real
// socket.
var server struct {
	sync.Once
	socket string
	err    error
}

// optimized are the flags of nets whose programs XLA is to optimize, as it does for users: see
// devicetest.FirstLook.
var optimized = map[string]any{"xla_backend_optimization_level": 3}

// Open is open, for the example, which is written from outside.
var Open = func(t testing.TB) *session.Session { return open(t) }

// open connects to the worker, in a name space of the test's own.
func open(t testing.TB) *session.Session {
	t.Helper()
	plugin := devicetest.Plugin(t)
	server.Do(func() { server.socket, server.err = devicetest.Worker(plugin, session.Version, 4) })
	if server.err != nil {
		t.Fatal(server.err)
	}
	s, err := session.Config{Socket: server.socket, Space: fmt.Sprintf("%s %p", t.Name(), t), NoStart: true}.Open() // one of its own, also with -count
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, map[string]func() error{"cell": cell, "tuner": tune, "nice": nice})
	devicetest.FirstLook()
	shortestTiming = 0 // nets of tests are small
	state, err := os.MkdirTemp("", "fit-state")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("XDG_STATE_HOME", state)
	playAsides()
	code := m.Run()
	if server.socket != "" {
		os.RemoveAll(filepath.Dir(server.socket))
	}
	os.RemoveAll(state)
	os.Exit(code)
}

// playAsides has this program play the sessions that kernels are tried in.
func playAsides() {
	sessionBinary = func() (string, error) { return "/proc/self/exe", nil }
	os.Setenv(devicetest.Role, "serve")
}

// digits are images with a bright bar whose place is the label: easy to learn.
func digits(n int, input []int, seed uint64) Data {
	r := rand.New(rand.NewPCG(seed, 1))
	size := 1
	for _, d := range input {
		size *= d
	}
	x, y := make([]byte, n*size), make([]int32, n)
	for i := range n {
		y[i] = int32(r.IntN(10))
		img := x[i*size : (i+1)*size]
		for k := range img {
			img[k] = byte(r.IntN(64))
		}
		for k := range size / 12 {
			img[(int(y[i])*size/10+k)%size] = byte(160 + r.IntN(96))
		}
	}
	return Data{X: x, Y: y}
}

func attach(t testing.TB, s *session.Session, name string, m models.Net, c Config) *Net {
	t.Helper()
	n, err := Attach(s, name, m, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// played is the target of a device that no test has: what is written for it can be read,
// and not run.
func played(platform, capability string) lower.Target {
	return lower.Target{Platform: platform, Triton: platform == "cuda", CuDNN: platform == "cuda", Capability: capability, Devices: 4}
}

func load(t testing.TB, n *Net, name string, d Data) *Set {
	t.Helper()
	s, err := n.Upload(name, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTrainLearns(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "cnn", models.SeedCNN(), Config{Seed: 1, Flags: optimized})
	train := load(t, n, "bars/train", digits(1003, n.model.Input, 1))
	test := load(t, n, "bars/test", digits(307, n.model.Input, 2))
	calls := 0
	h, err := n.Fit(train, Train{Epochs: 3, Batch: 8, Validation: test, Progress: func(Progress) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.Steps, 3*126; got != want {
		t.Errorf("steps: got %d, want %d", got, want)
	}
	if got := h.Last().Validation.Accuracy(); got < 0.95 {
		t.Errorf("validation accuracy: got %.3f, want 0.95 or more\n%s", got, h)
	}
	if calls == 0 {
		t.Error("progress: got no call, want some")
	}
	score, err := n.Evaluate(test)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*score, Score{Loss: score.Loss, Right: h.Last().Validation.Right, N: 307, Labels: true, Elapsed: score.Elapsed}) || math.Abs(score.Loss-h.Last().Validation.Loss) > 1e-6 {
		t.Errorf("test: got %v, want the validation's %v", score, h.Last().Validation)
	}
	p, err := n.Predict(test)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i, c := range p.Classes {
		if c == test.Labels[i] {
			right++
		}
	}
	if right != score.Right {
		t.Errorf("right predictions: got %d, want %d as Test counts", right, score.Right)
	}
	if testing.Verbose() {
		fmt.Print(h, "compile ", h.Compile, " device ", h.Device, "\n", score, "\n")
	}
}

func TestNetIsShown(t *testing.T) {
	unnamed := models.Net{Input: []int{4}, Layers: []models.Layer{models.Dense{Name: "output", Units: 2}}}
	for _, tt := range []struct{ got, want string }{
		{New("small", models.LeNet5(), Config{}).String(), "small: LeNet5 on [32 32 3], 8 layers"},
		{New("flowers", unnamed, Config{}).String(), "flowers: [4], 1 layer"},
		{New("flowers", unnamed, Config{}).Model().Name, "flowers"}, // for its summary and for errors
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
