package report

import (
	"fmt"
	"math"
	"strings"

	"gaiden/lib/timing/units"
)

// A Surface is a 3-D plot of a function of two variables, as a surface colored by
// height or as a wireframe. The zero value is an empty box.
//
//	p := datasets.Peaks(40)
//	report.Surface{Title: "peaks", X: p.Axis, Y: p.Axis, Values: p.Y}
type Surface struct {
	Title string

	// X and Y are the coordinates of the rows and columns, ascending; nil means 0, 1,
	// 2, ….
	X, Y []float32

	// Values is shaped [len(X) len(Y)]: the heights. If X or Y is nil, the grid is as
	// close to a square as len(Values) allows.
	Values []float32

	// Wire draws a wireframe.
	Wire bool

	// Low and High are the limits of the vertical axis, so that plots can be
	// compared; both 0 means the range of Values.
	Low, High float64

	// Azimuth and Elevation are the viewing angles in degrees; both 0 means -60 and
	// 30.
	Azimuth, Elevation float64

	// Width and Height are in CSS pixels; 0 means 360 and 300.
	Width, Height int

	// Alt is the alternative text for readers who cannot see the plot; the default
	// gives the range of values.
	Alt string
}

// Grids finer than this are thinned: a page can show no more.
const mostLines = 50

// grid is what of a surface is drawn.
type grid struct {
	x, y   []float64
	z      [][]float64 // [x y]
	up     axis
	note   string
	hidden int // values that are not finite
}

// grid takes the values apart and thins them.
func (s Surface) grid() grid {
	g := grid{up: newAxis(false)}
	nx, ny := len(s.X), len(s.Y)
	switch {
	case nx == 0 && ny == 0:
		nx = int(math.Sqrt(float64(len(s.Values))))
		ny = nx
	case nx == 0:
		nx = len(s.Values) / ny
	case ny == 0:
		ny = len(s.Values) / nx
	}
	if nx*ny != len(s.Values) {
		g.note = fmt.Sprintf("%s values for a grid of %d×%d", units.Count(len(s.Values)), nx, ny)
		if nx > 0 && ny > 0 {
			nx = min(nx, len(s.Values)/ny)
		}
	}
	if nx < 2 || ny < 2 {
		return g
	}
	rows, columns := thinned(nx, mostLines), thinned(ny, mostLines)
	place := func(at []float32, i int) float64 {
		if len(at) == 0 {
			return float64(i)
		}
		return float64(at[i])
	}
	for _, i := range rows {
		g.x = append(g.x, place(s.X, i))
		var line []float64
		for _, j := range columns {
			v := float64(s.Values[i*ny+j])
			line = append(line, v)
			if finite(v) {
				g.up.include(v)
			} else {
				g.hidden++
			}
		}
		g.z = append(g.z, line)
	}
	for _, j := range columns {
		g.y = append(g.y, place(s.Y, j))
	}
	if s.Low < s.High {
		g.up = axis{low: s.Low, high: s.High}
	} else {
		g.up.widen(0.02)
	}
	return g
}

// thinned picks at most so many of n indices, including the first and the last.
func thinned(n, most int) []int {
	k := min(n, most)
	at := make([]int, k)
	for i := range at {
		at[i] = i * (n - 1) / max(1, k-1)
	}
	return at
}

func (s Surface) notes(g grid) []string {
	var notes []string
	if g.note != "" {
		notes = append(notes, g.note)
	}
	if g.hidden > 0 {
		notes = append(notes, fmt.Sprintf("%s of %s values are not shown: not finite", units.Count(g.hidden), units.Count(len(g.x)*len(g.y))))
	}
	return notes
}

// String returns the range, and the heights as shades, with y to the right and x
// downwards.
func (s Surface) String() string {
	g := s.grid()
	var b strings.Builder
	b.WriteString(s.describe(g) + "\n")
	if len(g.z) > 0 {
		for i := range min(len(g.x), 12) {
			row := g.z[i*(len(g.x)-1)/max(1, min(len(g.x), 12)-1)]
			for j := range min(len(g.y), 24) {
				v := row[j*(len(g.y)-1)/max(1, min(len(g.y), 24)-1)]
				if !finite(v) {
					b.WriteByte('?')
					continue
				}
				b.WriteRune(inkOf(g.up.place(v)))
			}
			b.WriteByte('\n')
		}
	}
	for _, note := range s.notes(g) {
		b.WriteString(note + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (s Surface) describe(g grid) string {
	if s.Alt != "" {
		return clean(s.Alt)
	}
	kind := "Surface"
	if s.Wire {
		kind = "Wireframe"
	}
	if s.Title != "" {
		kind += " " + oneLine(s.Title)
	}
	if len(g.z) == 0 {
		return kind + ": no data"
	}
	seen := newAxis(false)
	for _, row := range g.z {
		for _, v := range row {
			if finite(v) {
				seen.include(v)
			}
		}
	}
	if seen.empty {
		return kind + ": no value is finite"
	}
	return fmt.Sprintf("%s: from %s to %s, on a grid from %s to %s and %s to %s", kind, number(seen.low), number(seen.high),
		number(g.x[0]), number(g.x[len(g.x)-1]), number(g.y[0]), number(g.y[len(g.y)-1]))
}

func (s Surface) HTML() string {
	return "<div>" + s.SVG() + small(s.notes(s.grid())...) + "</div>"
}

// inkOf is a character with as much ink as a share of 1.
func inkOf(share float64) rune { return []rune(" ░▒▓█")[min(max(int(5*share), 0), 4)] }
