package fit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestWorthwhile holds that other tilings are kept for a gain, not for noise.
func TestWorthwhile(t *testing.T) {
	for _, tt := range []struct {
		usual, tried float64
		want         bool
	}{{20.9, 18.4, true}, {39.7, 39.4, false}, {39.7, 39.7, false}, {43.9, 44.5, false}, {100, 97, true}} {
		if got := faster(tt.usual, tt.tried); got != tt.want {
			t.Errorf("%v µs in place of %v: got %t, want %t", tt.tried, tt.usual, got, tt.want)
		}
	}
}

// halving is an op of your own whose tilings a CPU can try: plain graphs that give x. The
// usual one, 0, takes a third of the plain form's time, 1 is the fastest and wrong, 2 is refused,
// and 3 is fast.
type halving struct {
	tile  kernels.Tile
	shape shapes.Shape
	tries func(tile int) // is told what is tried; may wait
}

func (o halving) Key() string                       { return "halving" }
func (o halving) Tiles() []kernels.Tile             { return []kernels.Tile{{}, {M: 1}, {M: 2}, {M: 3}} }
func (o halving) With(tile kernels.Tile) kernels.Op { o.tile = tile; return o }
func (o halving) Form() tiling.Form {
	return tiling.Form{Inputs: []tiling.Input{{Shape: o.shape}}, Build: func(ops fused.Ops, in []*graph.Node) []*graph.Node {
		y, tile := o.apply(ops, in[0])
		o.tries(tile)
		return []*graph.Node{y}
	}}
}

// apply also says which tiling it takes; -1 is the plain form.
func (o halving) apply(ops fused.Ops, x *graph.Node) (y *graph.Node, tile int) {
	tile = -1
	if ops.Builder != nil {
		if chosen, is := ops.Choose(o).(halving); is {
			tile = chosen.tile.M
		}
	}
	switch tile {
	case 0:
		return halfway(x, 3000), tile
	case 1:
		return graph.Neg(x), tile
	case 2:
		l := []shapes.Shape{o.shape}
		return fused.Call(ops.Builder, triton.Kernel{Name: "halving", Inputs: l, Outputs: l, Body: func(b *triton.Block) {
			i := b.Range(16)
			b.Output(0).At(i).Store(b.Input(0).At(i).Load())
		}}, x)[0], tile
	case 3:
		return halfway(x, 30), tile
	}
	return halfway(x, 9000), tile
}

// halfway goes from x halfway to x, again and again.
func halfway(x *graph.Node, turns int) *graph.Node {
	g := x.Graph()
	none, one, half := graph.Const(g, int32(0)), graph.Const(g, int32(1)), graph.Const(g, float32(0.5))
	state := func(g *graph.Graph) []*graph.Node {
		return []*graph.Node{graph.Parameter(g, "left", none.Shape()), graph.Parameter(g, "x", x.Shape()), graph.Parameter(g, "y", x.Shape())}
	}
	more := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node { return []*graph.Node{graph.GreaterThan(state(g)[0], none)} })
	next := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
		l := state(g)
		return []*graph.Node{graph.Sub(l[0], one), l[1], graph.Mul(graph.Add(l[1], l[2]), half)}
	})
	return graph.While(more, next, graph.Const(g, int32(turns)), x, x)[2]
}

// halved is a layer of the op, with the tiling that its net's table has for it.
type halved struct {
	net    *Net
	tries  func(tile int)
	last   atomic.Int64 // the tiling of the last program that was written for a GPU
	writes atomic.Int64 // how many were
}

func (l *halved) Title() (name, kind string) { return "halved", "Activation" }
func (l *halved) Apply(_ *model.Scope, x *graph.Node) *graph.Node {
	o := fused.On(x)
	if o.Builder == nil {
		return x
	}
	o.Choose = l.net.tilings().Choose
	y, tile := halving{shape: x.Shape(), tries: l.tries}.apply(o, x)
	l.last.Store(int64(tile))
	l.writes.Add(1)
	return graph.Add(x, graph.StopGradient(graph.Sub(y, x))) // a loop has no gradient
}

