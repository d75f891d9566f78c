package fit

import (
	"context"
	"errors"
	"fmt"
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

	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestWorthwhile holds that other tilings are kept for a gain, not for noise.
func TestWorthwhile(t *testing.T) {
	for _, tt := range []struct {
		usual, tried float64
		want         bool
	}{{20.9, 18.4, true}, {39.7, 39.4, false}, {39.7, 39.7, false}, {43.9, 44.5, false}, {100, 97, true}} {
		if got := worthwhile(tt.usual, tt.tried); got != tt.want {
			t.Errorf("%v µs in place of %v: got %t, want %t", tt.tried, tt.usual, got, tt.want)
		}
	}
}

// halving is an op of one's own whose tilings a CPU can try: plain graphs that give x. The
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

// tunable is a net with such a layer, in a session whose CPU passes for a GPU. With a batch
// norm, which the table has as XLA's, its steps with kernels are programs for a CPU;
// without, the device refuses them.
func tunable(t *testing.T, s *session.Session, socket, name string, normed bool, tries func(tile int)) (*Net, *Set, *halved) {
	t.Helper()
	t.Setenv("GAIDEN_SOCKET", socket) // for the tuner's own connection
	was := pause
	t.Cleanup(func() { pause = was })
	pause = 50 * time.Millisecond
	l := &halved{tries: tries}
	net := models.Net{Name: "tunable", Input: []int{16}, Layers: []models.Layer{l, models.Dense{Name: "dense", Units: 10}}}
	config := Config{Seed: 3}
	if normed {
		net.Layers = append([]models.Layer{models.BatchNorm{Name: "norm"}}, net.Layers...)
		config.Kernels = FusedKernels
	}
	n := attach(t, s, name, net, config)
	l.net, n.platform, n.config.Session = n, "cuda", nil
	norm := kernels.Norm{Rows: 10, Channels: 16, X: dtypes.Float32, Y: dtypes.Float32}
	n.tilings().Set(norm.Key(), tiling.Entry{Plain: 1, Tried: len(norm.Tiles())})
	return n, load(t, n, "tunable/data", digits(40, net.Input, 1)), l
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
// of the one that is wrong, and that the next run has what it found.
func TestTuneCompares(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n, data, layer := tunable(t, s, server.socket, "net", true, func(int) {})
	var losses [2][]float32
	var told string
	for i, want := range []int64{0, 3} {
		if err := n.Reset(); err != nil { // both begin with the same weights
			t.Fatal(err)
		}
		h, err := n.Train(context.Background(), data, tenths)
		if err != nil {
			t.Fatal(err)
		}
		if losses[i] = h.Losses; layer.last.Load() != want {
			t.Errorf("run %d: got tiling %d, want %d", i, layer.last.Load(), want)
		}
		if i > 0 {
			break
		}
		if err := n.Tune(context.Background(), data, tenths, func(line string) { told += line + "\n" }); err != nil {
			t.Fatal(err)
		}
	}
	wrong := fmt.Sprintf("halving: not with %s: its numbers are not those of the plain form: off by 2.0e+00", kernels.Tile{M: 1})
	if strings.Count(told, wrong) != 1 || strings.Contains(told, "usual tilings stay") {
		t.Errorf("told:\n%swant once: %s", told, wrong)
	}
	if e := kept(t, s); e.Tile.M != 3 || e.Tried != 4 {
		t.Errorf("kept: got %+v, want tiling 3", e)
	}
	if !slices.Equal(losses[0], losses[1]) {
		t.Errorf("got losses %v with what was found, want the usual's %v", losses[1], losses[0])
	}
}

// TestTunesInPauses runs the background's tuner whole. A run that begins while it tries
// something has the device for itself, and the rest is tried after it.
func TestTunesInPauses(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	middle, on := make(chan bool), make(chan bool)
	var once sync.Once
	var tried atomic.Int64
	asked := map[int]uint64{} // for, over the net's connection, when a tiling is tried
	n, data, layer := tunable(t, s, server.socket, "net", true, func(tile int) {
		tried.Store(int64(tile))
		asked[tile], _ = s.Asked()
		if tile == 2 {
			once.Do(func() { close(middle); <-on })
		}
	})
	if _, err := n.Train(context.Background(), data, tenths); err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() { over <- n.tuneInPauses(data, tenths) }()
	<-middle
	during, looked := int64(-1), false
	run := tenths
	run.Progress = func(Progress) {
		if looked {
			return
		}
		looked = true
		close(on)
		time.Sleep(10 * pause) // for one who does not wait
		during = tried.Load()
	}
	if _, err := n.Train(context.Background(), data, run); err != nil {
		t.Fatal(err)
	}
	if during != 2 || layer.last.Load() != 0 {
		t.Errorf("during a run: got tiling %d tried and %d in use, want the refused one still, and the usual one", during, layer.last.Load())
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if asked[-1] != asked[1] {
		t.Error("tilings are tried over the net's connection, want one of their own: they would count as work to be waited for")
	}
	if e := kept(t, s); e.Tile.M != 3 || e.Tried != 4 || n.tilings().Known(n.stepKey(10)).Micros <= 0 {
		t.Errorf("kept: got %+v, and %+v of the step, want tiling 3, and a time", e, n.tilings().Known(n.stepKey(10)))
	}
	if _, err := n.Train(context.Background(), data, tenths); err != nil || layer.last.Load() != 3 {
		t.Errorf("the next run: got tiling %d and %v, want 3", layer.last.Load(), err)
	}
}

// TestTunerLosesSession ends the worker while a tiling is tried: the tuner ends, what it
// knew is kept, and the next one goes on there.
func TestTunerLosesSession(t *testing.T) {
	socket := apart(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	connect := func() *session.Session {
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
	s := connect()
	middle, on := make(chan bool), make(chan bool)
	var once sync.Once
	n, data, _ := tunable(t, s, socket, "net", true, func(tile int) {
		if tile == 2 {
			once.Do(func() { close(middle); <-on })
		}
	})
	over := make(chan error)
	go func() { over <- n.tuneInPauses(data, tenths) }()
	<-middle
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(status.WorkerPID, syscall.SIGKILL)
	close(on)
	if err := <-over; !errors.Is(err, wire.Lost) {
		t.Errorf("got %v, want that the session is lost", err)
	}
	s = connect()
	if e := kept(t, s); e.Tile.M != 0 || e.Micros <= 0 || e.Tried != 1 {
		t.Errorf("kept: got %+v, want the usual tiling, and that no other was tried", e)
	}
	var tried []int
	n, data, _ = tunable(t, s, socket, "again", true, func(tile int) { tried = append(tried, tile) })
	if err := n.tuneInPauses(data, tenths); err != nil {
		t.Fatal(err)
	}
	if e := kept(t, s); e.Tile.M != 3 || e.Tried != 4 || slices.Contains(tried, 0) {
		t.Errorf("the next tuner: got %+v after %v, want tiling 3, and the usual one not again", e, tried)
	}
}

// TestTrainTunes holds that a run begins to tune in the background, once, and that it does
// no harm where the device refuses all kernels of the step.
func TestTrainTunes(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n, data, layer := tunable(t, s, server.socket, fmt.Sprintf("net%p", t), false, func(int) {})
	h, err := n.Train(context.Background(), data, tenths)
	if err != nil || !strings.Contains(h.Note, "does not take Gaiden's") {
		t.Fatalf("got note %q and %v, want the device's refusal", h.Note, err)
	}
	over := func() bool { // Usual, which is last, leaves no time of the plain form
		e := n.tilings().Known(halving{}.Key())
		return e.Tried == 4 && e.Plain == 0 && kept(t, s) == e
	}
	for end := time.Now().Add(time.Minute); !over(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("got %+v, want all tilings tried, and the usual one", n.tilings().Known(halving{}.Key()))
		}
	}
	if e := n.tilings().Known(n.stepKey(10)); e.Refused == "" {
		t.Errorf("the step: got %+v, want that it is refused", e)
	}
	if h, err := n.Train(context.Background(), data, tenths); err != nil || h.Note != "" {
		t.Errorf("the next run: got note %q and %v, want XLA's kernels, and none", h.Note, err)
	}
	before := layer.writes.Load()
	time.Sleep(10 * pause) // for a second tuner, which would write the step
	if got := layer.writes.Load(); got != before {
		t.Errorf("got %d programs written after the next run, want none", got-before)
	}
}
