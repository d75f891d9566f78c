package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit"
	"gaiden/lib/profile"
	"gaiden/lib/session"
	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// plainEpoch is how a net is trained if nothing else is asked for.
const plainEpoch = "gaiden epoch"

// trainLimit notes what limits a net that is trained. In CUDA graphs a profiler does not
// know what XLA's kernels are for: where the longest is one of those, a run without
// graphs is recorded, too.
func (b *bench) trainLimit(s *session.Session, c trainCase, n *fit.Net, data *fit.Set, t fit.Train, r *profile.Recording, peaks profile.Peaks) error {
	program, err := n.Steps(data, t)
	if err != nil {
		return err
	}
	work, err := n.Work(data, c.batch)
	if err != nil {
		return err
	}
	steps := c.n / c.batch * t.Epochs
	lines := r.Lines(steps, program.Calls())
	if len(lines) > 0 && lines[0].Phase == "" {
		if labelled, err := recordLabels(s, c, t); err == nil {
			lines = labelled.Lines(steps, program.Calls())
		} else {
			fmt.Fprintf(b.progress, "bench train: %s: what its longest kernel is for is not known: %v\n", c.name, err)
		}
	}
	b.noteLimit(c.name, lines, program, work, peaks)
	return nil
}

// recordLabels records a run without graphs.
func recordLabels(s *session.Session, c trainCase, t fit.Train) (*profile.Recording, error) {
	c.ungraphed()
	n, data, err := c.attach(s, "labels", c.config)
	if err != nil {
		return nil, err
	}
	defer n.Reset()
	epochs := func() error {
		_, err := n.Train(context.Background(), data, t)
		return err
	}
	if err := epochs(); err != nil { // compiles
		return nil, err
	}
	return profile.Record(s, epochs)
}

// noteLimit notes the first of a net's kernels, which takes most of a step, and how near
// it comes to the device's peaks. Of XLA's kernels only the time is known: there it is
// the products of all that has the same label. work is a step's, in FLOPs.
func (b *bench) noteLimit(name string, lines []profile.Line, program *hlo.Program, work float64, peaks profile.Peaks) {
	if len(lines) == 0 {
		return
	}
	l := lines[0]
	kernel := l.Operation
	switch {
	case l.Layer != "":
		kernel += " (" + l.Layer + "/" + l.Phase + ")"
	case l.Phase != "":
		kernel += " (" + l.Phase + ")"
	}
	b.addSamples(name+"-limit", kernel, "µs", []float64{l.Device * 1e6})
	b.addSamples(name+"-limit-kernels", kernel, "kernels", []float64{float64(l.Kernels)})
	share, _ := peaks.Share(l)
	if math.IsNaN(share) {
		b.noteLabel(name, lines, program, work)
		return
	}
	b.addSamples(name+"-limit-memory", kernel, "TB/s", []float64{l.Bytes / l.Device / 1e12})
	b.addSamples(name+"-limit-products", kernel, "TFLOP/s", []float64{l.FLOPs / l.Device / 1e12})
	b.addSamples(name+"-limit-share", kernel, "%", []float64{100 * share})
}

// noteLabel notes what all kernels with the longest one's label take, and how many
// FLOPs those are of the step's.
func (b *bench) noteLabel(name string, lines []profile.Line, program *hlo.Program, work float64) {
	layer, phase := lines[0].Layer, lines[0].Phase
	seconds := 0.0
	for _, l := range lines {
		if l.Layer == layer && l.Phase == phase {
			seconds += l.Device
		}
	}
	for _, c := range program.Costs() {
		if c.Label == layer+"/"+phase && c.FLOPs > 0 {
			b.addSamples(name+"-limit-label", c.Label, "µs", []float64{seconds * 1e6})
			b.addSamples(name+"-limit-label-products", c.Label, "TFLOP/s", []float64{work * c.FLOPs / program.FLOPs() / seconds / 1e12})
		}
	}
}

// printLimits prints a line for each net of which the kernels are known.
func (b *bench) printLimits(w io.Writer) {
	for _, c := range trainCases {
		step, limit := b.find(c.name, plainEpoch), b.find(c.name+"-limit", "")
		if step == nil || limit == nil {
			continue
		}
		fmt.Fprintf(w, "%s: the longest kernel is %s, %s of %s a step", c.name, limit.Subject, units.Seconds(limit.Median/1e6), units.Seconds(step.Median/1e6))
		if n := b.find(c.name+"-limit-kernels", ""); n != nil && n.Median > 1 {
			fmt.Fprintf(w, " in %.0f runs", n.Median)
		}
		fmt.Fprintln(w, b.shares(c.name))
	}
}

// shares says how near the limit of a net comes to the peaks, the nearer one first.
func (b *bench) shares(name string) string {
	type near struct {
		share float64
		text  string
	}
	var l []near
	for _, of := range []struct{ what, peak string }{{"memory", "copy"}, {"products", "products"}} {
		rate, peak := b.find(name+"-limit-"+of.what, ""), b.find("peak", of.peak)
		if rate == nil || peak == nil {
			return "; it is XLA's" + b.labelShare(name)
		}
		share, text := ofPeak(rate, peak, of.what)
		if of.what == "memory" && share > 1 {
			text += " (what it touches lies in a cache)"
		}
		l = append(l, near{share, text})
	}
	slices.SortStableFunc(l, func(a, b near) int { return cmp.Compare(b.share, a.share) })
	return ": at " + l[0].text + "; at " + l[1].text
}

// labelShare says the same of what has the label of a kernel of XLA's.
func (b *bench) labelShare(name string) string {
	part, rate, peak := b.find(name+"-limit-label", ""), b.find(name+"-limit-label-products", ""), b.find("peak", "products")
	if part == nil || rate == nil || peak == nil {
		return ": its bytes and FLOPs are not known"
	}
	_, text := ofPeak(rate, peak, "products")
	return fmt.Sprintf("; all of %s, %s, is at %s", part.Subject, units.Seconds(part.Median/1e6), text)
}

func ofPeak(rate, peak *timing.Record, what string) (share float64, text string) {
	share = rate.Median / peak.Median
	return share, fmt.Sprintf("%s of the peak of %s, %.3g of %.3g %s", units.Percent(share), what, rate.Median, peak.Median, peak.Unit)
}
