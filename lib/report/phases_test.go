package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/lib/profile"
	"gaiden/lib/timing"
)

// measured is a line whose samples are 1 % around a time.
func measured(level profile.Level, phase, layer, op string, seconds, share, flops, bytes float64) profile.Line {
	return profile.Line{Level: level, Phase: phase, Layer: layer, Operation: op, Kernels: -1, Calls: 7500, Share: share, FLOPs: flops, Bytes: bytes,
		Time: timing.Measurement{Samples: []float64{0.99 * seconds, seconds, 1.01 * seconds}, Loops: 10, Device: true}}
}

// article is notebook 02's as this package would show it.
func article() *profile.Phases {
	p := &profile.Phases{Net: "cnn", Model: "SeedCNN", Data: "mnist/train", Batch: 8, Steps: 7500, Seen: 500,
		Peaks: profile.Peaks{Device: "a GPU", Copy: 300e9, F32: 4e12, TF32: 4e12, BF16: 4e12, Dispatch: 1e-5, Latency: 3e-5},
		Phases: []profile.Line{
			measured(profile.Phase, "forward", "", "", 1.32e-3, 0.0995, 4.5e6, 1e6),
			measured(profile.Phase, "backward", "", "", 10.3e-3, 0.777, 7.6e6, 2e6),
			measured(profile.Phase, "update", "", "", 1.64e-3, 0.1237, 2.6e6, 5.5e6)},
		Forward: []profile.Line{measured(profile.Layer, "forward", "conv", "", 0.9e-3, 1, 1.3e6, 3.4e5)},
		Backward: []profile.Line{
			measured(profile.Layer, "backward", "pool", "", 9.72e-3, 0.956, 3e4, 6e5),
			measured(profile.Layer, "backward", "conv", "", 442e-6, 0.044, 1.3e6, 3.4e5)},
		Ops: []profile.Line{
			measured(profile.Operation, "backward", "pool", "scatter", 9.5e-3, 0.988, 1e4, 5e5),
			measured(profile.Operation, "backward", "pool", "add", 112e-6, 0.012, 1e4, 5e5)},
		Chain:      measured(profile.Phase, "step", "", "", 13.3e-3, 0, 14.7e6, 8.5e6),
		Epoch:      measured(profile.Phase, "epoch", "", "", 9e-3, 0, 0, 0),
		TrainError: measured(profile.Phase, "train error", "", "", 0.957, 0, 0, 0),
		Warnings:   []error{errors.New("the machine <was> busy")},
	}
	p.TrainError.Calls = 1
	p.InStep = 13.1e-3
	for i, l := range p.Phases {
		p.Phases[i].InStep = l.Seconds() * p.InStep / p.Sum()
	}
	return p
}

// recording is two steps of one kernel each, and one that nobody knows.
func recording() *profile.Recording {
	return &profile.Recording{Kernels: []profile.Kernel{
		{Device: "/device:GPU:0", Stream: "14", Name: "input_scatter_fusion", Op: "scatter", Label: "pool/backward", Start: 0, Seconds: 3e-6},
		{Device: "/device:GPU:0", Stream: "14", Name: "memcpy32_post", Start: 5e-6, Seconds: 1e-6},
		{Device: "/device:GPU:0", Stream: "14", Name: "input_scatter_fusion", Op: "scatter", Label: "pool/backward", Start: 10e-6, Seconds: 3e-6}},
		Warnings: []error{errors.New("a <lost> event")}}
}

func sweeps() (*profile.Sweep, *profile.Batches) {
	at := func(seconds float64) timing.Measurement {
		return timing.Measurement{Samples: []float64{seconds, seconds, 1.5 * seconds}, Loops: 1}
	}
	w := &profile.Sweep{Activation: "relu", Device: "a GPU", Points: []profile.SweepPoint{
		{N: 1, Awaited: at(2e-5), Pipelined: at(5e-6), Host: at(1e-9)},
		{N: 1 << 20, Awaited: at(3e-5), Pipelined: at(8e-6), Host: at(1e-3)},
		{N: 1 << 26, Awaited: at(2e-4), Pipelined: at(1.5e-4)}}}
	b := &profile.Batches{Net: "pose", Model: "DeepPose", Device: "a GPU", Points: []profile.BatchPoint{{Batch: 1, Core: at(1e-3)}, {Batch: 2, Core: at(1.2e-3)}}}
	return w, b
}

