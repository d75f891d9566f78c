package profile

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"gaiden/lib/timing"
)

func line(level Level, phase, layer, op string, seconds float64) Line {
	return Line{Level: level, Phase: phase, Layer: layer, Operation: op, Kernels: -1,
		Time: timing.Measurement{Samples: []float64{seconds, seconds, seconds}, Loops: 1, Device: true}}
}

// article is what notebook 02's article measured, in seconds.
func article() *Phases {
	p := &Phases{
		Phases:   []Line{line(Phase, "forward", "", "", 1.32e-3), line(Phase, "backward", "", "", 10.3e-3), line(Phase, "update", "", "", 1.64e-3)},
		Backward: []Line{line(Layer, "backward", "output", "", 152e-6), line(Layer, "backward", "dense", "", 224e-6), line(Layer, "backward", "pool", "", 9.72e-3), line(Layer, "backward", "conv", "", 442e-6)},
		Ops: []Line{line(Operation, "backward", "pool", "reshape", 17.1e-6), line(Operation, "backward", "pool", "broadcast_in_dim", 7.89e-6),
			line(Operation, "backward", "pool", "scatter", 9.5e-3), line(Operation, "backward", "pool", "reshape_2", 1.86e-6), line(Operation, "backward", "pool", "add", 112e-6)},
		Steps: 7500,
	}
	share(p.Phases)
	share(p.Backward)
	share(p.Ops)
	return p
}

// TestBottleneckOfTheArticle finds what its author found by hand, and after his
// remedy something else.
func TestBottleneckOfTheArticle(t *testing.T) {
	p := article()
	want := "backward takes 77.7 % of a step; in it layer pool takes 92.2 % of the layers' time, and of that its scatter (indexed fill) 98.6 %: 9.50 ms\n" +
		"a fill through an index is slow: models.MaxPool2D{Gradient: models.Mask} compares and multiplies instead"
	if got := p.Bottleneck().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := p.Estimate(), 99.45; math.Abs(got-want) > 1e-9 {
		t.Errorf("estimated epoch: got %g s, want %g", got, want)
	}
	p.Phases[1], p.Backward[2], p.Ops = line(Phase, "backward", "", "", 0.9e-3), line(Layer, "backward", "pool", "", 280e-6), nil
	share(p.Phases)
	share(p.Backward)
	want = "update takes 42.5 % of a step: 1.64 ms"
	if got := p.Bottleneck().String(); got != want {
		t.Errorf("after the remedy: got %s\nwant %s", got, want)
	}
}

// A layer that the net has several times counts as often, and of very many ops those of a
// kind are one line.
func TestBottleneckOfBlocks(t *testing.T) {
	block := line(Layer, "backward", "block/attention", "", 2e-3)
	block.Times = 4
	p := &Phases{Phases: []Line{line(Phase, "backward", "", "", 9e-3)}, Backward: []Line{line(Layer, "backward", "head", "", 3e-3), block}}
	for i := range 15 {
		for _, op := range []string{"dot_general", "add"} {
			if i > 0 {
				op += "_" + strconv.Itoa(i+1)
			}
			p.Ops = append(p.Ops, line(Operation, "backward", "block/attention", op, map[bool]float64{true: 80e-6, false: 20e-6}[op[0] == 'd']))
		}
	}
	for _, lines := range [][]Line{p.Phases, p.Backward, p.Ops} {
		share(lines)
	}
	want := "backward takes 100.0 % of a step; in it the 4 layers block/attention take 72.7 % of the layers' time, and of that its 15 dot_general ops 80.0 %: 1.20 ms"
	if got := p.Bottleneck().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := p.Kinds("backward", "block/attention"); len(got) != 2 || got[1].Operation != "add" || got[1].Times != 15 || math.Abs(got[1].Seconds()-20e-6) > 1e-12 {
		t.Errorf("kinds: got %v", got)
	}
	p.Ops = p.Ops[:listed]
	if got := p.Kinds("backward", "block/attention"); len(got) != listed || got[0].Operation != "dot_general" || got[2].Operation != "dot_general_2" {
		t.Errorf("of few ops: got %v, want each by itself", got)
	}
	if _, err := p.Find("backward/block/attention"); err != nil {
		t.Error(err)
	}
	if _, err := p.Find("backward/block/attention/mul"); err == nil || !strings.Contains(err.Error(), "want one of backward/block/attention/dot_general, ") {
		t.Errorf("an op that there is not: got %v", err)
	}
}

