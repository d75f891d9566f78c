package plan

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

func gpu(capability string) lower.Target {
	return lower.Target{Platform: "cuda", Triton: true, Capability: capability, Devices: 2}
}

// classifier is a training of a net on labels.
func classifier(net models.Net, target lower.Target, batch, steps int) Training {
	t := Training{Target: target, Net: net, Rule: optim.Adam{}.Rule(), Batch: batch, Steps: steps, Numbers: batch * steps * 784}
	in := 784
	for _, l := range net.Layers {
		if d, is := l.(models.Dense); is {
			t.Variables = append(t.Variables, Variable{Name: d.Name + "/weights", Shape: shapes.Make(dtypes.Float32, in, d.Units), Trainable: true})
			t.ForwardFLOPs += 2 * float64(in*d.Units)
			in = d.Units
		}
		if _, is := l.(models.Residual); is {
			t.Variables = append(t.Variables, Variable{Name: "block/weights", Shape: shapes.Make(dtypes.Float32, 3, 3, 256, 256), Trainable: true})
		}
	}
	return t
}

func decide(t *testing.T, q Training) *Plan {
	t.Helper()
	p, err := Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestForm holds how the steps of an epoch are cut: counted on one GPU as long as a turn is
// short, never on several, and single where a step is heavy; in place only where a chunk
// holds many of them.
func TestForm(t *testing.T) {
	cpu := lower.Target{Platform: "cpu", Devices: 2}
	for _, tt := range []struct {
		name           string
		target         lower.Target
		convolves      bool
		loop           Loop
		steps, devices int
		work           float64
		fused          Kernels
		inner, unroll  int
		want           Form
	}{
		{"CPU", cpu, false, AutoLoop, 600, 1, 1e9, XLAKernels, 1, 1, Looped},
		{"CPU, convolutions", cpu, true, AutoLoop, 600, 1, 1e9, XLAKernels, 1, 1, InPlace},
		{"CPU, convolutions, slow", cpu, true, AutoLoop, 600, 1, 5e9, XLAKernels, 1, 1, Fresh},
		{"CPU, convolutions, slow, two of them", cpu, true, AutoLoop, 600, 2, 5e9, XLAKernels, 1, 1, Fresh},
		{"CPU, convolutions as a loop", cpu, true, LoopedSteps, 600, 1, 1e9, XLAKernels, 1, 1, Looped},
		{"GPU", gpu(""), false, AutoLoop, 600, 1, 1e9, XLAKernels, 200, 1, Looped},
		{"ROCm", lower.Target{Platform: "rocm", Devices: 1}, false, AutoLoop, 600, 1, 1e9, AutoKernels, 200, 1, Looped},
		{"GPU, two of them", gpu(""), false, AutoLoop, 600, 2, 1e9, XLAKernels, 1, 1, Looped},
		{"GPU, few steps", gpu(""), false, AutoLoop, 16, 1, 1e9, XLAKernels, 1, 1, Looped},
		{"GPU, a millisecond a step", gpu(""), false, AutoLoop, 600, 1, 1.9e10, XLAKernels, 50, 1, Looped},
		{"GPU, heavy", gpu(""), false, AutoLoop, 600, 1, 3e12, XLAKernels, 1, 1, Fresh},
		{"GPU, heavy, two of them", gpu(""), false, AutoLoop, 600, 2, 3e12, XLAKernels, 1, 1, Looped},
		{"GPU, heavy as a loop", gpu(""), false, LoopedSteps, 600, 1, 3e12, XLAKernels, 1, 1, Looped},
		{"GPU, fused", gpu(""), false, AutoLoop, 600, 1, 1e9, AutoKernels, 60, 10, Looped},
		{"GPU, fused, by four", gpu(""), false, AutoLoop, 468, 1, 1e9, AutoKernels, 117, 4, Looped},
		{"GPU, fused, few turns", gpu(""), false, AutoLoop, 100, 1, 1e6, AutoKernels, 10, 10, Looped},
		{"GPU, fused, few steps", gpu(""), false, AutoLoop, 10, 1, 1e6, AutoKernels, 1, 10, Looped},
		{"GPU, fused, odd", gpu(""), false, AutoLoop, 602, 1, 1e9, AutoKernels, 86, 1, Looped},
		{"GPU, fused, not small", gpu(""), false, AutoLoop, 600, 1, 9e9, AutoKernels, 100, 1, Looped},
		{"GPU, light and single", gpu(""), false, SingleSteps, 600, 1, 1e9, XLAKernels, 1, 1, Fresh},
	} {
		q := classifier(models.MLP(10), tt.target, 100, tt.steps)
		q.Convolves, q.Work = tt.convolves, hlo.Cost{FLOPs: tt.work}
		q.Settings = Settings{Loop: tt.loop, Devices: tt.devices, AllDevices: true, Kernels: tt.fused}
		c := decide(t, q).Main
		if c.Inner != tt.inner || c.Unroll != tt.unroll || c.Form != tt.want || c.Devices != tt.devices || c.Turns*c.Turn() > tt.steps {
			t.Errorf("%s: got %d·%d steps a turn, form %d on %d devices, want %d·%d, %d", tt.name, c.Inner, c.Unroll, c.Form, c.Devices, tt.inner, tt.unroll, tt.want)
		}
		if job := q; tt.want == Fresh {
			job.Use = Job
			if c := decide(t, job).Main; c.Form != InPlace {
				t.Errorf("%s: a job has form %d, want %d", tt.name, c.Form, InPlace)
			}
		}
	}
}

// TestParts holds that the parts of a plan do each example of an epoch once.
func TestParts(t *testing.T) {
	for steps := 1; steps < 700; steps += 13 {
		for _, rest := range []int{0, 5} {
			q := classifier(models.MLP(10), gpu("9.0"), 10, steps)
			q.Rest, q.Work.FLOPs = rest, 1e8
			next := 0
			for _, p := range decide(t, q).Parts() {
				if p.Turns > 0 && p.First != next {
					t.Fatalf("%d steps and %d examples: a part begins at %d, want %d", steps, rest, p.First, next)
				}
				next += p.Turns * p.Turn() * p.Batch
			}
			if next != steps*10+rest {
				t.Fatalf("%d steps and %d examples: the parts do %d examples", steps, rest, next)
			}
		}
	}
}

// TestMatmulLoop holds that steps of matrix multiplications are counted longer on a Hopper
// GPU, which does so much of them in a millisecond.
func TestMatmulLoop(t *testing.T) {
	for _, tt := range []struct {
		name        string
		capability  string
		feedForward bool
		work, bytes float64
		inner       int
		single      bool
	}{
		{"matrix multiplications", "9.0", true, 5.8e10, 1e9, 60, false},
		{"of a millisecond", "9.0", true, 1.4e11, 1e9, 30, false},
		{"heavy", "9.0", true, 1.6e11, 1e9, 1, true},
		{"much memory", "9.0", true, 5.8e10, 3e9, 1, true},
		{"light and much memory", "9.0", true, 1.9e10, 3e9, 30, false},
		{"convolutions or a sequence", "9.0", false, 5.8e10, 1e9, 1, true},
		{"on another GPU", "7.5", true, 5.8e10, 1e9, 1, true},
		{"light on another GPU", "7.5", true, 1.9e10, 1e9, 30, false},
	} {
		q := classifier(models.MLP(10), gpu(tt.capability), 1024, 60)
		q.FeedForward, q.Work, q.Settings.Kernels = tt.feedForward, hlo.Cost{FLOPs: tt.work, Bytes: tt.bytes}, XLAKernels
		if c := decide(t, q).Main; c.Inner != tt.inner || c.Form.Single() != tt.single {
			t.Errorf("%s: got %d steps a turn, single %t, want %d, %t", tt.name, c.Inner, c.Form.Single(), tt.inner, tt.single)
		}
	}
}

// TestKernels holds which kernels steps have, and the reason that the plan prints.
func TestKernels(t *testing.T) {
	normal := models.MLP(10)
	normal.Layers = append([]models.Layer{models.BatchNorm{Name: "norm"}}, normal.Layers...)
	wide := models.FCN(784, []int{1024, 1024}, 10)
	regression := func(net models.Net) Training {
		q := classifier(net, gpu("9.0"), 32, 10)
		q.OtherLoss = "a loss"
		return q
	}
	known := func(k Known) func(*Training) {
		return func(q *Training) { q.Known = func(int) Known { return k } }
	}
	none := func(*Training) {}
	recurs := func(l ...string) func(*Training) { return func(q *Training) { q.Recurrences = l } }
	for _, tt := range []struct {
		name   string
		q      Training
		change func(*Training)
		want   string // kind of kernels
		why    string
	}{
		{"MLP", classifier(models.MLP(10), gpu("9.0"), 32, 10), none, "layers", "Gaiden's kernels expected to be faster"},
		{"measured slower", classifier(models.MLP(10), gpu("9.0"), 32, 10), known(Known{Fused: 36, XLA: 32, PreferXLA: true}), "XLA", "measured 32.0 µs a step, with Gaiden's 36.0"},
		{"measured faster", classifier(models.MLP(10), gpu("9.0"), 32, 10), known(Known{Fused: 30, XLA: 32}), "layers", "measured 30.0 µs a step, with XLA's 32.0"},
		{"refused", classifier(models.MLP(10), gpu("9.0"), 32, 10), known(Known{Refused: "no room", PreferXLA: true}), "XLA", "the device does not take Gaiden's: no room"},
		{"batch norm", classifier(normal, gpu("9.0"), 32, 10), none, "layers", "expected to be faster"},
		{"blocks without kernels", classifier(models.ResNet152(), gpu("9.0"), 32, 10), none, "XLA", "weights: want half of them"},
		{"large matrix multiplications", classifier(wide, gpu("9.0"), 1024, 10), none, "XLA", "most of the work is in matrix multiplications of 2e+09 FLOPs"},
		{"next to larger convolutions", classifier(wide, gpu("9.0"), 1024, 10), func(q *Training) { q.ForwardFLOPs *= 3 }, "layers", "expected"},
		{"smaller matrix multiplications", classifier(wide, gpu("9.0"), 512, 10), none, "layers", "expected"},
		{"large ones as requested", classifier(wide, gpu("9.0"), 1024, 10), func(q *Training) { q.Settings.Kernels = FusedKernels }, "layers", "as requested"},
		{"XLA's as requested", classifier(wide, gpu("9.0"), 32, 10), func(q *Training) { q.Settings.Kernels = XLAKernels }, "XLA", "as requested"},
		{"CPU", classifier(models.MLP(10), lower.Target{Platform: "cpu"}, 32, 10), none, "XLA", "Gaiden's are for CUDA GPUs"},
		{"TPU", classifier(models.MLP(10), lower.Target{Platform: "tpu"}, 32, 10), none, "XLA", "Gaiden's are for CUDA GPUs"},
		{"two devices", classifier(models.MLP(10), gpu("9.0"), 32, 10), func(q *Training) { q.Settings.Devices, q.AllDevices = 2, true }, "XLA", "on several devices"},
		{"an optimizer without a rule", classifier(models.MLP(10), gpu("9.0"), 32, 10), func(q *Training) { q.Rule = nil }, "XLA", "none for this optimizer"},
		{"another loss", classifier(models.MLP(10), gpu("9.0"), 32, 10), func(q *Training) { q.OtherLoss = "masks" }, "XLA", "Gaiden has none for masks"},
		{"more data than an int32 counts", classifier(models.MLP(10), gpu("9.0"), 32, 10), func(q *Training) { q.Numbers = 1 << 31 }, "XLA", "want less than 2³¹"},
		{"LSTM", regression(models.SineLSTM(80, 7)), recurs(""), "some", "recurrent layers only"},
		{"a wider LSTM", regression(models.SineLSTM(129, 7)), recurs("too wide"), "XLA", "none for a loss; too wide"},
		{"next to a wider one", regression(models.SineLSTM(5, 7)), recurs("", "too wide"), "some", "XLA's loop too wide"},
		{"next to large matrix multiplications", regression(wide), func(q *Training) { q.Recurrences, q.Batch = []string{""}, 1024 }, "some", "expected to be faster"},
		{"a classifier's", classifier(models.MLP(10), gpu("9.0"), 32, 10), recurs("", "too wide"), "layers", "XLA's loop too wide"},
		{"a small LSTM", regression(models.SineLSTM(5, 7)), recurs("", ""), "some", "recurrent layers only"},
		{"Peaks", regression(models.Peaks()), none, "XLA", "none for a loss"},
	} {
		tt.q.Work.FLOPs = 1e8
		tt.change(&tt.q)
		p := decide(t, tt.q)
		if got, text := p.Main.Kernels.kind(), strings.Join(strings.Fields(p.String()), " "); got != tt.want || !strings.Contains(text, tt.why) {
			t.Errorf("%s: got kernels %s and\n%s\nwant %s and %q", tt.name, got, p, tt.want, tt.why)
		}
	}
}

// TestDevices holds when several devices train.
func TestDevices(t *testing.T) {
	for _, tt := range []struct {
		name        string
		target      lower.Target
		batch, want int
		all         bool
		work        float64
		devices     int
		note, err   string
	}{
		{"one", gpu("9.0"), 100, 1, false, 1e12, 1, "", ""},
		{"heavy", gpu("9.0"), 100, 2, false, 1e12, 2, "", ""},
		{"light", gpu("9.0"), 100, 2, false, 1e9, 1, "a step of 1e+09 FLOPs is faster on one", ""},
		{"light, all", gpu("9.0"), 100, 2, true, 1e9, 2, "", ""},
		{"CPU", lower.Target{Platform: "cpu", Devices: 2}, 100, 2, false, 1e12, 1, "share its cores", ""},
		{"too many", gpu("9.0"), 100, 3, false, 1e12, 0, "", "3 devices: the session has 2"},
		{"an odd batch", gpu("9.0"), 101, 2, false, 1e12, 0, "", "want a multiple, such as 100"},
	} {
		q := classifier(models.MLP(10), tt.target, tt.batch, 10)
		q.Settings.Devices, q.AllDevices, q.Work.FLOPs = tt.want, tt.all, tt.work
		p, err := Decide(q)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || p.Devices != tt.devices || !strings.Contains(p.Note, tt.note) || (p.Note == "") != (tt.note == "") {
			t.Errorf("%s: got %d devices, %q and %v, want %d, %q", tt.name, p.Devices, p.Note, err, tt.devices, tt.note)
		}
	}
}

// TestPacked holds when the state is a few vectors: on a GPU, of heavy steps on many arrays.
func TestPacked(t *testing.T) {
	heavy := func() Training {
		q := classifier(models.ResNet152(), gpu("9.0"), 2048, 10)
		q.Convolves, q.Work.FLOPs, q.StateArrays = true, 3e12, 1240
		return q
	}
	for _, tt := range []struct {
		name   string
		change func(*Training)
		want   bool
	}{
		{"heavy", func(*Training) {}, true},
		{"two devices", func(q *Training) { q.Settings.Devices = 2 }, true},
		{"CPU", func(q *Training) { q.Target = lower.Target{Platform: "cpu"} }, false},
		{"light", func(q *Training) { q.Work.FLOPs = 1e9 }, false},
		{"few arrays", func(q *Training) { q.StateArrays = 99 }, false},
		{"an optimizer without a rule", func(q *Training) { q.Rule = nil }, false},
		{"a loop", func(q *Training) { q.Loop = LoopedSteps }, false},
		{"a state that is carried", func(q *Training) { q.Carries = true }, false},
		{"a job", func(q *Training) { q.Use = Job }, false},
		{"a comparison", func(q *Training) { q.Use = Comparison }, false},
		{"a large state", func(q *Training) { q.StateBytes, q.Target.Memory = 30<<30, 100<<30 }, true},
		{"no memory for three copies", func(q *Training) { q.StateBytes, q.Target.Memory = 34<<30, 100<<30 }, false},
		{"float64", func(q *Training) {
			q.Variables = []Variable{{Shape: shapes.Make(dtypes.Float64, 2), Trainable: true}}
		}, false},
	} {
		q := heavy()
		tt.change(&q)
		p := decide(t, q)
		if p.Packed != tt.want || p.Main.Packed != tt.want || tt.want && (p.Main.Form != InPlace) {
			t.Errorf("%s: got packed %t, form %d, want %t", tt.name, p.Packed, p.Main.Form, tt.want)
		}
	}
}
