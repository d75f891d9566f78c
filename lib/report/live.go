package report

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/sysinfo"
)

const (
	curvesAfter = 2 * time.Second        // of steps: a shorter training has no curves, they would flicker
	curvesEvery = 500 * time.Millisecond // between two drawings with curves; the first follow each other sooner, so that one sees at once that they move
	lookEvery   = 2 * time.Second        // at the devices
)

// A live is a training as a notebook shows it: a bar, curves of its loss and metrics, and how
// busy the devices are. What it is given costs a few nanoseconds a step; it draws in a
// goroutine of its own, twice a second in the long run.
type live struct {
	bar      Progress
	last     fit.Progress
	shown    time.Time
	every    time.Duration // between two drawings with curves
	drawing  sync.Mutex
	devices  atomic.Pointer[string]
	stop     context.CancelFunc // of the look at the devices
	loss     trace
	accuracy trace
	ends     []int // of the epochs of the history: after so many steps
}

// Training shows a net being trained, as Fit does in a cell: progress takes what a Train's
// Progress is given, and end how it ended. show gets each state as text and as HTML, and
// replaces the one before; ended is what it is to be replaced by where no other state
// follows, and "" in the last one.
func Training(net string, show func(text, page, ended string)) (progress func(fit.Progress), end func(*fit.History, error)) {
	l := &live{bar: Progress{Title: net, send: show}}
	return l.progress, l.end
}

func (l *live) progress(p fit.Progress) {
	l.take(p)
	curves := l.loss.steps > 0 && p.Elapsed-p.History.Compile >= curvesAfter
	wait := renewal
	if curves {
		wait = l.every
		if l.stop == nil {
			l.watch()
		}
	}
	if time.Since(l.shown) < wait || !l.drawing.TryLock() {
		return
	}
	l.shown = time.Now()
	var plots []Plot
	if curves {
		plots = l.plots()
		l.every = min(curvesEvery, max(renewal, 2*l.every))
	}
	go func() {
		defer l.drawing.Unlock()
		l.bar.Total = p.Total
		l.bar.setState(p.Trained, p.String(), below(plots, l.devices.Load())...)
	}()
}

// end draws the last state, in which nothing of the devices is left.
func (l *live) end(h *fit.History, err error) {
	if l.stop != nil {
		l.stop()
	}
	if err != nil && l.last.Epochs == 0 {
		return // nothing has started: the error says it
	}
	l.drawing.Lock()
	var plots []Plot
	if h != nil {
		l.last.History = h
		l.take(l.last)
	}
	if l.stop != nil {
		plots = l.plots()
	}
	l.bar.Total = l.last.Total
	l.bar.finish(l.last.Trained, l.last.Outcome(h, err), below(plots, nil)...)
	l.drawing.Unlock()
}

func below(plots []Plot, devices *string) (all []Rich) {
	if len(plots) > 0 {
		all = append(all, panels(plots))
	}
	if devices != nil {
		all = append(all, caption(*devices))
	}
	return all
}

// take adds the steps and epochs that are new to the curves.
func (l *live) take(p fit.Progress) {
	l.last = p
	h := p.History
	if h == nil {
		return
	}
	for i := l.loss.steps; i < len(h.Losses); i++ {
		l.loss.add(float64(h.Losses[i]), 1)
		if i < len(h.Right) {
			l.accuracy.add(float64(h.Right[i]), float64(h.Answers[i]))
		}
	}
	for i := len(l.ends); i < len(h.Epochs); i++ {
		step := len(h.Losses)
		if p.Steps > 0 {
			step = min(step, h.Epochs[i].Number*p.Steps)
		}
		l.ends = append(l.ends, step)
	}
}

// plots are the loss, the accuracy and the first metric, as far as there are some.
func (l *live) plots() []Plot {
	all := []Plot{l.plot("loss", l.loss.series("train"))}
	if len(l.accuracy.buckets) > 0 {
		all = append(all, l.plot("accuracy", l.accuracy.series("train")))
	}
	if len(l.last.Metrics) > 0 {
		m := l.last.Metrics[0]
		s := l.ofEpochs("train", func(e fit.Epoch) *fit.Score { return &e.Train }, m.Name)
		if n := len(l.ends); n == 0 || l.ends[n-1] < l.loss.steps { // the epoch so far
			s.X, s.Y = append(s.X, float64(l.loss.steps)), append(s.Y, m.Value)
		}
		all = append(all, l.plot(m.Name, s))
	}
	for i := range all {
		all[i].Width = min(640, (716-16*(len(all)-1))/len(all)) // in one row where a notebook has the usual width
	}
	return all
}

