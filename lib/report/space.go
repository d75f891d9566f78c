package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// A box is the cube from -1 to 1 in three directions, in parallel projection, and its
// position in a plot.
type box struct {
	right, up, toward [3]float64 // directions of the plot in the cube
	scale, cx, cy     float64
}

const boxHeight = 0.7 // of its sides, which suits most surfaces

func newBox(azimuth, elevation, width, height, top float64) box {
	sa, ca := math.Sincos(azimuth * math.Pi / 180)
	se, ce := math.Sincos(min(max(elevation, 1), 89) * math.Pi / 180)
	b := box{right: [3]float64{-sa, ca, 0}, up: [3]float64{-se * ca, -se * sa, ce}, toward: [3]float64{ce * ca, ce * sa, se}}
	reach := func(d [3]float64) float64 { return math.Abs(d[0]) + math.Abs(d[1]) + boxHeight*math.Abs(d[2]) }
	b.scale = min((width-70)/(2*reach(b.right)), (height-top-42)/(2*reach(b.up)))
	b.cx, b.cy = width/2+6, top+(height-top-30)/2
	return b
}

// at returns the position in the plot of a point of the cube.
func (b box) at(x, y, z float64) (float64, float64) {
	p := [3]float64{x, y, z * boxHeight}
	dot := func(d [3]float64) float64 { return p[0]*d[0] + p[1]*d[1] + p[2]*d[2] }
	return b.cx + b.scale*dot(b.right), b.cy - b.scale*dot(b.up)
}

// SVG returns the plot as one svg element. Lines and text have the color of the page,
// and the background is transparent.
func (s Surface) SVG() string {
	width, height := Plot{Width: cmp.Or(s.Width, 360), Height: cmp.Or(s.Height, 300)}.size()
	g := s.grid()
	azimuth, elevation := s.Azimuth, s.Elevation
	if azimuth == 0 && elevation == 0 || !finite(azimuth) || !finite(elevation) {
		azimuth, elevation = -60, 30
	}
	top := 8.0
	if s.Title != "" {
		top = 26
	}
	c := &canvas{}
	c.open(width, height, 11, s.Title, s.describe(g))
	v := view{newBox(azimuth, elevation, width, height, top), g, c}
	v.frame()
	switch {
	case len(g.z) == 0:
		c.text(width/2, height/2, "middle", ` opacity="0.7"`, "no data")
	case s.Wire:
		v.wires()
	default:
		v.cells()
	}
	c.WriteString("</svg>")
	return c.String()
}

// A view draws a grid in a box.
type view struct {
	box
	grid
	page *canvas
}

// in is a value's coordinate in the cube.
func in(values []float64, v float64) float64 {
	a := axis{low: values[0], high: values[len(values)-1]}
	return 2*a.place(v) - 1
}

func (v view) place(i, j int) (x, y float64, ok bool) {
	z := v.z[i][j]
	if !finite(z) {
		return 0, 0, false
	}
	x, y = v.at(in(v.x, v.x[i]), in(v.y, v.y[j]), min(max(2*v.grid.up.place(z)-1, -1), 1))
	return x, y, finite(x) && finite(y)
}

