package fit

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestFeedForward holds which nets are matrix multiplications alone, and that their steps
// have many FLOPs a byte: the FCN's, also with Adam.
func TestFeedForward(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		name          string
		net           models.Net
		opt           optim.Optimizer
		feedForward   bool
		least, bounds float64 // FLOPs a byte
	}{
		{"fcn", models.FCN(784, []int{2048, 2048, 2048}, 10), optim.SGD{}, true, 40, 60},
		{"fcn-adam", models.FCN(784, []int{2048, 2048, 2048}, 10), optim.Adam{}, true, 20, 40},
		{"narrow", models.FCN(784, []int{20}, 10), optim.SGD{}, true, 0, 20},
		{"lenet", models.LeNet5(), optim.SGD{}, false, 0, 1000},
		{"lstm", models.SineLSTM(512, 20), optim.SGD{}, false, 0, 1000},
	} {
		n := attach(t, s, tt.name, tt.net, Config{Optimizer: tt.opt})
		n.target = played("cuda", "9.0")
		x, y := shapes.Make(dtypes.Float32, tt.net.Input...), shapes.Make(dtypes.Float32, n.output...)
		q, err := n.training(load(t, n, tt.name, Data{X: make([]float32, 1024*x.Size()), Y: make([]float32, 1024*y.Size())}), 1024)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Work.FLOPs / q.Work.Bytes; q.FeedForward != tt.feedForward || got < tt.least || got >= tt.bounds {
			t.Errorf("%s: got feed-forward %t, %.3g FLOPs a byte, want %t, %g to %g", tt.name, q.FeedForward, got, tt.feedForward, tt.least, tt.bounds)
		}
	}
}

// TestPeeled holds that a net with a large state does the same steps where a loop's
// first one stands before it as where each step is a program, also where that one is
// the only one, and the steps of a small net are not peeled.
func TestPeeled(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := small()
	net.Layers = slices.Insert(net.Layers, 3, models.Layer(models.Dense{Name: "wide", Units: 30000}))
	var losses [2][]float32
	for i, loop := range []plan.Loop{plan.LoopedSteps, plan.SingleSteps} {
		n := attach(t, s, []string{"looped", "single"}[i], net, Config{Seed: 2})
		n.loop = loop
		data := load(t, n, "data", digits(50, n.model.Input, 1))
		if p, err := n.Plan(data, Train{Batch: 8}); err != nil || (p.Main.Form == plan.Peeled) != (loop == plan.LoopedSteps) {
			t.Fatalf("loop %d, %d bytes: got form %d and %v", loop, n.stateBytes(), p.Main.Form, err)
		}
		for _, epochs := range []int{1, 3} {
			h, err := n.Fit(data, Train{Batch: 8, Epochs: epochs, LearningRate: 1e-3})
			if err != nil {
				t.Fatal(err)
			}
			losses[i] = append(losses[i], h.Losses...)
		}
	}
	if len(losses[0]) != 28 || len(losses[1]) != 28 {
		t.Fatalf("got %d and %d losses, want 28", len(losses[0]), len(losses[1]))
	}
	for i, want := range losses[1] {
		if got := losses[0][i]; math.Abs(float64(got-want)) > 1e-5*float64(want) {
			t.Errorf("loss of step %d: got %g, want %g", i+1, got, want)
		}
	}
	n := attach(t, s, "small", small(), Config{})
	n.loop = plan.LoopedSteps
	if p, err := n.Plan(load(t, n, "data", digits(50, n.model.Input, 1)), Train{Batch: 8}); err != nil || p.Main.Form != plan.Looped {
		t.Errorf("a small net: got form %d and %v, want a loop that is not peeled", p.Main.Form, err)
	}
}

