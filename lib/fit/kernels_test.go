package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
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

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// dropped is a net with random numbers between its kernels.
func dropped() models.Net {
	net := small()
	net.Layers = append(net.Layers[:4:4], models.Dense{Name: "dense", Units: 8, Act: models.ReLU}, models.Dropout{Name: "dropout_1", Rate: 0.3}, net.Layers[4])
	return net
}

// TestPlan trains by the plan of fused kernels, in GoMLX's ops, and holds that
// losses and all of the state are those of the net as GoMLX derives it, random
// numbers included. What the kernels compute is package fused's to test.
func TestPlan(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct {
		net    models.Net
		config Config
	}{
		{small(), Config{}},
		{dropped(), Config{Optimizer: AdaDelta{}, Unroll: 2}},
		{models.MLP(20), Config{BF16: true}},
		{models.SineLSTM(5, 7), Config{}},
		{models.SineLSTM(5, 7), Config{BF16: true}},
		{models.SineLSTM(20, 7), Config{Optimizer: SGD{}}},
		{models.SineLSTM(9, 7), Config{BF16: true}},
		{models.Peaks(), Config{}},
		{models.Peaks(), Config{Optimizer: AdaDelta{}, Unroll: 2, BF16: true}},
		{normal(), Config{Optimizer: SGD{Momentum: 0.9}}},
		{normal(), Config{BF16: true}},
	} {
		name := fmt.Sprint(i, " ", tt.net.Name)
		var losses [2][]float32
		var states [2]map[string][]float32
		for k, kernels := range []Kernels{XLAKernels, plainOps} {
			c := tt.config
			c.Kernels, c.Seed, c.FirstLook = kernels, 5, true
			n := attach(t, s, fmt.Sprintf("net%d%d", i, k), tt.net, c)
			d := digits(47, n.model.Input, 1)
			switch tt.net.Name {
			case "SineLSTM":
				d = numbers(47, 7, 7, 1)
			case "Peaks":
				d = numbers(47, 2, 1, 1)
			}
			data := load(t, n, fmt.Sprint("bars", i), d)
			h, err := n.Train(context.Background(), data, Train{Batch: 10, DropLast: i > 0})
			if err != nil {
				t.Fatal(err)
			}
			losses[k], states[k] = h.Losses, map[string][]float32{}
			for _, v := range n.layout.all() {
				if v.shape.DType.IsFloat() {
					a, err := s.Array(n.name + "/" + v.name)
					if err != nil {
						t.Fatal(err)
					}
					l := make([]float32, v.shape.Size())
					if err := a.Values(l); err != nil {
						t.Fatal(err)
					}
					states[k][v.name] = l
				}
			}
		}
		part := 1e-3
		if tt.config.BF16 {
			part = 5e-2 // gradients are rounded at other places
		}
		if len(losses[0]) < 4 || len(losses[1]) != len(losses[0]) {
			t.Fatalf("%s: got %d and %d losses, want as many", name, len(losses[0]), len(losses[1]))
		}
		for k, want := range losses[0] {
			if got := losses[1][k]; math.Abs(float64(got-want)) > part*math.Abs(float64(want)) {
				t.Errorf("%s: loss %d: got %v, want %v", name, k, got, want)
				break
			}
		}
		if !tt.config.BF16 {
			compare(t, states[1], states[0], part)
		}
	}
}