// tunable is a net with such a layer, over a connection to a session whose CPU passes for a
// GPU. Its batch norm leaves kernels to its LSTM alone, which the table has as XLA's, so
// that its steps with kernels are programs for a CPU.
func tunable(t *testing.T, s *session.Session, name string, tries func(tile int)) (*Net, *Set, *halved) {
	t.Helper()
	was := idleTime
	t.Cleanup(func() { idleTime = was })
	idleTime = 50 * time.Millisecond
	l := &halved{tries: tries}
	net := models.Net{Name: "tunable", Input: []int{1, 4}, Layers: []models.Layer{models.LSTM{Name: "lstm", Units: 16}, models.Flatten{}, models.BatchNorm{Name: "norm"}, l, models.Dense{Name: "dense", Units: 10}}}
	n := attach(t, s, name, net, Config{Seed: 3, Kernels: FusedKernels})
	l.net, n.target = n, played("cuda", "")
	lstm := kernels.Recurrence{Length: 1, Batch: 10, Units: 16, Compute: dtypes.Float32}
	for _, op := range []kernels.Op{lstm, kernels.RecurrenceBack{Recurrence: lstm}} {
		n.tilings().Set(op.Key(), tiling.Entry{Plain: 1, Tried: len(op.Tiles())})
	}
	return n, load(t, n, "tunable/data", digits(40, net.Input, 1)), l
}

// tuneInPauses tunes as a process of its own does, over the net's connection.
func tuneInPauses(n *Net, data *Set) error {
	p := idleWatcher{watched: n.session}
	look := tiling.Options{Before: func() error { return p.wait(context.Background()) }}
	return n.tune(context.Background(), data, tenths, look, func(string) {})
}

// kept is what a session's table has for the op on disk.
func kept(t *testing.T, s *session.Session) tiling.Entry {
	t.Helper()
	table, err := tiling.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return table.Known(halving{}.Key())
}

var tenths = Train{Batch: 10}

