package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/timing/units"
)

// A Plot is a line plot of one or more curves. The zero value is an empty plot.
type Plot struct {
	Title string
	X, Y  string // axis labels with units: "epoch", "time (s)"

	// LogX and LogY make an axis logarithmic. Values that are not positive cannot be
	// shown there; a note gives their number.
	LogX, LogY bool

	Series []Series

	// Width and Height are in CSS pixels; 0 means 640 and 360.
	Width, Height int

	Notes []string // lines below the plot

	// Alt is the alternative text for readers who cannot see the plot; the default
	// gives the range of each curve.
	Alt string
}

// A Series is one curve.
type Series struct {
	Name string
	Y    []float64
	X    []float64 // nil means 1, 2, 3, …

	// Low and High, if not nil, are drawn as a band around the curve.
	Low, High []float64

	// Points draws dots without a line.
	Points bool
}

// at returns point i, and whether it has all its numbers.
func (s Series) at(i int) (x, y float64, ok bool) {
	x = float64(i + 1)
	if s.X != nil {
		if i >= len(s.X) {
			return 0, 0, false
		}
		x = s.X[i]
	}
	return x, s.Y[i], finite(x) && finite(s.Y[i])
}

// finite reports whether a plot can show v. Beyond 1e300, differences overflow.
func finite(v float64) bool { return math.Abs(v) <= 1e300 }

// size returns the width and height, kept between what shows something and
// what a page can hold.
func (p Plot) size() (width, height float64) {
	size := func(given, usual int) float64 {
		given = cmp.Or(given, usual)
		return float64(min(max(given, 160), 4000))
	}
	return size(p.Width, 640), size(p.Height, 360)
}

// ranges returns the axes that hold every point that can be shown, and the
// number of those that cannot.
func (p Plot) ranges() (x, y axis, hidden int) {
	x, y = newAxis(p.LogX), newAxis(p.LogY)
	x.whole = true
	for _, s := range p.Series {
		for i := range s.Y {
			px, py, ok := s.at(i)
			if !ok || !x.shows(px) || !y.shows(py) {
				hidden++
				continue
			}
			x.include(px)
			y.include(py)
			x.whole = x.whole && px == math.Trunc(px)
			for _, edge := range [][]float64{s.Low, s.High} {
				if i < len(edge) && finite(edge[i]) && y.shows(edge[i]) {
					y.include(edge[i])
				}
			}
		}
	}
	return x, y, hidden
}

// notes are those of the plot, and what it leaves out.
func (p Plot) notes(hidden int) []string {
	notes := slices.Clone(p.Notes)
	if hidden > 0 {
		reason := "not finite"
		if p.LogX || p.LogY {
			reason = "not finite, or not positive on a log axis"
		}
		note := fmt.Sprintf("%s points are not shown: %s", units.Count(hidden), reason)
		if hidden == 1 {
			note = "1 point is not shown: " + reason
		}
		notes = append(notes, note)
	}
	for _, s := range p.Series {
		if s.X != nil && len(s.X) != len(s.Y) {
			notes = append(notes, fmt.Sprintf("%s: got %d values of x for %d of y", cmp.Or(clean(s.Name), "a curve"), len(s.X), len(s.Y)))
		}
	}
	return notes
}

// String describes the curves as text: range, last value, and the shape as a line of
// block characters.
func (p Plot) String() string {
	t := Table{Title: p.Title, Head: []string{"", "points", "first", "last", "least", "greatest", "shape"}}
	_, _, hidden := p.ranges()
	for _, s := range p.Series {
		seen := s.shown(p.LogX, p.LogY)
		if len(seen) == 0 {
			t.Rows = append(t.Rows, []string{s.Name, "0"})
			continue
		}
		least, greatest := seen[0], seen[0]
		for _, y := range seen {
			least, greatest = min(least, y), max(greatest, y)
		}
		t.Add(s.Name, len(seen), seen[0], seen[len(seen)-1], least, greatest, spark(seen, p.LogY))
	}
	if len(p.Series) == 0 {
		t.Notes = append(t.Notes, "no data")
	}
	t.Notes = append(t.Notes, p.notes(hidden)...)
	return t.String()
}

// shown is the y of each point that can be shown.
func (s Series) shown(logX, logY bool) []float64 {
	var seen []float64
	for i := range s.Y {
		if x, y, ok := s.at(i); ok && (!logX || x > 0) && (!logY || y > 0) {
			seen = append(seen, y)
		}
	}
	return seen
}

// spark draws values in at most 32 blocks, each the last value of its part.
func spark(values []float64, log bool) string {
	const most = 32
	a := newAxis(log)
	n := min(len(values), most)
	picked := make([]float64, n)
	for i := range picked {
		picked[i] = values[(i+1)*len(values)/n-1]
		a.include(picked[i])
	}
	var b strings.Builder
	for _, v := range picked {
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[min(7, int(8*a.place(v)))])
	}
	return b.String()
}

// describe is the alternative text.
func (p Plot) describe() string {
	if p.Alt != "" {
		return p.Alt
	}
	var b strings.Builder
	b.WriteString("Plot")
	if p.Title != "" {
		b.WriteString(": " + p.Title)
	}
	if p.X != "" || p.Y != "" {
		fmt.Fprintf(&b, " (%s against %s)", cmp.Or(p.Y, "y"), cmp.Or(p.X, "x"))
	}
	for i, s := range p.Series {
		if i == 8 {
			fmt.Fprintf(&b, "; and %d more", len(p.Series)-i)
			break
		}
		seen := s.shown(p.LogX, p.LogY)
		if len(seen) == 0 {
			fmt.Fprintf(&b, "; %s: no data", cmp.Or(s.Name, "curve"))
			continue
		}
		fmt.Fprintf(&b, "; %s: from %s to %s in %s points", cmp.Or(s.Name, "curve"), number(seen[0]), number(seen[len(seen)-1]), units.Count(len(seen)))
	}
	if len(p.Series) == 0 {
		b.WriteString(": no data")
	}
	return b.String()
}

func (p Plot) HTML() string {
	_, _, hidden := p.ranges()
	return "<div>" + p.SVG() + small(p.notes(hidden)...) + "</div>"
}
