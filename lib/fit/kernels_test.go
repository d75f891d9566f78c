package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// dropped is a net with random numbers between its kernels.
func dropped() models.Net {
	net := small()
	net.Layers = append(net.Layers[:4:4], models.Dense{Name: "dense", Units: 8, Act: models.ReLU}, models.Dropout{Name: "dropout_1", Rate: 0.3}, net.Layers[4])
	return net
}

// normed is a net whose steps change means and variances, too.
func normed() models.Net {
	net := small()
	net.Layers = append([]models.Layer{models.Conv2D{Name: "conv0", Channels: 3, Kernel: 3, Same: true, NoBias: true}, models.BatchNorm{Name: "norm", Act: models.ReLU}}, net.Layers...)
	return net
}

// recurrent is a net with a recurrent layer inside of others, and no dense layer at its end.
func recurrent(layer models.Layer) models.Net {
	_, kind := layer.Title()
	return models.Net{Name: kind, Input: []int{7, 1}, Layers: []models.Layer{models.Residual{Main: []models.Layer{layer}, Skip: []models.Layer{models.Dense{Name: "skip", Units: 10}}},
		models.Dense{Name: "out", Units: 1}, models.Activation{Name: "act", Act: models.LeakyReLU}}}
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
		{dropped(), Config{Optimizer: optim.AdaDelta{}}},
		{models.MLP(20), Config{BF16: true}},
		{models.SineLSTM(5, 7), Config{}},
		{models.SineLSTM(5, 7), Config{BF16: true}},
		{models.SineLSTM(20, 7), Config{Optimizer: optim.SGD{}}},
		{models.SineLSTM(9, 7), Config{BF16: true}},
		{recurrent(models.Bidirectional{Name: "r", Layer: models.GRU{Units: 5}}), Config{}},
		{recurrent(models.GRU{Name: "r", Units: 10}), Config{BF16: true}},
		{recurrent(models.RNN{Name: "r", Units: 10, Act: models.ReLU}), Config{Optimizer: optim.SGD{}}},
		{dropped(), Config{Loss: losses.MSE{}}},
		{normed(), Config{}},
		{models.MLP(20), Config{Loss: losses.BinaryCrossEntropy{Positive: 2}, BF16: true}},
		{small(), Config{Loss: losses.CrossEntropy{Smoothing: 0.1}, Optimizer: optim.SGD{Momentum: 0.9}}},
		{small(), Config{Loss: losses.Func{Name: "of the batch", Of: func(out, y *graph.Node) *graph.Node { // with targets that are fewer than its outputs
			return graph.ReduceAllMean(graph.Square(graph.Sub(graph.ReduceAndKeep(out, graph.ReduceSum, -1), graph.ReduceAndKeep(y, graph.ReduceSum, -1))))
		}}}},
	} {
		name := fmt.Sprint(i, " ", tt.net.Name)
		var curves [2][]float32
		var states [2]map[string][]float32
		for k, kernels := range []Kernels{XLAKernels, plainOps} {
			c := tt.config
			c.Kernels, c.Seed, c.FirstLook = kernels, 5, true
			n := attach(t, s, fmt.Sprintf("net%d%d", i, k), tt.net, c)
			if i == 1 {
				n.unroll = 2
			}
			d := digits(47, n.model.Input, 1)
			if tt.net.Input[0] == 7 {
				d = numbers(47, 7, 7, 1)
			} else if c.Loss != nil {
				d = numbers(47, shapes.Make(dtypes.Float32, tt.net.Input...).Size(), 10, 1)
				switch c.Loss.(type) {
				case losses.Func:
					d.Y = d.Y.([]float32)[:47*3]
				case losses.BinaryCrossEntropy:
					for i, y := range d.Y.([]float32) {
						d.Y.([]float32)[i] = max(0, y)
					}
				case losses.CrossEntropy:
					d.Y = digits(47, n.model.Input, 1).Y
				}
			}
			data := load(t, n, fmt.Sprint("bars", i), d)
			if p, err := n.Plan(data, Train{Batch: 10, Epochs: 1}); err != nil || k == 1 && len(tt.net.Input) != 2 && !strings.Contains(p.String(), " head\n") {
				t.Errorf("%s: got plan\n%s\n%v, want one whose layers have kernels", name, p, err)
			}
			h, err := n.Fit(data, Train{Batch: 10, DropLast: i > 0})
			if err != nil {
				t.Fatal(err)
			}
			curves[k], states[k] = h.Losses, map[string][]float32{}
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
		if len(curves[0]) < 4 || len(curves[1]) != len(curves[0]) {
			t.Fatalf("%s: got %d and %d losses, want as many", name, len(curves[0]), len(curves[1]))
		}
		for k, want := range curves[0] {
			if got := curves[1][k]; math.Abs(float64(got-want)) > part*math.Abs(float64(want)) {
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
		{models.KerasCNN(), Config{Optimizer: optim.AdaDelta{}, BF16: true}, 128, 20},
		{models.SineLSTM(5, 50), Config{}, 20, 2},
		{recurrent(models.GRU{Name: "r", Units: 10}), Config{}, 20, 2},
		{recurrent(models.RNN{Name: "r", Units: 10}), Config{BF16: true}, 20, 2},
	} {
		n := attach(t, s, strings.ToLower(tt.net.Name), tt.net, tt.config)
		d := digits(tt.batch, n.model.Input, 1)
		if l := tt.net.Input[0]; len(tt.net.Input) == 2 {
			d = numbers(tt.batch, l, l, 1)
		}
		data := load(t, n, tt.net.Name, d)
		p, err := n.epochProgram(data, withKernels(t, n, data, plan.Part{Batch: tt.batch, Inner: 4, Unroll: 1, Limit: 2, Devices: 1}))
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
		state := 2 * float64(n.stateBytes()) // the update reads and writes it
		for _, c := range counted {
			if c.Times != 4 || strings.HasPrefix(c.Name, "group_") && !(c.Bytes > 0.95*state) {
				t.Errorf("%s: got %+v, want 4 times, and of an update the %g bytes of the state at least", tt.net.Name, c, state)
			}
		}
		plain, err := n.programOf(data, Train{Batch: tt.batch})
		if err != nil {
			t.Fatal(err)
		}
		if len(plain.Calls()) != 0 || plain.FLOPs() < 1 {
			t.Errorf("%s: on a CPU: got calls %v, want a program without kernels", tt.net.Name, plain.Calls())
		}
	}
}

// TestPlanSays holds that a plan says what Train does, and that Tune does nothing on a CPU.
func TestPlanSays(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := small()
	for i, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, "XLA's kernels Gaiden's are for CUDA GPUs"},
		{Config{Kernels: plainOps}, "output head"},
		{Config{Optimizer: own{}, Kernels: plainOps}, "recurrent layers only"},
	} {
		n := attach(t, s, fmt.Sprint("n", i), net, tt.config)
		data := load(t, n, "d", digits(8, net.Input, 1))
		p, err := n.Plan(data, Train{Batch: 4, Epochs: 2})
		if err != nil || !strings.Contains(strings.Join(strings.Fields(p.String()), " "), tt.want) || !strings.Contains(p.String(), "2 of 4 examples, a loop") {
			t.Errorf("%+v: got plan\n%s\n%v, want %q", tt.config, p, err, tt.want)
		}
		if _, err := n.Plan(data, Train{Batch: 9}); err == nil {
			t.Error("got a plan for batches of 9 of 8 examples")
		}
		if tt.config.Kernels == plainOps {
			continue
		}
		if err := n.Tune(data, Train{Batch: 4}, nil); err != nil {
			t.Errorf("Tune on a CPU: got %v, want nothing done", err)
		}
	}
}

