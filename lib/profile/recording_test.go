package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/pjrt/xspace"
)

// recorded is what XLA's profiler wrote on an H200 for three steps of the
// SeedCNN with indexed fill, batch 8, each of the five programs of
// fit.Net.Phases.
func recorded(t *testing.T) *Recording {
	t.Helper()
	f, err := os.Open("testdata/seedfill-step.xspace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecording(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecording(t *testing.T) {
	r := recorded(t)
	if got, want := len(r.Kernels), 108; got != want {
		t.Fatalf("got %d kernels, want %d: 36 a step", got, want)
	}
	if r.Busy() < 100e-6 || r.Busy() > 200e-6 || r.Span() < r.Busy() {
		t.Errorf("got %g s busy in %g s, want 100 to 200 µs in more", r.Busy(), r.Span())
	}
	if got := r.Devices["/device:GPU:0"]["gpu_device_name"]; got != "NVIDIA H200" {
		t.Errorf("got the device %v", got)
	}
	// Most kernels run in CUDA graphs, where the profiler knows their names
	// alone; labels come from the program.
	var labels []string
	unknown := 0.0
	for _, g := range r.By(func(k Kernel) string { return k.Label }) {
		if g.Name == "" {
			unknown = g.Share
			continue
		}
		labels = append(labels, g.Name)
		if g.Kernels%3 != 0 {
			t.Errorf("%s: got %d kernels, want a multiple of 3 steps", g.Name, g.Kernels)
		}
	}
	slices.Sort(labels)
	want := "adam/update conv/backward conv/forward data/gather dense/backward dense/forward loss/forward output/backward output/forward pool/backward pool/forward"
	if got := strings.Join(labels, " "); got != want {
		t.Errorf("got the labels %s\nwant %s", got, want)
	}
	if unknown > 0.03 {
		t.Errorf("%.1f%% of the time has no label, want 3%% at most", 100*unknown)
	}
	fill := slices.IndexFunc(r.Kernels, func(k Kernel) bool { return k.Label == "pool/backward" && k.Op == "scatter" })
	if fill < 0 || r.Kernels[fill].Layer() != "pool" || r.Kernels[fill].Phase() != "backward" {
		t.Errorf("got no kernel for the fill of the pooling's gradient: %+v", r.By(func(k Kernel) string { return k.Label + " " + k.Op }))
	}
	if !slices.IsSortedFunc(r.Kernels, func(a, b Kernel) int {
		if a.Start < b.Start {
			return -1
		}
		return 0
	}) {
		t.Error("the kernels are not in their order")
	}
}

func TestBusy(t *testing.T) {
	r := Recording{Kernels: []Kernel{
		{Device: "a", Start: 0, Seconds: 2}, {Device: "a", Start: 1, Seconds: 2}, {Device: "b", Start: 1, Seconds: 1}, {Device: "a", Start: 1.5, Seconds: 0.5},
		{Device: "a", Start: 10, Seconds: 1}}}
	if got, want := r.Busy(), 5.0; math.Abs(got-want) > 1e-12 {
		t.Errorf("got %g s busy, want %g: what overlaps counts once a device", got, want)
	}
	if got, want := r.Span(), 11.0; got != want {
		t.Errorf("got a span of %g s, want %g", got, want)
	}
	// Groups share the time in which they run at once, and are all of it.
	by := map[string]float64{}
	for i := range r.Kernels {
		r.Kernels[i].Label = string(rune('0' + i))
	}
	for _, g := range r.By(Kernel.Layer) {
		by[g.Name] = g.Seconds
	}
	for name, want := range map[string]float64{"0": 17. / 12, "1": 17. / 12, "2": 1, "3": 1. / 6, "4": 1} {
		if math.Abs(by[name]-want) > 1e-12 {
			t.Errorf("kernel %s: got %g s of its own, want %g: %v", name, by[name], want, by)
		}
	}
	if r := new(Recording); r.Busy() != 0 || r.Span() != 0 || len(r.By(Kernel.Phase)) != 0 {
		t.Error("an empty recording: want nothing of it")
	}
}

func TestTrace(t *testing.T) {
	r := recorded(t)
	var b bytes.Buffer
	if err := r.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name     string
			Ph, Cat  string
			Ts, Dur  float64
			PID, TID int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	pieces, named := 0, map[[2]int]bool{}
	for _, e := range trace.TraceEvents {
		switch e.Ph {
		case "M":
			named[[2]int{e.PID, e.TID}] = true
		case "X":
			pieces++
			if !named[[2]int{e.PID, e.TID}] || e.Ts < 0 || e.Dur < 0 || e.Name == "" {
				t.Fatalf("got %+v before its thread has a name, or without a time", e)
			}
		}
	}
	if got, want := pieces, len(r.Kernels)+len(r.Host); got != want {
		t.Errorf("got %d pieces, want %d", got, want)
	}
	if !strings.Contains(b.String(), `"name":"pool/backward"`) || !strings.Contains(b.String(), `"kernel":"input_scatter_fusion`) {
		t.Error("the fill has no label in the trace")
	}
	b.Reset()
	if err := new(Recording).WriteTrace(&b); err != nil || !strings.Contains(b.String(), `"traceEvents":[]`) {
		t.Errorf("an empty one: got %s, %v", b.String(), err)
	}
}

func TestReadRecordingRefuses(t *testing.T) {
	for _, b := range [][]byte{{0x0a, 0x7f}, {0xff}, bytes.Repeat([]byte{0xff}, 20)} {
		if _, err := ReadRecording(b); err == nil {
			t.Errorf("%x: got no error", b)
		}
	}
	if r, err := ReadRecording(nil); err != nil || len(r.Kernels) != 0 {
		t.Errorf("nothing: got %v, %v, want an empty recording", r, err)
	}
}

// TestPrograms holds that the phases of a step can be told apart in a recording
// of the step, and that all of its kernels belong to one of them.
func TestPrograms(t *testing.T) {
	r := recorded(t)
	programs := perRun(r.programs(), 3)
	busy, kernels := 0.0, 0
	for _, g := range programs {
		busy, kernels = busy+g.Seconds, kernels+g.Kernels
	}
	if len(programs) != 5 || kernels != 36 || math.Abs(busy/(r.Busy()/3)-1) > 1e-9 {
		t.Errorf("got %d programs with %d kernels, %g s of %g s: %v; want 5 with all 36", len(programs), kernels, busy, r.Busy()/3, programs)
	}
	// next, forward, loss, backward, update: the loss has the fewest kernels, and
	// the fill is in the backward.
	for _, k := range r.Kernels {
		if i := slices.IndexFunc(programs, func(g Group) bool { return g.Name == fmt.Sprint(k.Program) }); k.Label == "pool/backward" && i != 3 || k.Label == "conv/forward" && i != 1 {
			t.Errorf("%s: in program %d of the step, want backward's at 3 and forward's at 1", k.Label, i)
			break
		}
	}
}

// TestOwnKernels holds that kernels of our own, of which a CUDA graph tells the
// name alone, are known for what they are.
func TestOwnKernels(t *testing.T) {
	m := &xspace.Module{Instructions: map[string]xspace.Instruction{}}
	for i, label := range []string{"l1/forward", "l2/forward", "l2/backward", "conv_1/forward", "adam/update"} {
		m.Instructions[fmt.Sprint("custom-call.", i)] = xspace.Instruction{Op: "custom-call", Label: label}
	}
	m.Instructions["loop_add_fusion.1"] = xspace.Instruction{Op: "fusion", Label: "loss/forward"}
	for _, tt := range []struct{ kernel, op, label string }{
		{"linear_relu__l1_forward", "linear_relu", "l1/forward"},
		{"linear_relu__l2_forward", "linear_relu", "l2/forward"},
		{"linear_input_relu__l2_backward_1", "linear_input_relu", "l2/backward"},
		{"conv_relu__conv_1_forward_12", "conv_relu", "conv_1/forward"},
		{"group_adam__adam_update", "group_adam", "adam/update"},
		{"loop_add_fusion_1", "fusion", "loss/forward"},
		{"linear_relu__l9_forward", "", ""},
		{"memcpy32_post", "", ""},
	} {
		if i, _ := instruction(m, tt.kernel); i.Op != tt.op || i.Label != tt.label {
			t.Errorf("%s: got %q of %q, want %q of %q", tt.kernel, i.Op, i.Label, tt.op, tt.label)
		}
	}
}