// ofEpochs is a result of the epochs, or of as many of them as a plot shows: they may be one
// step each.
func (l *live) ofEpochs(name string, of func(fit.Epoch) *fit.Score, result string) Series {
	s := Series{Name: name}
	for _, i := range thinned(len(l.ends), mostBuckets) {
		if score := of(l.last.History.Epochs[i]); score != nil {
			s.X, s.Y = append(s.X, float64(l.ends[i])), append(s.Y, score.Metric(result))
		}
	}
	return s
}

// plot is a curve of the training with that of the validation.
func (l *live) plot(name string, train Series) Plot {
	p := Plot{Title: name, X: "step", Height: 220, Series: []Series{train}}
	test := l.ofEpochs("validation", func(e fit.Epoch) *fit.Score { return e.Validation }, name)
	if len(test.Y) > 0 {
		p.Series = append(p.Series, test)
	}
	if name == "loss" {
		low, high := 0.0, 0.0
		for i, y := range append(append([]float64{}, train.Y...), test.Y...) {
			if i == 0 || y < low {
				low = y
			}
			high = max(high, y)
		}
		p.LogY = low > 0 && high > 30*low
	}
	return p
}

// watch looks at the devices until the training has ended.
func (l *live) watch() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		var meter sysinfo.Meter
		meter.Read(ctx) // the first reading has no share of the CPU
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
			}
			said := Usage(meter.Read(ctx))
			l.devices.Store(&said)
		}
	}()
}

// Usage is a line such as: CPU 43 %, 5.1 of 23.5 GiB · NVIDIA H200 97 %, 12 of 140 GiB, 54 °C, 410 W.
func Usage(u sysinfo.Usage) string {
	var l []string
	cpu := "CPU"
	if u.CPU >= 0 {
		cpu += fmt.Sprintf(" %.0f %%", 100*u.CPU)
	}
	if m := u.Memory; m.Total > 0 && m.Free >= 0 {
		cpu += ", " + filled(max(0, m.Total-m.Free), m.Total)
	}
	l = append(l, cpu)
	const most = 4
	for i, g := range u.GPUs {
		if i == most {
			l = append(l, fmt.Sprintf("%d more: %%monitor", len(u.GPUs)-most))
			break
		}
		l = append(l, gpuLine(g))
	}
	return strings.Join(l, " · ")
}

func gpuLine(g sysinfo.GPUUsage) string {
	parts := []string{g.Name}
	if g.Busy >= 0 {
		parts[0] += fmt.Sprintf(" %.0f %%", 100*g.Busy)
	}
	if g.Used >= 0 && g.Total > 0 {
		parts = append(parts, filled(g.Used, g.Total))
	}
	if g.Temperature >= 0 {
		parts = append(parts, fmt.Sprintf("%.0f °C", g.Temperature))
	}
	if g.Power >= 0 {
		parts = append(parts, fmt.Sprintf("%.0f W", g.Power))
	}
	return strings.Join(parts, ", ")
}

// filled is memory in use of all.
func filled(used, total int64) string {
	return fmt.Sprintf("%.1f of %.1f GiB", float64(used)/(1<<30), float64(total)/(1<<30))
}

// caption is a line of small letters.
type caption string

func (c caption) String() string { return string(c) }
func (c caption) HTML() string   { return small(string(c)) }

// panels are plots next to each other, in text a line each.
type panels []Plot

func (p panels) String() string {
	var lines []string
	for _, plot := range p {
		s := plot.Series[len(plot.Series)-1]
		lines = append(lines, fmt.Sprintf("  %-10s %s", shorten(plot.Title, 10), spark(s.shown(false, plot.LogY), plot.LogY)))
	}
	return strings.Join(lines, "\n")
}

func (p panels) HTML() string {
	var row Row
	for _, plot := range p {
		row = append(row, plot)
	}
	return row.HTML()
}
