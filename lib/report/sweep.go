package report

import (
	"fmt"
	"strings"

	"gaiden/lib/profile"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
	"gaiden/lib/timing/units"
)

// Sweep shows the time of an activation function over the size of the array: a table,
// its conclusions, and a plot.
func Sweep(w *profile.Sweep) Rich {
	title := fmt.Sprintf("%s over n numbers on %s", w.Activation, w.Device)
	t := Table{Title: title, Head: []string{"n", "device, one at a time", "device, many in flight", "numbers/s", "host, one core"}}
	curves := []Series{{Name: "device, one call at a time"}, {Name: "device, many calls in flight"}, {Name: "host, a loop on one core"}}
	for _, p := range w.Points {
		host := ""
		if p.Host.N() > 0 {
			host = units.Seconds(p.Host.Median())
		}
		t.Rows = append(t.Rows, []string{units.Count(p.N), units.Seconds(p.Awaited.Median()), units.Seconds(p.Pipelined.Median()),
			units.Prefixed(float64(p.N)/p.Pipelined.Median(), ""), host})
		for i, m := range []timing.Measurement{p.Awaited, p.Pipelined, p.Host} {
			if m.N() > 0 {
				curves[i].X, curves[i].Y = append(curves[i].X, float64(p.N)), append(curves[i].Y, m.Median())
			}
		}
	}
	if len(w.Points) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("No call takes less than %s (latency); the device does at most %s numbers/s (throughput).", units.Seconds(w.Floor()), units.Prefixed(w.Throughput(), "")))
		if n := w.Crossover(); n > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("From %s numbers on, a call of the device is faster than one core of the host.", units.Count(n)))
		} else {
			t.Notes = append(t.Notes, "One core of the host is faster all the way that it was measured.")
		}
	}
	if w.Partial {
		t.Notes = append(t.Notes, "stopped: a partial result")
	}
	return column{t, Plot{Title: title, X: "n", Y: "time (s)", LogX: true, LogY: true, Series: curves}}
}

// Batches shows the core time of a net over the batch size: a table with mean,
// variance and median, and a plot.
func Batches(b *profile.Batches) Rich {
	title := netName(b.Net, b.Model) + " on " + b.Device + ": forward and backward"
	t := Table{Title: title, Head: []string{"batch", "mean", "variance (s²)", "median", "spread", "best", "runs", "an example"}}
	s := Series{Name: "mean"}
	scale, unit := 1e3, "ms"
	if n := len(b.Points); n > 0 && b.Points[n-1].Mean() < 1e-3 {
		scale, unit = 1e6, "µs"
	}
	for _, p := range b.Points {
		m := p.Core
		t.Rows = append(t.Rows, []string{units.Count(p.Batch), units.Seconds(p.Mean()), scientific(p.Variance(), 3), units.Seconds(m.Median()),
			fmt.Sprintf("± %.1f %%", 100*m.Spread()), units.Seconds(m.Best()), units.Count(m.N()), units.Seconds(m.Median() / float64(p.Batch))})
		s.X, s.Y = append(s.X, float64(p.Batch)), append(s.Y, scale*p.Mean())
		s.Low, s.High = append(s.Low, scale*stats.Quantile(m.Samples, 0.25)), append(s.High, scale*stats.Quantile(m.Samples, 0.75))
	}
	if len(b.Left) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("left out, as the time to compile was over: batches of %s", strings.Trim(fmt.Sprint(b.Left), "[]")))
	}
	if b.Partial {
		t.Notes = append(t.Notes, "stopped: a partial result")
	}
	return column{t, Plot{Title: title, X: "batch", Y: "time (" + unit + ")", LogX: true, LogY: true, Series: []Series{s}}}
}
