package profile

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/fit"
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

// open connects to the worker, in a name space of the test's own.
func open(t testing.TB) *session.Session {
	t.Helper()
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	server.Do(func() {
		dir, err := os.MkdirTemp("", "profile")
		if err != nil {
			server.err = err
			return
		}
		server.socket = filepath.Join(dir, "s")
		os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
		w := &device.Worker{Version: session.Version, Generation: 1, Plugin: device.Plugin{Path: plugin, Device: "cpu"}, Socket: server.socket}
		if server.err = w.Open(); server.err != nil {
			return
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: server.socket, Net: "unix"})
		if err != nil {
			server.err = err
			return
		}
		go w.Run(l)
	})
	if server.err != nil {
		t.Fatal(server.err)
	}
	s, err := session.Config{Socket: server.socket, Space: t.Name(), NoStart: true}.Open()
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
	code := m.Run()
	if server.socket != "" {
		os.RemoveAll(filepath.Dir(server.socket))
	}
	os.Exit(code)
}

// seedCNN is the net of article 000 with the pooling of choice.
func seedCNN(p models.Pooling) models.Net {
	net := models.SeedCNN()
	for i, l := range net.Layers {
		if pool, is := l.(models.MaxPool2D); is {
			pool.Gradient = p
			net.Layers[i] = pool
		}
	}
	return net
}

// noise are examples that teach nothing.
func noise(n int, input []int) fit.Data {
	size := 1
	for _, d := range input {
		size *= d
	}
	r := rand.New(rand.NewPCG(3, 4))
	x, y := make([]byte, n*size), make([]int32, n)
	for i := range x {
		x[i] = byte(r.Uint32())
	}
	for i := range y {
		y[i] = int32(r.IntN(10))
	}
	return fit.Data{X: x, Y: y}
}

func attach(t testing.TB, s *session.Session, name string, m models.Net) (*fit.Net, *fit.Set) {
	t.Helper()
	n, err := fit.Attach(s, name, m, fit.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	set, err := n.Load("train", noise(800, m.Input))
	if err != nil {
		t.Fatal(err)
	}
	return n, set
}

var quick = Options{Batch: 8, Budget: 20 * time.Millisecond}

func TestMeasure(t *testing.T) {
	s := open(t)
	n, set := attach(t, s, "cnn", seedCNN(models.IndexedFill))
	before := weights(t, s)
	o := quick
	o.Test = set
	var said []string
	o.Progress = func(what string) { said = append(said, what) }
	p, err := Measure(context.Background(), n, set, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(p.Lines(), p.Chain, p.Epoch, p.TrainError, p.TestError) {
		t.Logf("%-36s %10.3g s  %5.1f%%  %8.3g FLOP %8.3g B", l.Path(), l.Seconds(), 100*l.Share, l.FLOPs, l.Bytes)
	}
	t.Log(p.Peaks, p.Bottleneck(), p.Warnings, said)
	_ = before
}

func weights(t *testing.T, s *session.Session) map[string]bool {
	t.Helper()
	l, err := s.List("")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range l {
		names[a.Name] = true
	}
	return names
}

var _ = errors.Is
var _ = strings.Contains