// TestSaves holds that a run asks for a snapshot every few seconds, one at a
// time, and waits for none.
func TestSaves(t *testing.T) {
	end := make(chan int)
	x := snapshots{}
	count := 0
	written := func() {
		t.Helper()
		end <- 1
		within := time.Now().Add(time.Minute)
		for x.busy.Load() {
			if time.Now().After(within) {
				t.Fatal("a snapshot that is written: it is still being waited for after a minute")
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, tt := range []struct {
		when string
		ago  time.Duration // that one was requested
		want int
	}{
		{"a run has just begun", 0, 0},
		{"time has passed", snapshotInterval, 1},
		{"one is being written", snapshotInterval, 1},
		{"it is written", snapshotInterval, 2},
		{"too soon after it", snapshotInterval - time.Second, 2},
	} {
		if tt.want > 1 && x.busy.Load() {
			written()
		}
		x.last = time.Now().Add(-tt.ago)
		before := x.last
		x.request(func() { <-end })
		if x.last != before {
			count++
		}
		if count != tt.want {
			t.Errorf("%s: got %d snapshots, want %d", tt.when, count, tt.want)
		}
	}
}

// TestGraphs holds that only programs that are small or work in place become CUDA
// graphs, on one device and on two, and those of small kernels side by side; unless the
// user says otherwise.
func TestGraphs(t *testing.T) {
	set := func(name, value string) map[string]any { return map[string]any{name: value} }
	for _, tt := range []struct {
		name      string
		platform  string
		devices   int
		ops       int
		convolves bool
		donate    []bool
		flags     map[string]any
		want      map[string]any
	}{
		{"small", "cuda", 1, 100, false, nil, nil, set("xla_gpu_command_buffer_scheduling_mode?", "CONCURRENT")},
		{"small, with convolutions", "cuda", 1, 100, true, nil, nil, nil},
		{"large", "cuda", 1, 2000, false, nil, nil, set("xla_gpu_enable_command_buffer", "")},
		{"large, two devices", "cuda", 2, 2000, false, nil, nil, set("xla_gpu_enable_command_buffer", "")},
		{"large, little of it in place", "cuda", 1, 2000, false, []bool{true, false, false}, nil, set("xla_gpu_enable_command_buffer", "")},
		{"large, in place", "cuda", 1, 2000, false, []bool{true, true, false}, nil, nil},
		{"large, in place, with convolutions", "cuda", 1, 2000, true, []bool{true, true, false}, nil, nil},
		{"large, as requested", "cuda", 1, 2000, false, nil, set("xla_gpu_enable_command_buffer", "FUSION"), set("xla_gpu_enable_command_buffer", "FUSION")},
		{"small, as requested", "cuda", 1, 100, false, nil, set("xla_gpu_command_buffer_scheduling_mode", "SERIALIZE"), set("xla_gpu_command_buffer_scheduling_mode", "SERIALIZE")},
		{"with convolutions, as requested", "cuda", 1, 100, true, nil, set("xla_gpu_enable_command_buffer", ""), set("xla_gpu_enable_command_buffer", "")},
		{"large, on a CPU", "cpu", 1, 2000, false, nil, nil, nil},
		{"with convolutions, on a CPU", "cpu", 1, 100, true, nil, nil, nil},
	} {
		n := &Net{core: &core{name: "n", attachment: attachment{target: played(tt.platform, "")}, config: Config{Flags: tt.flags}}}
		p, err := n.traceFor(tt.devices, "ops", func(t *trace) []*Node {
			y := Parameter(t.g, "x", shapes.Make(dtypes.Float32, 1, 4, 4, 1))
			if tt.convolves {
				y = Convolve(y, Parameter(t.g, "w", shapes.Make(dtypes.Float32, 3, 3, 1, 1))).Done()
			}
			for range tt.ops {
				y = Neg(y)
			}
			return []*Node{y}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.flags(p, tt.donate); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// ruleCounter is SGD that counts how often somebody wants its rule.
type ruleCounter struct {
	optim.SGD
	rules *int
}

func (o ruleCounter) Rule() *elementwise.Rule {
	*o.rules++
	return o.SGD.Rule()
}

// TestRules holds that the rule of an optimizer is not built again for each variable and each
// other one, while a step of a deep net is written.
func TestRules(t *testing.T) {
	rules := map[int]int{}
	for _, layers := range []int{10, 40} {
		net, n := models.Net{Input: []int{2}}, 0
		for range layers {
			net.Layers = append(net.Layers, models.Dense{Units: 2})
		}
		of := New("deep", net, Config{Optimizer: ruleCounter{optim.SGD{Momentum: 0.9}, &n}})
		of.target = played("cpu", "")
		if _, err := of.buildLayout(); err != nil {
			t.Fatal(err)
		}
		s, err := of.check("data", Data{X: make([]float32, 8), Y: make([]int32, 4)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := of.epochProgram(s, of.plainSteps(2, 2)); err != nil {
			t.Fatal(err)
		}
		rules[layers] = n
	}
	if rules[40] > 5*rules[10] {
		t.Errorf("got %d rules for 10 layers and %d for 40: want four times as many", rules[10], rules[40])
	}
}