// TestMeasuredGoldens compares what measurements look like with what is kept.
func TestMeasuredGoldens(t *testing.T) {
	p := article()
	gpu := article()
	for i := range gpu.Phases {
		gpu.Phases[i].Device, gpu.Phases[i].Kernels = gpu.Phases[i].Seconds()/2, 12
		gpu.Phases[i].InStep /= 2
	}
	gpu.InStep /= 2
	gpu.InChain = []profile.Group{{Name: "pool/backward", Kernels: 2, Seconds: 5e-3, Share: 0.75}, {Name: profile.NoLabel + "memcpy32_post", Kernels: 1, Seconds: 1.65e-3, Share: 0.25}}
	gpu.InEpoch = []profile.Group{{Name: "pool/backward", Kernels: 1, Seconds: 4e-3, Share: 0.99},
		{Name: "conv/forward", Kernels: 1, Seconds: 2e-5, Share: 0.004}, {Name: profile.NoLabel + "sort_1", Seconds: 1e-5, Share: 0.003}, {Name: profile.NoLabel + "sort_2", Seconds: 1e-5, Share: 0.003}}
	gpu.Chain.Device, gpu.Chain.Kernels = gpu.Chain.Seconds()/2, 36
	gpu.Phases[0].Device, gpu.Phases[0].Time.Host = 0, 1.3e-3
	gpu.Phases[0].Time.Samples = []float64{0.9e-3}
	gpu.Partial, gpu.TrainError.Time.Samples, gpu.Epoch.Time.Samples = true, nil, nil
	unclear := article() // a time that cannot be believed leaves its row in a roofline
	unclear.Phases[1].Time.Samples = []float64{1e-5, 2e-2, 3e-1, 1e-5}
	w, b := sweeps()
	partial := *w
	partial.Points, partial.Partial = w.Points[:1], true
	tests := []struct {
		name string
		of   Rich
	}{
		{"phases", Phases(p)},
		{"phases-gpu", Phases(gpu)},
		{"phases-nothing", Phases(&profile.Phases{Net: "n", Partial: true})},
		{"nets-two", Nets("before and after", p, gpu)},
		{"nets-three", Nets("three", p, p, &profile.Phases{Net: "nothing"})},
		{"roofline", Roofline("cnn", p.Peaks, p.Lines()...)},
		{"roofline-unclear", Roofline("cnn", p.Peaks, unclear.Lines()...)},
		{"peaks", Peaks(p.Peaks)},
		{"recording", Recording(recording())},
		{"recording-nothing", Recording(&profile.Recording{})},
		{"sweep", Sweep(w)},
		{"sweep-stopped", Sweep(&partial)},
		{"batches", Batches(b)},
		{"bars-odd", Bars{Title: "<odd>", Bars: []Bar{{Name: "nan & co", Value: math.NaN()}, {Name: "negative", Value: -1}, {Name: "∞", Value: math.Inf(1)}, {Name: "one", Value: 1, Group: -3}, {Name: "half", Value: 0.5, Group: 99}}}},
		{"bars-nothing", Bars{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, filepath.Join("measured", tt.name+".txt"), tt.of.String()+"\n")
			plainHTML(t, tt.of.HTML())
		})
	}
}

// plainHTML holds that HTML is XML as well, with no markup of a caption and
// nothing that runs or is fetched.
func plainHTML(t *testing.T, html string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<all>" + strings.ReplaceAll(html, "<br>", "<br/>") + "</all>"))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in %s", err, html)
		}
		if e, is := token.(xml.StartElement); is {
			switch e.Name.Local {
			case "was", "lost", "odd", "script", "img", "link", "style":
				t.Errorf("got the element %s", e.Name.Local)
			}
		}
	}
}

func TestMeasuringTakesNoTime(t *testing.T) {
	began := time.Now()
	r := &profile.Recording{}
	for i := range 100_000 {
		r.Kernels = append(r.Kernels, profile.Kernel{Name: "k", Label: string(rune('a' + i%20)), Start: float64(i), Seconds: 0.5})
	}
	if s := Recording(r).HTML(); len(s) > 100_000 {
		t.Errorf("a recording of 100,000 kernels: got %d bytes of HTML, want what a page can hold", len(s))
	}
	if took := time.Since(began); took > time.Minute { // quadratic work would take hours, also on a quiet machine
		t.Errorf("it took %v", took)
	}
}
