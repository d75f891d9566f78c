package profile

import (
	"math"
	"testing"

	"gaiden/lib/engine/hlo"
)

// TestLines holds that runs of a kernel are added up whatever number XLA gave them,
// that the work of ours is that of their calls, and that that of XLA's is not known.
func TestLines(t *testing.T) {
	calls := []hlo.CallCost{
		{Name: "group_adam__adam_update", Label: "adam/update", Times: 20, Cost: hlo.Cost{FLOPs: 100, Transcendentals: 20, Bytes: 1000}},
		{Name: "linear__l_1", Label: "l/1", Times: 1, Cost: hlo.Cost{FLOPs: 5, Bytes: 50}},
		{Name: "linear__l", Label: "l", Times: 1, Cost: hlo.Cost{FLOPs: 7, Bytes: 70}},
		{Name: "norm", Label: "block/n1/forward", Times: 1, Cost: hlo.Cost{FLOPs: 1, Bytes: 10}},
		{Name: "norm", Label: "block/n2/forward", Times: 3, Cost: hlo.Cost{FLOPs: 3, Bytes: 30}},
	}
	const steps = 2
	nan := math.NaN()
	for _, tt := range []struct {
		name    string
		kernels []Kernel
		want    Line
	}{
		{"ours in a graph", []Kernel{{Name: "group_adam__adam_update", Op: "group_adam", Label: "adam/update"}, {Name: "group_adam__adam_update_1", Op: "group_adam", Label: "adam/update"},
			{Name: "group_adam__adam_update__2", Op: "group_adam", Label: "adam/update"}, {Name: "group_adam__adam_update__3", Op: "group_adam", Label: "adam/update"}},
			Line{Phase: "update", Layer: "adam", Operation: "group_adam", Kernels: 2, Device: 4, FLOPs: 240, Bytes: 2000}},
		{"ours launched by itself", []Kernel{{Name: "group_adam__adam_update", Op: "custom-call", Label: "adam/update"}, {Name: "group_adam__adam_update_7", Op: "custom-call", Label: "adam/update"}},
			Line{Phase: "update", Layer: "adam", Operation: "group_adam", Kernels: 1, Device: 2, FLOPs: 120, Bytes: 1000}},
		{"ours of an unknown program", []Kernel{{Name: "group_adam__adam_update"}, {Name: "group_adam__adam_update_7"}},
			Line{Operation: "group_adam__adam_update", Kernels: 1, Device: 2, FLOPs: 120, Bytes: 1000}},
		{"a name with a number", []Kernel{{Name: "linear__l_1", Op: "linear", Label: "l/1"}, {Name: "linear__l_1_1", Op: "linear", Label: "l/1"}},
			Line{Phase: "1", Layer: "l", Operation: "linear", Kernels: 1, Device: 2, FLOPs: 5, Bytes: 50}},
		{"one name, known by the label", []Kernel{{Name: "norm", Label: "block/n2/forward"}, {Name: "norm_1", Label: "block/n2/forward"}},
			Line{Phase: "forward", Layer: "block/n2", Operation: "norm", Kernels: 1, Device: 2, FLOPs: 3, Bytes: 30}},
		{"one name, without labels", []Kernel{{Name: "norm"}, {Name: "norm"}, {Name: "norm_1"}, {Name: "norm_1"}},
			Line{Operation: "norm", Kernels: 2, Device: 4, FLOPs: 2 * 2.5, Bytes: 2 * 25}},
		{"a gather now and then", []Kernel{{Name: "linear__l", Op: "linear", Label: "l"}},
			Line{Phase: "l", Operation: "linear", Kernels: 1, Device: 1, FLOPs: 3.5, Bytes: 35}},
		{"XLA's", []Kernel{{Name: "gemm_fusion_dot_3", Op: "dot", Label: "l2/backward"}, {Name: "gemm_fusion_dot_7", Op: "dot", Label: "l2/backward"}},
			Line{Phase: "backward", Layer: "l2", Operation: "dot", Kernels: 1, Device: 2, FLOPs: nan, Bytes: nan}},
		{"a library's", []Kernel{{Name: "sm90_xmma_fprop_2", Op: "custom-call", Label: "c1/forward"}},
			Line{Phase: "forward", Layer: "c1", Operation: "sm90_xmma_fprop", Kernels: 1, Device: 1, FLOPs: nan, Bytes: nan}},
		{"a copy", []Kernel{{Name: "MemcpyD2D"}}, Line{Operation: "MemcpyD2D", Kernels: 1, Device: 1, FLOPs: nan, Bytes: nan}},
	} {
		short := Kernel{Name: "loop_add_fusion", Op: "add", Label: "loss/forward", Seconds: 0.1}
		r := Recording{Kernels: []Kernel{short}}
		for _, k := range tt.kernels {
			k.Seconds = 2
			r.Kernels = append(r.Kernels, k)
		}
		lines := r.Lines(steps, calls)
		if len(lines) != 2 {
			t.Errorf("%s: got %d lines, want 2: %v", tt.name, len(lines), lines)
			continue
		}
		same := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) }
		got, want := lines[0], tt.want
		if got.Phase != want.Phase || got.Layer != want.Layer || got.Operation != want.Operation || got.Kernels != want.Kernels ||
			!same(got.Device, want.Device) || !same(got.FLOPs, want.FLOPs) || !same(got.Bytes, want.Bytes) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, want)
		}
	}
	if lines := new(Recording).Lines(1, calls); len(lines) != 0 {
		t.Errorf("nothing recorded: got %v", lines)
	}
}

// TestLinesOfARecording holds that all kernels of a step are in its lines.
func TestLinesOfARecording(t *testing.T) {
	r := recorded(t)
	sum, kernels, all := 0.0, 0, 0.0
	lines := r.Lines(3, nil)
	for i, l := range lines {
		sum, kernels = sum+l.Device, kernels+l.Kernels
		if i > 0 && l.Device > lines[i-1].Device || !math.IsNaN(l.Bytes) {
			t.Errorf("line %d: got %+v after %g s, want the longest first, and no bytes of XLA's kernels", i, l, lines[i-1].Device)
		}
	}
	for _, k := range r.Kernels {
		all += k.Seconds / 3
	}
	if kernels != 36 || math.Abs(sum-all) > 1e-12 {
		t.Errorf("got %d kernels in %g s, want all 36 in %g", kernels, sum, all)
	}
	if got := lines[0]; got.Path() != "update/adam/loop_add_subtract_fusion" || got.Kernels != 6 {
		t.Errorf("got %s, %d runs, as the longest, want Adam's for 6 arrays", got.Path(), got.Kernels)
	}
}