// frame draws the floor and the two walls behind, with their numbers.
func (v view) frame() {
	near := func(d float64) float64 { return math.Copysign(1, d) } // the side that faces the reader
	nx, ny := near(v.toward[0]), near(v.toward[1])
	var lines strings.Builder
	line := func(a, b [3]float64) {
		x0, y0 := v.at(a[0], a[1], a[2])
		x1, y1 := v.at(b[0], b[1], b[2])
		fmt.Fprintf(&lines, "M%.1f %.1fL%.1f %.1f", x0, y0, x1, y1)
	}
	label := func(at [3]float64, t tick) {
		x, y := v.at(at[0], at[1], at[2])
		anchor := "middle"
		if x < v.cx-12 {
			anchor = "end"
		} else if x > v.cx+12 {
			anchor = "start"
		}
		v.page.text(x, y+4, anchor, ` opacity="0.8"`, t.label)
	}
	x, y, up := axis{low: -1, high: 1}, axis{low: -1, high: 1}, axis{low: -1, high: 1}
	if len(v.z) > 0 {
		x, y, up = axis{low: v.x[0], high: v.x[len(v.x)-1]}, axis{low: v.y[0], high: v.y[len(v.y)-1]}, v.grid.up
	}
	ticks := func(a axis) []tick {
		if len(v.z) == 0 || !(a.low < a.high) {
			return nil
		}
		return a.ticks(5)
	}
	for _, t := range ticks(x) {
		p := 2*x.place(t.at) - 1
		line([3]float64{p, ny, -1}, [3]float64{p, -ny, -1})
		line([3]float64{p, -ny, -1}, [3]float64{p, -ny, 1})
		label([3]float64{p, ny * 1.16, -1}, t)
	}
	for _, t := range ticks(y) {
		p := 2*y.place(t.at) - 1
		line([3]float64{nx, p, -1}, [3]float64{-nx, p, -1})
		line([3]float64{-nx, p, -1}, [3]float64{-nx, p, 1})
		label([3]float64{nx * 1.16, p, -1}, t)
	}
	// The numbers upwards stand at the left edge.
	edge := [2]float64{nx, -ny}
	if a, _ := v.at(nx, -ny, 0); a > v.cx {
		edge = [2]float64{-nx, ny}
	}
	for _, t := range ticks(up) {
		p := 2*up.place(t.at) - 1
		line([3]float64{nx, -ny, p}, [3]float64{-nx, -ny, p})
		line([3]float64{-nx, ny, p}, [3]float64{-nx, -ny, p})
		label([3]float64{edge[0] * 1.1, edge[1] * 1.1, p}, t)
	}
	for _, l := range [][2][3]float64{
		{{-nx, -ny, -1}, {-nx, -ny, 1}}, {{nx, -ny, -1}, {nx, -ny, 1}}, {{-nx, ny, -1}, {-nx, ny, 1}},
		{{-nx, -ny, 1}, {nx, -ny, 1}}, {{-nx, -ny, 1}, {-nx, ny, 1}},
		{{-nx, -ny, -1}, {nx, -ny, -1}}, {{-nx, -ny, -1}, {-nx, ny, -1}}, {{nx, ny, -1}, {nx, -ny, -1}}, {{nx, ny, -1}, {-nx, ny, -1}},
	} {
		line(l[0], l[1])
	}
	fmt.Fprintf(v.page, `<path d="%s" fill="none" stroke="currentColor" stroke-opacity="0.2"/>`, lines.String())
}

// cells paints the surface from the back to the front, so that what is nearer
// hides what is farther.
func (v view) cells() {
	v.page.WriteString(`<g stroke="#000" stroke-opacity="0.25" stroke-width="0.5" stroke-linejoin="round">`)
	for _, i := range backToFront(len(v.x)-1, v.toward[0]) {
		for _, j := range backToFront(len(v.y)-1, v.toward[1]) {
			corners := [4][2]int{{i, j}, {i + 1, j}, {i + 1, j + 1}, {i, j + 1}}
			var d []byte
			mean, whole := 0.0, true
			for k, at := range corners {
				x, y, ok := v.place(at[0], at[1])
				whole = whole && ok
				d = point{x: x, y: y}.append(d, "ML"[min(k, 1)])
				mean += v.z[at[0]][at[1]] / 4
			}
			if whole {
				fmt.Fprintf(v.page, `<path fill="%s" d="%sz"/>`, shade(v.grid.up.place(mean)), d)
			}
		}
	}
	v.page.WriteString("</g>")
}

func backToFront(n int, toward float64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
		if toward < 0 {
			order[i] = n - 1 - i
		}
	}
	return order
}

// wires draws each row and each column as a line, broken where a value is not
// finite.
func (v view) wires() {
	var d []byte
	trace := func(n int, at func(k int) (i, j int)) {
		pen := byte('M')
		for k := range n {
			x, y, ok := v.place(at(k))
			if !ok {
				pen = 'M'
				continue
			}
			d = point{x: x, y: y}.append(d, pen)
			pen = 'L'
		}
	}
	for i := range v.x {
		trace(len(v.y), func(k int) (int, int) { return i, k })
	}
	for j := range v.y {
		trace(len(v.x), func(k int) (int, int) { return k, j })
	}
	fmt.Fprintf(v.page, `<path d="%s" fill="none" stroke="%s" stroke-width="0.8" stroke-linejoin="round"/>`, d, palette[2])
}