// TestTuneCompares holds that Tune takes the fastest way whose numbers are right, tells
// of the one that is wrong, and that the next run has what it found, which a time of the usual
// tilings from a less busy hour does not outdo.
func TestTuneCompares(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n, data, layer := tunable(t, s, "net", func(int) {})
	key, err := n.choices(context.Background(), data, tenths, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	n.tilings().Set(key, tiling.Entry{Micros: 0.001, Plain: 0.001})
	var losses [2][]float32
	var told string
	for i, want := range []int64{0, 3} {
		if err := n.Reset(); err != nil { // both begin with the same weights
			t.Fatal(err)
		}
		h, err := n.Fit(data, tenths)
		if err != nil {
			t.Fatal(err)
		}
		if losses[i] = h.Losses; layer.last.Load() != want {
			t.Errorf("run %d: got tiling %d, want %d", i, layer.last.Load(), want)
		}
		if i > 0 {
			break
		}
		if err := n.Tune(data, tenths, func(line string) { told += line + "\n" }); err != nil {
			t.Fatal(err)
		}
	}
	wrong := fmt.Sprintf("halving: not with %s: its numbers are not those of the plain form: off by 2.0e+00", kernels.Tile{M: 1})
	if strings.Count(told, wrong) != 1 || strings.Contains(told, "usual tilings stay") {
		t.Errorf("told:\n%swant once: %s", told, wrong)
	}
	if e, step := kept(t, s), n.tilings().Known(key); e.Tile.M != 3 || e.Tried != 4 || step.Micros < 0.01 {
		t.Errorf("kept: got %+v, and %+v of the step, want tiling 3 and a time", e, step)
	}
	if !slices.Equal(losses[0], losses[1]) {
		t.Errorf("got losses %v with what was found, want the usual's %v", losses[1], losses[0])
	}
}

// TestTunesInPauses runs a tuner beside a net's runs. A run that begins while it tries
// something has the device for itself, and the rest is tried after it. What it found the
// next run has, whose process did not look for it.
func TestTunesInPauses(t *testing.T) {
	s, other := open(t), open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	middle, on := make(chan bool), make(chan bool)
	var once sync.Once
	var tried atomic.Int64
	n, data, layer := tunable(t, s, "net", func(int) { t.Error("the run tries a tiling") })
	if _, err := n.Fit(data, tenths); err != nil {
		t.Fatal(err)
	}
	tuner, same, _ := tunable(t, other, "net", func(tile int) {
		tried.Store(int64(tile))
		if tile == 2 {
			once.Do(func() { close(middle); <-on })
		}
	})
	over := make(chan error)
	go func() { over <- tuneInPauses(tuner, same) }()
	<-middle
	idleTime = 300 * time.Millisecond // in which a busy machine lets everybody do something
	during, looked, pause := int64(-1), false, time.Duration(0)
	run := tenths
	run.Progress = func(Progress) {
		if looked {
			return
		}
		looked = true
		close(on)
		last := time.Now()
		for end := last.Add(3 * idleTime); last.Before(end); time.Sleep(time.Millisecond) { // for one who does not wait
			if err := nudge(s); err != nil {
				t.Error(err)
			}
			pause, last = max(pause, time.Since(last)), time.Now()
		}
		during = tried.Load()
	}
	if _, err := n.Fit(data, run); err != nil {
		t.Fatal(err)
	}
	if during != 2 && pause < idleTime || layer.last.Load() != 0 {
		t.Errorf("during a run: got tiling %d tried and %d in use, want the refused one still, and the usual one", during, layer.last.Load())
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	step := tuner.tilings().Known(n.stepKey(10))
	if e := kept(t, s); e.Tile.M != 3 || e.Tried != 4 || e.Proposed || step.Micros <= 0 {
		t.Errorf("kept: got %+v, and %+v of the step, want tiling 3, accepted, and a time", e, step)
	}
	if _, err := n.Fit(data, tenths); err != nil || layer.last.Load() != 3 {
		t.Errorf("the next run: got tiling %d and %v, want 3", layer.last.Load(), err)
	}
}

// apart says which worker kernels are tried in at the moment, 0 if in none.
func apart(t *testing.T) (worker func() int) {
	t.Helper()
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	return func() int {
		sockets, _ := filepath.Glob(filepath.Join(state, "gaiden", "private-*", "run", "s.sock"))
		if len(sockets) != 1 {
			return 0
		}
		s, err := session.Config{Socket: sockets[0], NoStart: true}.Open()
		if err != nil {
			return 0
		}
		defer s.Close()
		st, err := s.Status()
		if err != nil {
			return 0
		}
		return st.WorkerPID
	}
}

// TestTrialsApart holds that kernels are tried in another session than that of the net,
// which has ended when the net's steps are compared again, and that where its worker
// ends while a tiling is tried the net's lives on. What was known is kept, and the next
// tuner goes on behind what was being tried: it may have been the reason.
func TestTrialsApart(t *testing.T) {
	worker := apart(t)
	s := open(t)
	before := trialsIn(t, s)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var once sync.Once
	n, data, _ := tunable(t, s, "net", func(tile int) {
		if tile == 2 {
			once.Do(func() { syscall.Kill(worker(), syscall.SIGKILL) })
		}
	})
	if err := tuneInPauses(n, data); !errors.Is(err, wire.Lost) || !strings.Contains(err.Error(), "next to the net's") {
		t.Errorf("got %v, want that the session of the trials is lost", err)
	}
	if e := kept(t, s); e.Tile.M != 0 || e.Micros <= 0 || e.Tried != 3 || !e.Proposed {
		t.Errorf("kept: got %+v, want the usual tiling, and that two others were tried", e)
	}
	if _, err := n.Fit(data, tenths); err != nil {
		t.Errorf("the net's session: got %v, want one that trains", err)
	}
	var tried []int
	var others int // tried while there was no session apart
	n, data, layer := tunable(t, s, "again", func(tile int) {
		tried = append(tried, tile)
		if worker() == 0 {
			others++
		}
	})
	if err := tuneInPauses(n, data); err != nil {
		t.Fatal(err)
	}
	if e := kept(t, s); e.Tile.M != 3 || e.Tried != 4 || e.Proposed || slices.Contains(tried, 2) {
		t.Errorf("the next tuner: got %+v after %v, want tiling 3, and what was tried not again", e, tried)
	}
	if others > 0 || worker() != 0 || layer.last.Load() != 3 {
		t.Errorf("got %d tilings tried outside, worker %d at the end and steps with tiling %d, want none, none and 3", others, worker(), layer.last.Load())
	}
	if after := trialsIn(t, s); after != before {
		t.Errorf("the net's session has %d programs of trials, want the %d of other tests", after, before)
	}
}

// trialsIn is how many programs a session has that were to be tried.
func trialsIn(t *testing.T, s *session.Session) (n int) {
	t.Helper()
	all, err := s.Ask(wire.AskBody{Verb: wire.Programs})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Programs {
		if p.Origin == "tiling" || p.Origin == "gaiden tune" {
			n++
		}
	}
	return n
}

// TestTunerLosesSession ends the net's worker while a tiling is tried: the tuner ends, and
// that tiling, which was tried apart, is not to blame.
func TestTunerLosesSession(t *testing.T) {
	apart(t)
	socket := devicetest.Start(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := await(t, socket)
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	n, data, _ := tunable(t, s, "net", func(tile int) {
		if tile == 3 {
			once.Do(func() { syscall.Kill(status.WorkerPID, syscall.SIGKILL) })
		}
	})
	if err := tuneInPauses(n, data); !errors.Is(err, wire.Lost) {
		t.Errorf("got %v, want that the session is lost", err)
	}
	s = await(t, socket)
	if e := kept(t, s); e.Tile.M != 0 || e.Micros <= 0 || e.Tried != 3 || !e.Proposed {
		t.Errorf("kept: got %+v, want the usual tiling, and that the last one is to be tried", e)
	}
}

// TestNoSessionApart holds that Tune says so where there is no session to try kernels in.
func TestNoSessionApart(t *testing.T) {
	s := open(t)
	t.Setenv("GAIDEN_SOCKET", server.socket)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("PATH", "")
	defer func(was func() (string, error)) { sessionBinary = was }(sessionBinary)
	sessionBinary = session.Binary
	n, data, _ := tunable(t, s, "net", func(int) { t.Error("a tiling is tried") })
	for range 2 {
		if err := n.Tune(data, tenths, nil); !errors.Is(err, errNoSandbox) || !errors.Is(err, wire.Unavailable) {
			t.Errorf("got %v, want that there is no session to try kernels in", err)
		}
	}
}

// relabelled is a loss of your own.
type relabelled struct{ losses.CrossEntropy }

// TestNothingToTune holds that Tune says why there is nothing to find.
func TestNothingToTune(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config Config
		gpu    bool
		want   string
	}{
		{"a CPU", Config{}, false, "Gaiden's kernels are for CUDA GPUs, and this is a CPU"},
		{"XLA's", Config{Kernels: XLAKernels}, true, "the net is to have XLA's kernels"},
		{"another loss", Config{Loss: relabelled{}}, true, "Gaiden has none for cross entropy, whose examples may count differently"},
		{"two devices", Config{Devices: 2, AllDevices: true}, true, "kernels on several devices are XLA's"},
	} {
		s := open(t)
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		n := attach(t, s, "net", small(), tt.config)
		data := load(t, n, "bars", digits(40, n.model.Input, 1))
		if tt.gpu {
			n.target = played("cuda", "")
		}
		told := ""
		if err := n.Tune(data, tenths, func(line string) { told += line }); err != nil || !strings.HasPrefix(told, "net: there is nothing to choose from: ") || !strings.Contains(told, tt.want) {
			t.Errorf("%s: told %q and got %v, want %q", tt.name, told, err, tt.want)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// await connects to a session that is starting.
func await(t *testing.T, socket string) *session.Session {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		s, err := session.Config{Socket: socket, NoStart: true}.Open()
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
