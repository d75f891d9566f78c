package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/search"
)

// RateCurve plots the loss of a range test against the learning rate.
func RateCurve(c *search.RateCurve) Plot {
	if c == nil {
		c = &search.RateCurve{Suggestion: math.NaN()}
	}
	p := Plot{Title: "range test", X: "learning rate", Y: "loss", LogX: true, LogY: len(c.Losses) > 0 && slices.Min(c.Losses) > 0, // as it ends with large ones
		Series: []Series{{Name: "loss", X: c.Rates, Y: c.Losses, Points: true}, {Name: "smoothed", X: c.Rates, Y: c.Smooth}}}
	if !math.IsNaN(c.Suggestion) {
		p.Title = fmt.Sprintf("range test: suggested learning rate %.2g", c.Suggestion)
	}
	return p
}

// Coordinates is a plot of parallel coordinates: each trial of a search is a line through its
// settings and its result, whose colour says how good it is.
type Coordinates struct {
	*search.Results
	Width, Height int // in CSS pixels; 0 means 640 and 360
}

// Parallel plots a search. A trial that failed has no line.
func Parallel(r *search.Results) Coordinates { return Coordinates{Results: r} }

// String is the table of the trials.
func (c Coordinates) String() string {
	if c.Results == nil || len(c.Trials) == 0 {
		return "no trials"
	}
	return c.Results.String()
}

// HTML returns the plot as one svg element. Names are above the axes, values next to them.
func (c Coordinates) HTML() string {
	if c.Results == nil || len(c.Trials) == 0 {
		return "<p>no trials</p>"
	}
	names := append(c.Names(), c.Monitor)
	value := func(t search.Trial, i int) (float64, bool) {
		if i == len(names)-1 {
			return t.Value, finite(t.Value)
		}
		v, is := t.Settings[names[i]]
		return v, is && finite(v)
	}
	width, height := Plot{Width: c.Width, Height: c.Height}.size()
	const top, bottom, side = 40.0, 16.0, 60.0
	axes := make([]axis, len(names))
	for i := range names {
		a := newAxis(false)
		least, most := math.Inf(1), 0.0
		for _, t := range c.Trials {
			if v, ok := value(t, i); ok {
				least, most = min(least, v), max(most, v)
			}
		}
		if i < len(names)-1 && least > 0 && most > 20*least { // such as learning rates
			a = newAxis(true)
		}
		for _, t := range c.Trials {
			if v, ok := value(t, i); ok {
				a.include(v)
			}
		}
		axes[i] = a
	}
	x := func(i int) float64 {
		return side + float64(i)*(width-2*side)/float64(max(1, len(names)-1))
	}
	y := func(i int, v float64) float64 { return height - bottom - axes[i].place(v)*(height-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s" style="max-width:100%%;font:12px sans-serif" fill="currentColor">`,
		width, height, width, height, escape(fmt.Sprintf("Parallel coordinates of %d trials; the best: %s with %s %s", len(c.Trials), c.Best().Settings, c.Monitor, number(c.Best().Value))))
	for k := len(c.Trials) - 1; k >= 0; k-- { // the best on top
		var points []string
		whole := true
		for i := range names {
			v, ok := value(c.Trials[k], i)
			if whole = whole && ok; ok {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(i, v)))
			}
		}
		if !whole {
			continue
		}
		share := 1 - float64(k)/float64(max(1, len(c.Trials)-1))
		stroke := 1.5
		if k == 0 {
			stroke = 3
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="%.1f" points="%s"><title>%s: %s %s</title></polyline>`, shade(0.85*share), stroke, strings.Join(points, " "),
			escape(c.Trials[k].Settings.String()), escape(c.Monitor), number(c.Trials[k].Value))
	}
	for i, name := range names {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="currentColor"/><text x="%.1f" y="16" text-anchor="middle" font-weight="bold">%s</text>`,
			x(i), x(i), top, height-bottom, x(i), escape(name))
		var taken []float64 // where there is a label; others need room
		for _, t := range c.Trials {
			v, ok := value(t, i)
			if at := y(i, v) + 4; ok && !slices.ContainsFunc(taken, func(other float64) bool { return math.Abs(at-other) < 13 }) {
				taken = append(taken, at)
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f">%s</text>`, x(i)+4, at, escape(number(v)))
			}
		}
	}
	b.WriteString("</svg>")
	return b.String()
}
