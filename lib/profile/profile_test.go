package profile

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/sealed"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
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

// Open is open, for the example, which is written from outside.
var Open = func(t testing.TB) *session.Session { return open(t) }

// open connects to the worker, in a name space of the test's own.
func open(t testing.TB) *session.Session {
	t.Helper()
	plugin := devicetest.Plugin(t)
	server.Do(func() {
		server.socket, server.err = devicetest.Worker(plugin, session.Version, 2)
		os.Setenv("XDG_CACHE_HOME", filepath.Join(filepath.Dir(server.socket), "cache"))
	})
	if server.err != nil {
		t.Fatal(server.err)
	}
	s, err := session.Config{Socket: server.socket, Space: t.Name(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	if tt, is := t.(*testing.T); is {
		knownPeaks(tt, s)
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

// seedCNN is the net of notebook 02's article with the pooling of choice.
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
	set, err := n.Upload("train", noise(800, m.Input))
	if err != nil {
		t.Fatal(err)
	}
	return n, set
}

var quick = Options{Batch: 8, Budget: 20 * time.Millisecond}

// TestMeasure holds that every part of a step is there, and that the net is
// what it was.
func TestMeasure(t *testing.T) {
	s := open(t)
	n, set := attach(t, s, "cnn", seedCNN(models.IndexedFill))
	before := values(t, s, "cnn/")
	o := quick
	o.Test = set
	said := 0
	o.Progress = func(string) { said++ }
	result.Display = func(net string) (func(fit.Progress), func(*fit.History, error)) {
		t.Errorf("got a progress bar of %s in a cell that measures", net)
		return func(fit.Progress) {}, func(*fit.History, error) {}
	}
	defer func() { result.Display = nil }()
	p, err := Measure(context.Background(), n, set, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(p.Phases), "next forward loss backward update"; got != want {
		t.Errorf("got the phases %s, want %s", got, want)
	}
	if got, want := names(p.Forward), "conv pool flatten dense output"; got != want {
		t.Errorf("got the layers %s, want %s", got, want)
	}
	if got, want := names(p.Backward), "output dense flatten pool conv"; got != want {
		t.Errorf("got the layers %s, want %s, as they run", got, want)
	}
	if len(p.Ops) < 3 {
		t.Errorf("got the ops %s, want some", names(p.Ops))
	}
	for _, group := range [][]Line{p.Phases, p.Forward, p.Backward, p.Ops} {
		sum := 0.0
		for _, l := range group {
			sum += l.Share
			if !(l.Seconds() > 0) || l.Calls != 100 || !(l.Bytes > 0) || l.Time.Err != nil || l.Kernels != -1 {
				t.Errorf("%s: got %+v, want a time, 100 calls, bytes, and no kernels", l.Path(), l)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: got shares that add up to %g, want 1", group[0].Path(), sum)
		}
	}
	// The conv layer forwards, as it is written for a CPU: 28·7 blocks of 4 neighbours
	// that see 3·6 numbers, times their 4·10 channels.
	if got, low, high := p.Forward[0].FLOPs, 8*2*28*7*18*40*1., 8*2*28*7*18*40*1.2; got < low || got > high {
		t.Errorf("conv: got %g FLOPs, want %g to %g", got, low, high)
	}
	if p.Seen == 0 || !(p.Measured() > 0) || !(p.Estimate() > 0) || p.Steps != 100 || p.Batch != 8 {
		t.Errorf("got an epoch of %g s by %d of %d steps, estimated %g", p.Measured(), p.Seen, p.Steps, p.Estimate())
	}
	if p.TrainError.Time.N() == 0 || p.TestError.Time.N() == 0 {
		t.Errorf("got no times of the errors: %+v %+v", p.TrainError, p.TestError)
	}
	for _, path := range []string{"backward", "backward/pool", p.Ops[0].Path(), "step", "epoch", "train error"} {
		if l, err := p.Find(path); err != nil || l.Path() != path {
			t.Errorf("%s: got %s, %v", path, l.Path(), err)
		}
	}
	if _, err := p.Find("sideways"); err == nil || !strings.Contains(err.Error(), "want one of next, forward, loss, backward, update, forward/conv") {
		t.Errorf("a phase that there is not: got %v", err)
	}
	if _, err := p.Find("backward/pool/fil"); err == nil || !strings.Contains(err.Error(), p.Ops[0].Path()) || strings.Contains(err.Error(), "forward/conv") {
		t.Errorf("an op that there is not: got %v, want those of its layer", err)
	}
	if p.Partial || said < 5 {
		t.Errorf("got partial %t, %d words of progress", p.Partial, said)
	}
	want := regexp.MustCompile(`^backward takes .* of a step; in it layer pool takes .*, and of that its fill \(one by one, through an index\)`)
	if p.Busy() != "" {
		want = regexp.MustCompile(`^no bottleneck: not measurable here, the machine is busy: `)
	}
	if got := p.Bottleneck().String(); !want.MatchString(got) {
		t.Errorf("got %q, want what the article found: %s", got, want)
	}
	if after := values(t, s, "cnn/"); !reflect.DeepEqual(after, before) {
		t.Error("the net's arrays are others than before it was measured")
	}
	if left, err := s.List("cnn.clone"); err != nil || len(left) > 0 {
		t.Errorf("got %d arrays of the clone, %v, want none to be left", len(left), err)
	}
}

func names(lines []Line) string {
	var l []string
	for _, line := range lines {
		l = append(l, line.Name())
	}
	return strings.Join(l, " ")
}

// values are all arrays with a prefix.
func values(t *testing.T, s *session.Session, prefix string) map[string]any {
	t.Helper()
	l, err := s.List(prefix)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, info := range l {
		a, err := s.Array(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		shape, _ := a.Shape()
		v := reflect.MakeSlice(reflect.SliceOf(shape.DType.GoType()), shape.Size(), shape.Size()).Interface()
		if err := a.Values(v); err != nil {
			t.Fatal(err)
		}
		all[info.Name] = v
	}
	return all
}

// TestMeasureEveryKind measures a net without convolutions, one with layers that
// have no gradient of their own, and one of a single function.
func TestMeasureEveryKind(t *testing.T) {
	s := open(t)
	dropout := models.Net{Name: "dropout", Input: []int{12}, Layers: []models.Layer{
		models.Dense{Name: "a", Units: 5, Act: models.ReLU}, models.Dropout{Name: "drop", Rate: 0.5}, models.Dense{Name: "b", Units: 10}}}
	for i, m := range []models.Net{models.MLP(7), dropout} {
		n, err := fit.Attach(s, m.Name, m, fit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		set, err := n.Upload(m.Name, noise(64, m.Input))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Budget: time.Millisecond, NoErrors: true, NoEpoch: true, NoOps: i == 0, AllOps: i == 1}
		p, err := Measure(context.Background(), n, set, o)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if p.Batch != 32 || len(p.Phases) != 5 || len(p.Forward) != len(m.Layers) || i == 1 && len(p.Ops) < 2*len(m.Layers) {
			t.Errorf("%s: got batch %d, %d phases, %d layers, %d ops", m.Name, p.Batch, len(p.Phases), len(p.Forward), len(p.Ops))
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	s := open(t)
	n, set := attach(t, s, "cnn", models.SeedCNN())
	tests := []struct {
		name  string
		set   *fit.Set
		batch int
		want  string
	}{
		{"no data", nil, 8, "no data set: want one that Upload, Stream or Data has returned"},
		{"too large a batch", set, 801, "batch of 801 from the 800 examples"},
		{"a negative batch", set, -1, "batch of -1"},
	}
	for _, tt := range tests {
		if _, err := Measure(context.Background(), n, tt.set, Options{Batch: tt.batch}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if _, err := Measure(context.Background(), n, set, Options{Budget: -1}); err == nil || !strings.Contains(err.Error(), "a budget of -1ns") {
		t.Errorf("a budget below 0: got %v", err)
	}
	if _, err := Synthetic(n, -1); err == nil || !strings.Contains(err.Error(), "got -1 examples") {
		t.Errorf("-1 examples of noise: got %v", err)
	}
	if _, err := SweepBatches(context.Background(), n, set, SweepOptions{Most: -1}); err == nil || !strings.Contains(err.Error(), "batches of up to -1 examples") {
		t.Errorf("a sweep of batches of up to -1: got %v", err)
	}
	if _, err := SweepBatches(context.Background(), n, nil, SweepOptions{}); err == nil {
		t.Error("a sweep without data: got no error")
	}
	if _, err := SweepBatches(context.Background(), n, set, SweepOptions{Runs: -1}); err == nil || !strings.Contains(err.Error(), "got -1 runs") {
		t.Errorf("a sweep of -1 runs: got %v", err)
	}
	if _, err := SweepBatches(context.Background(), n, set, SweepOptions{Compile: -1}); err == nil || !strings.Contains(err.Error(), "to compile in") {
		t.Errorf("a sweep with less than no time: got %v", err)
	}
	if _, err := SweepActivation(context.Background(), s, "gelu", 3, nil); err == nil || !strings.Contains(err.Error(), "relu, sigmoid, tanh") {
		t.Errorf("an activation that nobody knows: got %v", err)
	}
	if _, err := SweepActivation(context.Background(), s, "relu", 99, nil); err == nil {
		t.Error("2^99 numbers: got no error")
	}
	if _, err := Record(s, func() error { t.Error("it ran"); return nil }); !errors.Is(err, ErrNoProfiler) {
		t.Errorf("a recording on a CPU: got %v, want ErrNoProfiler", err)
	}
}

// TestStop holds that a stop gives what is known.
func TestStop(t *testing.T) {
	s := open(t)
	n, set := attach(t, s, "cnn", models.SeedCNN())
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Batch: 8, Budget: 50 * time.Millisecond, Progress: func(what string) {
		if what == "layers" {
			cancel()
		}
	}}
	p, err := Measure(ctx, n, set, o)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Partial || len(p.Phases) != 5 || p.Phases[0].Time.N() == 0 || len(p.Ops) > 0 {
		t.Errorf("got partial %t, %d phases, %d ops, want the phases alone", p.Partial, len(p.Phases), len(p.Ops))
	}
	cancel()
	b, err := SweepBatches(ctx, n, set, SweepOptions{Most: 8, Runs: 3})
	if err != nil || !b.Partial || len(b.Points) > 0 {
		t.Errorf("a sweep that was stopped before it began: got %+v, %v", b, err)
	}
}

func TestSweeps(t *testing.T) {
	s := open(t)
	n, set := attach(t, s, "cnn", models.SeedCNN())
	b, err := SweepBatches(context.Background(), n, set, SweepOptions{Most: 5, Runs: 6})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Points) != 3 || b.Points[2].Batch != 4 || b.Points[2].Core.N() != 6 || !(b.Points[2].Mean() > 0) || !(b.Points[2].Variance() > 0) {
		t.Errorf("got %+v, want batches of 1, 2 and 4, 6 runs each", b.Points)
	}
	hurried, err := SweepBatches(context.Background(), n, set, SweepOptions{Most: 32, Runs: 1, Compile: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(hurried.Left)+len(hurried.Points) != 6 || len(hurried.Left) == 0 || hurried.Partial {
		t.Errorf("a nanosecond to compile in: got %d sizes, %v left out, want some of six left out", len(hurried.Points), hurried.Left)
	}
	for _, name := range Activations() {
		w, err := SweepActivation(context.Background(), s, name, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Points) != 3 || w.Points[2].N != 4 || w.Points[2].Host.N() == 0 || !(w.Floor() > 0) || !(w.Throughput() > 0) {
			t.Errorf("%s: got %+v, want 1, 2 and 4 numbers", name, w.Points)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, want := range [][]int{{0}, {0, 1}, {0, 2, 1}, {0, 3, 1, 2}, {0, 8, 4, 2, 6, 1, 3, 5, 7}} {
		if got := spread(len(want)); !slices.Equal(got, want) {
			t.Errorf("spread(%d) is %v, want %v", len(want), got, want)
		}
	}
}

func TestSets(t *testing.T) {
	s := open(t)
	n, _ := attach(t, s, "cnn", models.SeedCNN())
	for _, name := range []string{"mnist/test", "mnist/train", "a"} {
		if _, err := n.Upload(name, noise(16, n.Model().Input)); err != nil {
			t.Fatal(err)
		}
	}
	mlp, err := fit.Attach(s, "mlp", models.MLP(3), fit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete("data/train/*"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Upload("heldout", noise(4, n.Model().Input)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, train, test, err string }{
		{"", "mnist/train", "mnist/test", ""},
		{"a", "a", "", ""},
		{"mnist/train", "mnist/train", "mnist/test", ""},
		{"nodata", "", "", "there are "},
	}
	for _, tt := range tests {
		train, test, err := Sets(mlp, tt.name) // an MLP takes the same images
		name := func(s *fit.Set) string {
			if s == nil {
				return ""
			}
			return s.Name
		}
		if name(train) != tt.train || name(test) != tt.test || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: got %q, %q, %v, want %q, %q, an error with %q", tt.name, name(train), name(test), err, tt.train, tt.test, tt.err)
		}
	}
	s.Delete("data/mnist/*")
	if train, _, err := Sets(mlp, ""); err != nil || train.Name != "a" {
		t.Errorf("no name says train: got %v, %v, want the largest set", train, err)
	}
	if set, err := Synthetic(n, 32); err != nil || set.N != 32 || n.Suits(set) != nil {
		t.Errorf("noise: got %v, %v, want 32 examples that fit", set, err)
	}
	peaks, err := fit.Attach(s, "peaks", models.Peaks(), fit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if set, err := Synthetic(peaks, 32); err != nil || peaks.Suits(set) != nil {
		t.Errorf("noise for a net that returns a number: got %v, %v", set, err)
	}
}

func TestPeaksAreKept(t *testing.T) {
	s := open(t)
	if err := os.WriteFile(peaksPath(s), []byte(`{"copy": 0, "f32"`), 0o600); err != nil { // torn
		t.Fatal(err)
	}
	first, err := ReadPeaks(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.Copy < 1e8 || first.TF32 < first.Copy/100 || first.Latency < first.Dispatch/10 || first.Ridge() <= 0 {
		t.Errorf("got %v, want figures of a computer", first)
	}
	first.Busy = true
	keepPeaks(peaksPath(s), first)
	again := false
	second, err := ReadPeaks(context.Background(), s, func(string) { again = true })
	if err != nil || !again || second.TF32 < first.TF32 || second.Latency > first.Latency {
		t.Errorf("of a busy machine: got %v, %v, measured again: %t; want none worse than %v", second, err, again, first)
	}
	second.Busy = false
	keepPeaks(peaksPath(s), second)
	third, err := ReadPeaks(context.Background(), s, func(what string) { t.Errorf("said %q, want nothing measured", what) })
	if err != nil || !third.Time.Equal(second.Time) {
		t.Errorf("got %v, %v, want those of %v", third, err, second)
	}
}

// knownPeaks spares a test the measuring of peaks.
func knownPeaks(t *testing.T, s *session.Session) {
	t.Helper()
	b, err := json.Marshal(Peaks{Device: "test", Copy: 10e9, F32: 50e9, TF32: 50e9, BF16: 50e9, Dispatch: 1e-5, Latency: 5e-5, Time: time.Now()})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(peaksPath(s)), 0o700)
	}
	if err == nil {
		err = sealed.Write(peaksPath(s), b)
	}
	if err != nil {
		t.Fatal(err)
	}
}