// TestFusedPrograms holds how many kernels the epochs of the benchmark's nets
// have for a GPU, and that they are text that a CPU can write.
func TestFusedPrograms(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		net     models.Net
		config  Config
		batch   int
		largest int // kernels of a step
	}{
		{models.SeedCNN(), Config{}, 8, 7},
		{models.MLP(1000), Config{}, 100, 6},
		{models.LeNet5(), Config{}, 100, 13},
		{models.KerasCNN(), Config{Optimizer: AdaDelta{}, BF16: true}, 128, 20},
		{models.SineLSTM(5, 50), Config{}, 20, 2},
		{models.Peaks(), Config{}, 40, 2},
		{models.Peaks(), Config{BF16: true, Optimizer: SGD{Momentum: 0.9}}, 40, 2},
	} {
		n := attach(t, s, strings.ToLower(tt.net.Name), tt.net, tt.config)
		d := digits(tt.batch, n.model.Input, 1)
		switch tt.net.Name {
		case "SineLSTM":
			d = numbers(tt.batch, 50, 50, 1)
		case "Peaks":
			d = numbers(tt.batch, 2, 1, 1)
		}
		data := load(t, n, tt.net.Name, d)
		if got := n.fuses(data, n.once(tt.batch, 1)); got != 0 {
			t.Errorf("%s: got kernels on a CPU, want none", tt.net.Name)
		}
		c := chunk{Batch: tt.batch, Inner: 4, Unroll: 1, Limit: 2, Devices: 1, Fused: 1}
		p, err := n.epochProgram(data, c)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Count(string(p.Text(nil)), "custom_call @"+triton.Target)
		t.Logf("%s: %d kernels", tt.net.Name, got)
		if got < 2 || got > tt.largest {
			t.Errorf("%s: got %d kernels a step, want 2 to %d", tt.net.Name, got, tt.largest)
		}
		calls := regexp.MustCompile(`custom_call @.* name = "(\w+)".* loc\((#\w+)\)`).FindAllStringSubmatch(string(p.Text(nil)), -1)
		for _, call := range calls { // what a profiler needs
			label := regexp.MustCompile(call[2] + ` = loc\("([^"/]+/[^"/]+)"`).FindStringSubmatch(string(p.Text(nil)))
			if label == nil || !strings.HasSuffix(call[1], "__"+hlo.Symbol(label[1])) {
				t.Errorf("%s: kernel %s has the label %q, want one of layer and phase, and the kernel named after it", tt.net.Name, call[1], label)
			}
		}
		if len(calls) != got {
			t.Errorf("%s: %d of %d kernels have a label", tt.net.Name, len(calls), got)
		}
		counted := p.Calls()
		if len(counted) != got {
			t.Errorf("%s: got %d calls counted, want all %d kernels", tt.net.Name, len(counted), got)
		}
		state := 2 * float64(n.weighs()) // the update reads and writes it
		for _, c := range counted {
			if c.Times != 4 || strings.HasPrefix(c.Name, "group_") && !(c.Bytes > 0.95*state) {
				t.Errorf("%s: got %+v, want 4 times, and of an update the %g bytes of the state at least", tt.net.Name, c, state)
			}
		}
		plain, err := n.Steps(data, Train{Batch: tt.batch})
		if err != nil {
			t.Fatal(err)
		}
		if len(plain.Calls()) != 0 || plain.FLOPs() < 1 {
			t.Errorf("%s: Steps on a CPU: got calls %v, want a program without kernels", tt.net.Name, plain.Calls())
		}
	}
}

// TestFused holds what is said of nets with kernels and without.
func TestFused(t *testing.T) {
	s := open(t)
	net := small()
	normal := net
	normal.Layers = append([]models.Layer{models.BatchNorm{Name: "norm"}}, net.Layers...)
	for i, tt := range []struct {
		net    models.Net
		config Config
		data   Data
		want   string
	}{
		{net, Config{Optimizer: own{}}, digits(8, net.Input, 1), "no fused kernels for fit.own"},
		{normal, Config{}, digits(8, net.Input, 1), "batch norms"},
		{models.SineLSTM(80, 7), Config{}, numbers(8, 7, 7, 1), "one kernel each way for all places\n"},
		{models.SineLSTM(20, 7), Config{}, numbers(8, 7, 7, 1), "one kernel each way for all places\n"},
		{models.SineLSTM(129, 7), Config{}, numbers(8, 7, 7, 1), "no fused kernels for mean squared error"},
		{models.SineLSTM(5, 7), Config{}, numbers(8, 7, 7, 1), "l1, l2, l3 and the loss: one kernel"},
		{models.Peaks(), Config{}, numbers(8, 2, 1, 1), "l1, l2, l3 and the loss: one kernel"},
		{models.Peaks(), Config{Loss: Visibility{}}, numbers(8, 2, 1, 1), "no fused kernels for visibility"},
		{models.Peaks(), Config{Optimizer: own{}}, numbers(8, 2, 1, 1), "no fused kernels for mean squared error"},
		{models.SineLSTM(5, 7), Config{Optimizer: own{}}, numbers(8, 7, 7, 1), "one kernel each way for all places"},
		{net, Config{}, digits(8, net.Input, 1), "head"},
	} {
		n := attach(t, s, fmt.Sprint("n", i), tt.net, tt.config)
		data := load(t, n, fmt.Sprint("d", i), tt.data)
		text, err := n.Fused(data)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, tt.want) || (err == nil) == strings.Contains(tt.want, "no fused") {
			t.Errorf("%s: got %q and %v, want %q", tt.net.Name, text, err, tt.want)
		}
		if err := n.Tune(context.Background(), data, Train{Batch: 4}, nil); err != nil {
			t.Errorf("%s: Tune on a CPU: got %v, want nothing done", tt.net.Name, err)
		}
	}
}