// A machine that is too busy gets no verdict, nor advice.
func TestBottleneckOfABusyMachine(t *testing.T) {
	wild := []float64{1e-3, 10e-3, 40e-3}
	for _, tt := range []struct {
		name    string
		disturb func(*Phases)
		want    string // of the finding's text
		chain   int
	}{
		{"its phase", func(p *Phases) { p.Phases[1].Time.Samples = wild }, "backward spread 98 %\nfastest runs, which load disturbs least: update 1.64 ms, forward 1.32 ms, backward 1.00 ms: which of update and forward takes longest is not certain", 0},
		{"its layer", func(p *Phases) { p.Backward[2].Time.Samples = wild }, "backward takes", 1},
		{"its op", func(p *Phases) { p.Ops[2].Time.Samples = wild }, "in it layer pool takes", 2},
		{"many lines", func(p *Phases) {
			for _, l := range [][]Line{p.Ops, p.Backward[:2]} {
				for i := range l {
					l[i].Time.Samples = wild
				}
			}
		}, "no bottleneck: not measurable here, the machine is busy: 7 of 12 lines spread more than 25 %", 0},
		{"the step", func(p *Phases) {
			p.Chain = line(Phase, "step", "", "", 1e-3)
			p.Chain.Time.Samples = wild
		}, "the step spread 98 %\nfastest runs, which load disturbs least: backward 10.3 ms, update 1.64 ms, forward 1.32 ms: probably backward takes longest", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := article()
			tt.disturb(p)
			b := p.Bottleneck()
			if !strings.Contains(b.String(), tt.want) || len(b.Chain) != tt.chain || tt.chain == 0 && b.Advice != "" {
				t.Errorf("got %d lines: %s\nwant %d: %s", len(b.Chain), b, tt.chain, tt.want)
			}
		})
	}
}

// Peaks that were measured twice are the best of both.
func TestBestPeaks(t *testing.T) {
	old := Peaks{Device: "d", Copy: 1, F32: 20, TF32: 30, BF16: 4, Dispatch: 5, Latency: 6}
	now := Peaks{Device: "d", Copy: 10, F32: 2, TF32: 3, BF16: 40, Dispatch: 50, Latency: 0.6}
	if got, want := now.best(old), (Peaks{Device: "d", Copy: 10, F32: 20, TF32: 30, BF16: 40, Dispatch: 5, Latency: 0.6}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	then, later := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ old, now, want bool }{{false, true, false}, {true, true, true}, {true, false, false}, {false, false, false}} {
		old.Busy, old.Time, now.Busy, now.Time = tt.old, then, tt.now, later
		want := later
		if tt.now && !tt.old {
			want = then
		}
		if got := now.best(old); got.Busy != tt.want || got.Time != want {
			t.Errorf("busy then %t, now %t: got %t of %s", tt.old, tt.now, got.Busy, got.Time)
		}
	}
	old.Device = "another"
	if got := now.best(old); got != now {
		t.Errorf("of another device: got %v, want %v", got, now)
	}
}

// What takes no longer than the cost that is taken off it is known to be that short.
func TestFloor(t *testing.T) {
	got := less([]float64{10e-6, 30e-6}, 20e-6, 1e-6)
	l := Line{Floor: 1e-6, Time: timing.Measurement{Samples: []float64{got[0]}, Loops: 1, Device: true}}
	if got[0] != 1e-6 || math.Abs(got[1]-10e-6) > 1e-12 || !l.AtMost() {
		t.Errorf("got %v, at most: %t; want 1 µs, at most, and 10 µs", got, l.AtMost())
	}
}

func TestBottleneckDoubts(t *testing.T) {
	if got, want := new(Phases).Bottleneck().String(), "no bottleneck: nothing was measured"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p := article()
	p.Ops[2].Time.Samples = []float64{7.5e-3, 9.5e-3, 13e-3}
	if got := p.Bottleneck().Doubt; got == "" {
		t.Error("samples that spread far: got no doubt")
	}
	p = article()
	p.Phases[1].Time = timing.Measurement{Samples: []float64{0.5e-3}, Host: 0.5e-3, Device: true}
	p.Phases[0].Time.Samples, p.Phases[2].Time.Samples = []float64{1e-6}, []float64{1e-6}
	if got := p.Bottleneck().Doubt; got == "" {
		t.Error("dispatch-bound: got no doubt")
	}
	p.Phases[1].Device = 20e-6 // the profiler knows
	if got := p.Bottleneck(); got.Chain[0].Seconds() != 20e-6 || got.Chain[0].AtMost() {
		t.Errorf("got %v, want the device's own time", got)
	}
}

