package main

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fit"
	"gaiden/lib/optim"
	"gaiden/lib/profile"
	"gaiden/lib/timing"
)

// step is a program with one kernel for what label says.
func step(t *testing.T, label string, k triton.Kernel) *hlo.Program {
	t.Helper()
	b := hlo.NewBuilder(nil, "step", nil)
	f := b.Main().(*hlo.Function)
	var in []compute.Value
	for _, s := range k.Inputs {
		x, err := f.Iota(s, 0)
		if s.Rank() == 0 {
			x, err = f.Constant([]float32{1})
		}
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, x)
	}
	b.SetLabel(label)
	out, err := k.Call(f, in...)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Return(out, nil); err != nil {
		t.Fatal(err)
	}
	p, err := b.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLimits holds what is said of recorded kernels, and that the records have it too.
func TestLimits(t *testing.T) {
	adam := step(t, "adam/update", kernels.Group{Members: []kernels.Member{kernels.LinearUpdate{Batch: 100, In: 784, Out: 1000}}, Rule: optim.Adam{}.Rule()}.Kernel())
	const bytes = 4 * (100*(784+1000) + 6*(784*1000+1000) + 2) // x and g, three states read and written, rate and t
	const flops = 2 * 100 * 784 * 1000
	linear := step(t, "l1/forward", kernels.Linear{Batch: 1000, In: 1000, Out: 1000, Act: kernels.ReLU}.Kernel())
	peaks := profile.Peaks{Copy: 4e12, TF32: 400e12, BF16: 800e12}
	run := func(name, op, label string, micros ...float64) (l []profile.Kernel) {
		for _, us := range micros {
			l = append(l, profile.Kernel{Name: name, Op: op, Label: label, Seconds: us / 1e6})
		}
		return l
	}
	others := run("gemm_fusion_dot_3", "dot", "l2/backward", 5, 5)
	for _, tt := range []struct {
		name    string
		program *hlo.Program
		kernels []profile.Kernel // of two steps
		want    string
		share   float64 // in %, 0: not known
	}{
		{"memory", adam, append(run("group_adam__adam_update_1", "group_adam", "adam/update", 9, 11), others...),
			"mlp-b100: the longest kernel is group_adam (adam/update), 10.0 µs of 42.6 µs a step: at 48.9 % of the peak of memory, 1.96 of 4 TB/s; at 3.9 % of the peak of products, 15.7 of 400 TFLOP/s\n", 100 * bytes / 10e-6 / 4e12},
		{"a cache", adam, run("group_adam__adam_update", "group_adam", "adam/update", 4, 4),
			"4.00 µs of 42.6 µs a step: at 122.2 % of the peak of memory, 4.89 of 4 TB/s (what it touches lies in a cache); at 9.8 % of the peak of products, 39.2 of 400 TFLOP/s\n", 100 * bytes / 4e-6 / 4e12},
		{"products", linear, run("linear_relu__l1_forward", "custom-call", "l1/forward", 10, 10, 10, 10),
			"linear_relu (l1/forward), 20.0 µs of 42.6 µs a step in 2 runs: at 50.0 % of the peak of products, 200 of 400 TFLOP/s; at 30.0 % of the peak of memory, 1.2 of 4 TB/s\n", 50},
		{"XLA's", adam, append(run("group_adam__adam_update", "group_adam", "adam/update", 1, 1), others...),
			"the longest kernel is dot (l2/backward), 5.00 µs of 42.6 µs a step; it is XLA's: its bytes and FLOPs are not known\n", 0},
		{"XLA's, with a label of the program", linear, append(run("gemm_fusion_dot_3", "dot", "l1/forward", 50, 70), run("loop_add_fusion", "add", "l1/forward", 40, 40)...),
			"the longest kernel is dot (l1/forward), 60.0 µs of 42.6 µs a step; it is XLA's; all of l1/forward, 100 µs, is at 15.0 % of the peak of products, 60 of 400 TFLOP/s\n", 0},
		{"no profiler", adam, nil, "", 0},
	} {
		b := bench{name: "train", progress: io.Discard, records: []timing.Record{
			{Case: "mlp-b100", Subject: plainEpoch, Median: 42.6}, {Case: "peak", Subject: "products", Median: 400, Unit: "TFLOP/s"}, {Case: "peak", Subject: "copy", Median: 4, Unit: "TB/s"},
		}}
		r := &profile.Recording{Kernels: tt.kernels}
		b.noteLimit("mlp-b100", r.Lines(2, tt.program.Calls()), tt.program, 3*tt.program.FLOPs(), peaks)
		var w strings.Builder
		b.printLimits(&w)
		if !strings.HasSuffix(w.String(), tt.want) || tt.want == "" && w.Len() > 0 {
			t.Errorf("%s: got\n%swant\n%s", tt.name, w.String(), tt.want)
		}
		share := b.find("mlp-b100-limit-share", "")
		if (share == nil) != (tt.share == 0) || share != nil && (math.Abs(share.Median-tt.share) > 1e-9 || share.Unit != "%" || share.Subject == "") {
			t.Errorf("%s: got the share %+v, want %g %%", tt.name, share, tt.share)
		}
	}
	if got := adam.Calls(); len(got) != 1 || got[0].Bytes != bytes || got[0].FLOPs != flops {
		t.Errorf("got %+v, want one call of %d bytes and %d FLOPs", got, bytes, flops)
	}
}

// TestUnlabelled holds that a net whose longest kernel nobody can tell is trained once
// more without graphs, and that it costs the labels only where that cannot be recorded,
// as on a CPU.
func TestUnlabelled(t *testing.T) {
	s := inSession(t)
	c := caseOf("peaks-b40000").small()
	n, data, err := c.attach(s, "bench0", c.config)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	b := bench{name: "train", progress: &told}
	r := &profile.Recording{Kernels: []profile.Kernel{{Name: "sm90_xmma_gemm", Seconds: 1e-3}}}
	if err := b.trainLimit(s, c, n, data, fit.Train{Epochs: 1, Batch: c.batch}, r, profile.Peaks{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), profile.ErrNoProfiler.Error()) {
		t.Errorf("got %q, want that there is no profiler", told.String())
	}
	if l := b.find(c.name+"-limit", ""); l == nil || l.Subject != "sm90_xmma_gemm" {
		t.Errorf("got the limit %+v, want that of the first recording", l)
	}
}