// withKernels is a part with the kernels that there are for it.
func withKernels(t testing.TB, n *Net, s *Set, p plan.Part) plan.Part {
	t.Helper()
	set, err := n.available(s, p.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return p.WithKernels(set, 0)
}

// own is an optimizer of somebody's own.
type own struct{ optim.SGD }

func (o own) Update(rate, t, w, g *graph.Node, m []*graph.Node) (*graph.Node, []*graph.Node) {
	return optim.Update(o.SGD, rate, t, w, g, m)
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
		if err := n.Tune(data, wish, func(s string) { told = append(told, s) }); err != nil {
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
	if _, err := n.Fit(data, wish); err != nil {
		t.Error(err)
	}
}

// TestTooSoon holds that nothing is chosen by a look that is over too soon, nor looked at
// again by a run with no more steps; one with more may tell. All its looks seem to be held
// up as they warm up: they take all steps for all that.
func TestTooSoon(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	defer func(t, g time.Duration) { shortestTiming, longestTiming = t, g }(shortestTiming, longestTiming)
	n := attach(t, s, "soon", small(), Config{Kernels: plainOps})
	few, many := load(t, n, "few", digits(20, n.model.Input, 1)), load(t, n, "many", digits(40, n.model.Input, 1))
	var told string
	shortestTiming, longestTiming = time.Hour, 1
	if err := n.Tune(few, Train{Batch: 10}, func(s string) { told += s }); err != nil || !strings.Contains(told, "2 steps of 10 are over too soon") {
		t.Errorf("got %q and %v, want that 2 steps are over too soon", told, err)
	}
	if e := n.tilings().Known(n.stepKey(10)); e != (tiling.Entry{Tried: 2}) {
		t.Errorf("got %+v, want nothing but that 2 steps do not tell", e)
	}
	if begun := leave(t, n, few); begun != 0 {
		t.Error("a run of as many steps leaves it to be looked at again")
	}
	if begun := leave(t, n, many); begun != 1 {
		t.Error("a run of more steps leaves nothing")
	}
	shortestTiming, told = 0, ""
	for _, batch := range []int{10, 40} { // 40 is all there is: its epochs are a loop
		if err := n.Tune(many, Train{Batch: batch, Threshold: 1}, func(s string) { told += s }); err != nil || n.tilings().Known(n.stepKey(batch)).Micros <= 0 {
			t.Errorf("batch %d: got %+v and %v, want a time; told %q", batch, n.tilings().Known(n.stepKey(batch)), err, told)
		}
	}
}

// TestFullBatchKernels holds the plans' steps of epochs that are one batch each:
// their loop counts on, and every step takes the same batch.
func TestFullBatchKernels(t *testing.T) {
	t.Parallel()
	s := open(t)
	var losses [2][]float32
	for k, kernels := range []Kernels{XLAKernels, plainOps} {
		n := attach(t, s, fmt.Sprint("full", k), small(), Config{Kernels: kernels, Seed: 5})
		h, err := n.Fit(load(t, n, "bars", digits(24, n.model.Input, 1)), Train{Batch: 24, Epochs: 4})
		if err != nil {
			t.Fatal(err)
		}
		losses[k] = h.Losses
	}
	if len(losses[0]) != 4 || len(losses[1]) != 4 || losses[0][3] >= losses[0][0] {
		t.Fatalf("got losses %v and %v, want four that fall", losses[0], losses[1])
	}
	for i, want := range losses[0] {
		if got := losses[1][i]; math.Abs(float64(got-want)) > 1e-4*math.Abs(float64(want)) {
			t.Errorf("loss %d: got %v, want %v", i, got, want)
		}
	}
}

// TestKernelsEnd holds that a run with kernels ends as others do: where the loss has been
// low enough, and where a weight is not finite, with the state before.
func TestKernelsEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	var epochs [2]int
	for k, kernels := range []Kernels{XLAKernels, plainOps} {
		n := attach(t, s, fmt.Sprint("ends", k), small(), Config{Kernels: kernels, Seed: 5})
		data := load(t, n, "line", digits(24, n.model.Input, 1))
		h, err := n.Fit(data, Train{Batch: 24, Epochs: 300, LearningRate: 0.01, Threshold: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		epochs[k] = len(h.Epochs)
		_, err = n.Fit(data, Train{Batch: 24, Epochs: 5, LearningRate: 1e38})
		var e *result.NotFiniteError
		if !errors.As(err, &e) || e.Kept >= 5 {
			t.Errorf("kernels %v: got %v, want a loss or a weight that is not finite", kernels, err)
		}
	}
	if epochs[0] == 300 || epochs[1] != epochs[0] {
		t.Errorf("got %v epochs until the loss was low, want as many with kernels and without, and less than 300", epochs)
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
		n.target = played("cuda", "")
		return n, load(t, n, "refused/data", numbers(22, 5, 5, 1))
	}
	how := Train{Batch: 5, Epochs: 2}
	n, data := gpu("auto", AutoKernels)
	h, err := n.Fit(data, how)
	if err != nil || !strings.Contains(h.Note, "does not take Gaiden's for SineLSTM") || !strings.HasPrefix(h.Note, "with XLA's kernels") || h.Steps != 10 {
		t.Fatalf("got %d steps, note %q and %v, want 10 with XLA's kernels and a note", h.Steps, h.Note, err)
	}
	if e := n.tilings().Known(n.stepKey(5)); e.Refused == "" || !e.UsePlain() {
		t.Errorf("got %+v in the table, want to know why the device refuses", e)
	}
	plain, _ := gpu("plain", XLAKernels)
	want, err := plain.Fit(data, how)
	if err != nil || !slices.Equal(h.Losses, want.Losses) {
		t.Errorf("got losses %v, want XLA's %v; %v", h.Losses, want.Losses, err)
	}
	if h, err := n.Fit(data, how); err != nil || h.Note != "" {
		t.Errorf("a second run: got note %q and %v, want none: the device is not asked again", h.Note, err)
	}
	n.tilings().Set(n.stepKey(5), tiling.Entry{})
	told := ""
	if err := n.Tune(data, how, func(line string) { told += line }); err != nil || !strings.Contains(told, "does not take") {
		t.Errorf("Tune: got %q and %v, want it told", told, err)
	}
	if e := n.tilings().Known(n.stepKey(5)); !e.UsePlain() {
		t.Errorf("after Tune: got %+v, want XLA's kernels", e)
	}
	if _, err := Attach(s, "wrong", models.SineLSTM(71, 5), Config{Flags: map[string]any{"xla_no_such_option": true}}); err == nil || !strings.Contains(err.Error(), "xla_no_such_option") {
		t.Errorf("an option that there is not: got %v, want an error that names it", err)
	}
	fused, _ := gpu("fused", FusedKernels)
	if _, err := fused.Fit(data, how); !errors.Is(err, wire.CompileError) {
		t.Errorf("FusedKernels: got %v, want the compiler's error", err)
	}
}

// programOf is the program that Fit runs for some steps of an epoch.
func (n *Net) programOf(s *Set, t Train) (*hlo.Program, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	r, err := n.run(context.Background(), s, t, plan.Call)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return n.epochProgram(s, r.main.Part)
}