// own is an optimizer of somebody's own.
type own struct{ SGD }

func (o own) Update(rate, t, w, g *graph.Node, m []*graph.Node) (*graph.Node, []*graph.Node) {
	return o.SGD.Update(rate, t, w, g, m)
}

// TestTune holds that the two forms of a step are timed, that what was found is
// kept, and that the net stays as it was.
func TestTune(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n := attach(t, s, "tuned", small(), Config{Kernels: plainOps})
	data := load(t, n, "bars", digits(40, n.model.Input, 1))
	wish := Train{Batch: 10, InOrder: true}
	weights := func() []float32 {
		a, err := s.Array("tuned/output/weights")
		if err != nil {
			t.Fatal(err)
		}
		l := make([]float32, 12*10)
		if err := a.Values(l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := weights()
	var told []string
	for range 2 { // the second time there is nothing left to find
		if err := n.Tune(context.Background(), data, wish, func(s string) { told = append(told, s) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "tuned: a step of 10 takes") {
		t.Errorf("got %q, want one finding", told)
	}
	if !slices.Equal(weights(), before) {
		t.Error("got other weights after Tune, want those before")
	}
	again, err := tiling.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	if e := again.Known(n.stepKey(10)); e.Micros <= 0 || e.Plain <= 0 {
		t.Errorf("kept: got %+v, want two times", e)
	}
	if _, err := n.Train(context.Background(), data, wish); err != nil {
		t.Error(err)
	}
}

// TestFullBatchKernels holds the plans' steps of epochs that are one batch each:
// their loop counts on, and every step takes the same batch.
func TestFullBatchKernels(t *testing.T) {
	s := open(t)
	for _, net := range []models.Net{small(), models.Peaks()} {
		d := digits(24, net.Input, 1)
		if net.Name == "Peaks" {
			d = numbers(24, 2, 1, 1)
		}
		var losses [2][]float32
		for k, kernels := range []Kernels{XLAKernels, plainOps} {
			n := attach(t, s, fmt.Sprint("full", net.Name, k), net, Config{Kernels: kernels, Seed: 5})
			h, err := n.Train(context.Background(), load(t, n, "bars"+net.Name, d), Train{Batch: 24, Epochs: 4})
			if err != nil {
				t.Fatal(err)
			}
			losses[k] = h.Losses
		}
		if len(losses[0]) != 4 || len(losses[1]) != 4 || losses[0][3] >= losses[0][0] {
			t.Fatalf("%s: got losses %v and %v, want four that fall", net.Name, losses[0], losses[1])
		}
		for i, want := range losses[0] {
			if got := losses[1][i]; math.Abs(float64(got-want)) > 1e-4*math.Abs(float64(want)) {
				t.Errorf("%s: loss %d: got %v, want %v", net.Name, i, got, want)
			}
		}
	}
}

// TestWholeEnds holds that a run by one kernel ends as others do: where the loss
// has been low enough, and where a weight is not finite, with the state before.
func TestWholeEnds(t *testing.T) {
	s := open(t)
	var epochs [2]int
	for k, kernels := range []Kernels{XLAKernels, plainOps} {
		n := attach(t, s, fmt.Sprint("ends", k), models.Peaks(), Config{Kernels: kernels, Seed: 5})
		data := load(t, n, "line", numbers(24, 2, 1, 1))
		h, err := n.Train(context.Background(), data, Train{Batch: 24, Epochs: 300, LearningRate: 0.01, Threshold: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		epochs[k] = len(h.Epochs)
		_, err = n.Train(context.Background(), data, Train{Batch: 24, Epochs: 5, LearningRate: 1e38})
		var e *NotFiniteError
		if !errors.As(err, &e) || e.Kept >= 5 {
			t.Errorf("kernels %v: got %v, want a loss or a weight that is not finite", kernels, err)
		}
	}
	if epochs[0] == 300 || epochs[1] != epochs[0] {
		t.Errorf("got %v epochs until the loss was low, want as many with kernels and without, and less than 300", epochs)
	}
}

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

// TestRefusedKernels trains on a device that has no room for Triton's kernels, as a
// GPU with too little shared memory: here a CPU that passes for a GPU.
func TestRefusedKernels(t *testing.T) {
	s := open(t)
	tables.Lock()
	tables.of = map[*session.Session]*tiling.Table{s: {}} // kept nowhere
	tables.Unlock()
	gpu := func(name string, k Kernels) (*Net, *Set) {
		n := attach(t, s, name, models.SineLSTM(70, 5), Config{Kernels: k})
		n.platform = "cuda"
		return n, load(t, n, "refused/data", numbers(22, 5, 5, 1))
	}
	how := Train{Batch: 5, Epochs: 2}
	n, data := gpu("auto", AutoKernels)
	h, err := n.Train(context.Background(), data, how)
	if err != nil || !strings.Contains(h.Note, "does not take Gaiden's for SineLSTM") || !strings.HasPrefix(h.Note, "with XLA's kernels") || h.Steps != 10 {
		t.Fatalf("got %d steps, note %q and %v, want 10 with XLA's kernels and a note", h.Steps, h.Note, err)
	}
	if e := n.tilings().Known(n.stepKey(5)); e.Refused == "" || !e.UsePlain() {
		t.Errorf("got %+v in the table, want to know why the device refuses", e)
	}
	plain, _ := gpu("plain", XLAKernels)
	want, err := plain.Train(context.Background(), data, how)
	if err != nil || !slices.Equal(h.Losses, want.Losses) {
		t.Errorf("got losses %v, want XLA's %v; %v", h.Losses, want.Losses, err)
	}
	if h, err := n.Train(context.Background(), data, how); err != nil || h.Note != "" {
		t.Errorf("a second run: got note %q and %v, want none: the device is not asked again", h.Note, err)
	}
	n.tilings().Set(n.stepKey(5), tiling.Entry{})
	told := ""
	if err := n.Tune(context.Background(), data, how, func(line string) { told += line }); err != nil || !strings.Contains(told, "does not take") {
		t.Errorf("Tune: got %q and %v, want it told", told, err)
	}
	if e := n.tilings().Known(n.stepKey(5)); !e.UsePlain() {
		t.Errorf("after Tune: got %+v, want XLA's kernels", e)
	}
	wrong := attach(t, s, "wrong", models.SineLSTM(71, 5), Config{Flags: map[string]any{"xla_no_such_option": true}})
	wrong.platform = "cuda"
	if _, err := wrong.Train(context.Background(), data, how); err == nil {
		t.Error("an option that there is not: got no error")
	}
	if e := wrong.tilings().Known(wrong.stepKey(5)); e != (tiling.Entry{}) {
		t.Errorf("an error that is not the kernels': got %+v in the table, want nothing", e)
	}
	fused, _ := gpu("fused", FusedKernels)
	if _, err := fused.Train(context.Background(), data, how); !errors.Is(err, wire.CompileError) {
		t.Errorf("FusedKernels: got %v, want the compiler's error", err)
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