// TestOperation holds that a loop that only writes where an index says is called
// a fill, and other loops are not.
func TestOperation(t *testing.T) {
	loop := func(body string) string {
		return "stablehlo.while(%0) cond { stablehlo.compare LT stablehlo.return } do { stablehlo.dynamic_slice " + body + " stablehlo.dynamic_update_slice stablehlo.return }"
	}
	tests := []struct{ name, op, text, want string }{
		{"a fill", "while", loop("stablehlo.select"), "fill"},
		{"a recurrence", "while", loop("stablehlo.dot_general stablehlo.tanh"), "while"},
		{"a count", "while", "stablehlo.while stablehlo.add stablehlo.compare", "while"},
		{"another op", "dynamic_update_slice", "stablehlo.dynamic_update_slice", "dynamic_update_slice"},
	}
	for _, tt := range tests {
		if got := operation(tt.op, tt.text); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for in, want := range map[string]string{"fill": "fill", "fill_2": "fill", "scatter_12": "scatter", "select_and_scatter": "select_and_scatter"} {
		if got := base(in); got != want {
			t.Errorf("base(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestPeaksShare(t *testing.T) {
	p := Peaks{Copy: 100e9, TF32: 1000e9, F32: 500e9, BF16: 2000e9, Dispatch: 1e-6, Latency: 1e-5}
	tests := []struct {
		name         string
		flops, bytes float64
		seconds      float64
		share        float64
		bound        string
	}{
		{"matmuls", 5e9, 1e6, 0.01, 0.5, "matmuls"},
		{"memory", 1e6, 0.25e9, 0.01, 0.25, "memory"},
		{"no time", 1, 1, math.NaN(), math.NaN(), ""},
		{"a little above the peak", 10.5e9, 1e6, 0.01, 1, "matmuls"},
		{"matmuls faster than the peak", 15.9e9, 1e6, 0.01, math.NaN(), ""},
		{"memory faster than the peak", 1e6, 4e9, 0.01, math.NaN(), ""},
		{"in a cache", 1e6, 4e6, 1e-6, math.NaN(), "cache"},
	}
	for _, tt := range tests {
		l := Line{FLOPs: tt.flops, Bytes: tt.bytes, Device: tt.seconds}
		share, bound := p.Share(l)
		if bound != tt.bound || math.Abs(share-tt.share) > 1e-9 && !math.IsNaN(tt.share) {
			t.Errorf("%s: got %g of %s, want %g of %s", tt.name, share, bound, tt.share, tt.bound)
		}
	}
	if l := (Line{FLOPs: 5e9, Bytes: 1e6, Time: timing.Measurement{Samples: []float64{0.005, 0.01, 0.02}}}); l.Unclear() == "" {
		t.Error("samples that spread far: got a time that is clear")
	} else if share, _ := p.Share(l); !math.IsNaN(share) {
		t.Errorf("samples that spread far: got a share of %g, want NaN", share)
	}
	if share, bound := p.Share(Line{FLOPs: 15.9e9, Bytes: 1e6, Device: 0.01, Narrow: true}); bound != "matmuls" || math.Abs(share-0.795) > 1e-9 {
		t.Errorf("bfloat16: got %g of %s, want 0.795 of its own peak", share, bound)
	}
	if got, want := p.Ridge(), 10.0; got != want {
		t.Errorf("got the ridge at %g FLOPs a byte, want %g", got, want)
	}
	if share, _ := (Peaks{}).Share(Line{FLOPs: 1, Bytes: 1, Device: 1}); !math.IsNaN(share) {
		t.Errorf("unknown peaks: got %g, want NaN", share)
	}
}

func TestLine(t *testing.T) {
	time := timing.Measurement{Samples: []float64{420e-6, 421e-6, 422e-6}, Loops: 10}
	asked := timing.Measurement{Samples: []float64{20e-6}, Loops: 10, Device: true, Host: 19e-6}
	tests := []struct {
		line Line
		want string
	}{
		{Line{Phase: "next"}, "next   not measured"},
		{Line{Phase: "step", Time: time}, "step   421 µs ± 0 %"},
		{Line{Phase: "loss", Time: asked, Share: 0.006}, "loss   ≤ 20.0 µs, 0.6 % of a step"},
		{Line{Level: Layer, Phase: "backward", Layer: "pool", Time: time, Share: 0.169, FLOPs: 329280, Bytes: 627200}, "backward/pool   421 µs ± 0 %, 16.9 % of the layers, 329 kFLOP, 627 kB"},
		{Line{Level: Operation, Phase: "backward", Layer: "pool", Operation: "select", Device: 2e-6, Kernels: 3, Share: 0.5}, "backward/pool/select   2.00 µs, 50.0 % of its layer, 3 kernels"},
	}
	for _, tt := range tests {
		if got := tt.line.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
