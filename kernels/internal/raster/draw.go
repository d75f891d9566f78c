package raster

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/image/draw"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

type point struct{ x, y float64 }

// A line goes from point to point.
type line struct {
	points []point
	closed bool
}

// A paint is a colour; the zero value paints nothing.
type paint struct{ color.NRGBA }

// ink is the colour of the page's text, on white.
var ink = paint{color.NRGBA{0x1f, 0x23, 0x28, 0xff}}

func parsePaint(s string) (paint, error) {
	switch s {
	case "none":
		return paint{}, nil
	case "currentColor":
		return ink, nil
	case "black":
		s = "#000"
	case "white":
		s = "#fff"
	}
	var r, g, b uint8
	if n, _ := fmt.Sscanf(s, "#%02x%02x%02x", &r, &g, &b); n == 3 && len(s) == 7 {
		return paint{color.NRGBA{r, g, b, 255}}, nil
	}
	if n, _ := fmt.Sscanf(s, "#%1x%1x%1x", &r, &g, &b); n == 3 && len(s) == 4 {
		return paint{color.NRGBA{17 * r, 17 * g, 17 * b, 255}}, nil
	}
	return paint{}, fmt.Errorf("colour %q", s)
}

// A drawing is the image, in device pixels.
type drawing struct {
	*image.NRGBA
	area vector.Rasterizer
}

const corner = 6 // CSS pixels: the radius of the card's corners

func newDrawing(width, height int) *drawing {
	d := &drawing{NRGBA: image.NewNRGBA(image.Rect(0, 0, density*width, density*height))}
	w, h, r := float64(width), float64(height), float64(corner)
	var card []point
	for _, c := range []point{{r, r}, {w - r, r}, {w - r, h - r}, {r, h - r}} {
		for _, p := range circle(c, r) {
			if (p.x <= c.x) == (c.x <= w/2) && (p.y <= c.y) == (c.y <= h/2) {
				card = append(card, p)
			}
		}
	}
	d.fill([][]point{hull(card)}, paint{color.NRGBA{255, 255, 255, 255}}, 1)
	return d
}

// hull orders the points of a convex shape around their centre.
func hull(points []point) []point {
	var c point
	for _, p := range points {
		c.x, c.y = c.x+p.x/float64(len(points)), c.y+p.y/float64(len(points))
	}
	angle := func(p point) float64 { return math.Atan2(p.y-c.y, p.x-c.x) }
	out := append([]point(nil), points...)
	for i := range out { // few points, nearly in order
		for j := i; j > 0 && angle(out[j]) < angle(out[j-1]); j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// circle returns the corners of a polygon that looks like one.
func circle(c point, r float64) []point {
	n := max(8, int(math.Ceil(math.Sqrt(r*density)))*8)
	points := make([]point, n)
	for i := range points {
		s, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		points[i] = point{c.x + r*cos, c.y + r*s}
	}
	return points
}

// lines draws lines with what their element says: filled, and with a stroke.
func (d *drawing) lines(all []line, s state) {
	if s.fill != (paint{}) {
		var shapes [][]point
		for _, l := range all {
			if len(l.points) > 2 {
				shapes = append(shapes, l.points)
			}
		}
		d.fill(shapes, s.fill, s.opacity*s.fillShare)
	}
	if s.stroke == (paint{}) || s.width <= 0 {
		return
	}
	var shapes [][]point
	for _, l := range all {
		if l.closed && len(l.points) > 1 {
			l.points = append(l.points[:len(l.points):len(l.points)], l.points[0])
		}
		for _, part := range dashed(l.points, s.dash) {
			shapes = append(shapes, outline(part, s.width/2, s.round, l.closed && s.dash == nil)...)
		}
	}
	d.fill(shapes, s.stroke, s.opacity*s.strokeShare)
}

// outline returns shapes that together cover a line of a width, all in one direction.
// Its corners are round.
func outline(points []point, half float64, roundEnds, closed bool) [][]point {
	var shapes [][]point
	if roundEnds && len(points) > 0 {
		shapes = append(shapes, circle(points[0], half), circle(points[len(points)-1], half))
	}
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		dx, dy := b.x-a.x, b.y-a.y
		long := math.Hypot(dx, dy)
		if long == 0 {
			continue
		}
		nx, ny := -dy/long*half, dx/long*half
		shapes = append(shapes, []point{{a.x - nx, a.y - ny}, {b.x - nx, b.y - ny}, {b.x + nx, b.y + ny}, {a.x + nx, a.y + ny}})
		if half > 0.4 && (i+1 < len(points) || closed) {
			shapes = append(shapes, circle(b, half))
		}
	}
	return shapes
}

// dashed cuts a line into its dashes.
func dashed(points []point, dash []float64) [][]point {
	if len(dash) == 0 || len(points) < 2 {
		return [][]point{points}
	}
	var parts [][]point
	at, left, on := 0, dash[0], true
	part := []point{points[0]}
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		long := math.Hypot(b.x-a.x, b.y-a.y)
		for done := 0.0; done < long; {
			step := math.Min(left, long-done)
			done, left = done+step, left-step
			p := point{a.x + (b.x-a.x)*done/long, a.y + (b.y-a.y)*done/long}
			if on {
				part = append(part, p)
			}
			if left > 0 {
				continue
			}
			if on {
				parts = append(parts, part)
			}
			at = (at + 1) % len(dash)
			left, on, part = dash[at], !on, []point{p}
		}
	}
	if on && len(part) > 1 {
		parts = append(parts, part)
	}
	return parts
}

const levels = 17 // of coverage at edges: few colours make a small file

// box returns the part of the image that holds points, in device pixels.
func (d *drawing) box(points ...point) image.Rectangle {
	least, most := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		least.x, least.y = math.Min(least.x, p.x), math.Min(least.y, p.y)
		most.x, most.y = math.Max(most.x, p.x), math.Max(most.y, p.y)
	}
	if !(least.x <= most.x) {
		return image.Rectangle{}
	}
	return image.Rect(int(math.Floor(least.x)), int(math.Floor(least.y)), int(math.Ceil(most.x))+1, int(math.Ceil(most.y))+1).Intersect(d.Rect)
}

// fill paints what the shapes cover; where they overlap, once.
func (d *drawing) fill(shapes [][]point, p paint, share float64) {
	var corners []point
	for _, shape := range shapes {
		for _, p := range shape {
			corners = append(corners, point{density * p.x, density * p.y})
		}
	}
	box := d.box(corners...)
	if box.Empty() {
		return
	}
	d.area.Reset(box.Dx(), box.Dy())
	for _, shape := range shapes {
		for i, p := range shape {
			x, y := float32(density*p.x-float64(box.Min.X)), float32(density*p.y-float64(box.Min.Y))
			if i == 0 {
				d.area.MoveTo(x, y)
			} else {
				d.area.LineTo(x, y)
			}
		}
		d.area.ClosePath()
	}
	d.paint(box, p, share)
}

// paint paints what the rasterizer has.
func (d *drawing) paint(box image.Rectangle, p paint, share float64) {
	mask := image.NewAlpha(image.Rect(0, 0, box.Dx(), box.Dy()))
	d.area.DrawOp = draw.Src
	d.area.Draw(mask, mask.Rect, image.Opaque, image.Point{})
	for i, a := range mask.Pix {
		if a > 0 {
			level := math.Round(float64(a)/255*(levels-1)) / (levels - 1)
			mask.Pix[i] = uint8(math.Round(255 * level * min(max(share, 0), 1)))
		}
	}
	draw.DrawMask(d.NRGBA, box, image.NewUniform(p.NRGBA), image.Point{}, mask, image.Point{}, draw.Over)
}

func (d *drawing) image(img image.Image, to image.Rectangle) {
	draw.CatmullRom.Scale(d.NRGBA, to, img, img.Bounds(), draw.Over, nil)
}

// compact returns the image with a palette of its most frequent colours, if no pixel
// changes by more than an eye sees.
func (d *drawing) compact() image.Image {
	const tolerance = 12 // of 255, in each channel
	count := map[color.NRGBA]int{}
	at := func(i int) color.NRGBA { return color.NRGBA{d.Pix[i], d.Pix[i+1], d.Pix[i+2], d.Pix[i+3]} }
	for i := 0; i < len(d.Pix); i += 4 {
		count[at(i)]++
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.NRGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(order(a), order(b)))
	})
	palette := colours[:min(len(colours), 256)]
	index := map[color.NRGBA]uint8{}
	for _, c := range colours {
		best, least := 0, 256
		for k, p := range palette {
			if off := distance(c, p); off < least {
				best, least = k, off
			}
			if least == 0 {
				break
			}
		}
		if least > tolerance {
			return d.NRGBA
		}
		index[c] = uint8(best)
	}
	small := image.NewPaletted(d.Rect, nil)
	for _, c := range palette {
		small.Palette = append(small.Palette, c)
	}
	for i := range small.Pix {
		small.Pix[i] = index[at(4*i)]
	}
	return small
}

func order(c color.NRGBA) uint32 {
	return uint32(c.R)<<24 | uint32(c.G)<<16 | uint32(c.B)<<8 | uint32(c.A)
}

// distance is the greatest difference of two colours in a channel.
func distance(a, b color.NRGBA) int {
	off := func(x, y uint8) int { return max(int(x)-int(y), int(y)-int(x)) }
	return max(off(a.R, b.R), off(a.G, b.G), off(a.B, b.B), off(a.A, b.A))
}

// A label is text in one line.
type label struct {
	x, y float64
	text string
}

var fonts = sync.OnceValues(func() (regular, bold *sfnt.Font) {
	regular, err := sfnt.Parse(goregular.TTF)
	if err != nil {
		panic(err) // it is part of the program
	}
	if bold, err = sfnt.Parse(gobold.TTF); err != nil {
		panic(err)
	}
	return regular, bold
})

// raised are characters that the font lacks, as smaller ones above the line.
var raised = map[rune]rune{'⁰': '0', '¹': '1', '²': '2', '³': '3', '⁴': '4', '⁵': '5', '⁶': '6', '⁷': '7', '⁸': '8', '⁹': '9', '⁻': '-'}

// text draws a label. Characters that the fonts lack are an error.
func (d *drawing) text(l label, s state) error {
	font, bold := fonts()
	if s.bold {
		font = bold
	}
	var b sfnt.Buffer
	type glyph struct {
		index   sfnt.GlyphIndex
		size, x float64
		up      float64
	}
	var all []glyph
	width := 0.0
	for _, r := range strings.Join(strings.Fields(l.text), " ") {
		g := glyph{size: s.size * density, x: width}
		if plain, is := raised[r]; is {
			r, g.up, g.size = plain, 0.36*g.size, 0.7*g.size
		}
		var err error
		if g.index, err = font.GlyphIndex(&b, r); err != nil || g.index == 0 {
			return fmt.Errorf("%w for %q", ErrGlyph, r)
		}
		advance, err := font.GlyphAdvance(&b, g.index, fixed.Int26_6(g.size*64), 0)
		if err != nil {
			return fmt.Errorf("svg: %w", err)
		}
		width += float64(advance) / 64
		all = append(all, g)
	}
	x0, y0 := l.x*density, l.y*density
	switch s.anchor {
	case "middle":
		x0 -= width / 2
	case "end":
		x0 -= width
	}
	sin, cos := math.Sincos(s.angle * math.Pi / 180)
	cx, cy := s.cx*density, s.cy*density
	turn := func(x, y float64) point { return point{cx + cos*(x-cx) - sin*(y-cy), cy + sin*(x-cx) + cos*(y-cy)} }
	box := d.box(turn(x0-2, y0-1.2*s.size*density), turn(x0+width+2, y0+0.4*s.size*density))
	if box.Empty() || s.fill == (paint{}) {
		return nil
	}
	d.area.Reset(box.Dx(), box.Dy())
	for _, g := range all {
		segments, err := font.LoadGlyph(&b, g.index, fixed.Int26_6(g.size*64), nil)
		if err != nil {
			return fmt.Errorf("svg: %w", err)
		}
		at := func(p fixed.Point26_6) (float32, float32) {
			t := turn(x0+g.x+float64(p.X)/64, y0-g.up+float64(p.Y)/64)
			return float32(t.x - float64(box.Min.X)), float32(t.y - float64(box.Min.Y))
		}
		for _, seg := range segments {
			x, y := at(seg.Args[0])
			switch seg.Op {
			case sfnt.SegmentOpMoveTo:
				d.area.ClosePath()
				d.area.MoveTo(x, y)
			case sfnt.SegmentOpLineTo:
				d.area.LineTo(x, y)
			case sfnt.SegmentOpQuadTo:
				x1, y1 := at(seg.Args[1])
				d.area.QuadTo(x, y, x1, y1)
			case sfnt.SegmentOpCubeTo:
				x1, y1 := at(seg.Args[1])
				x2, y2 := at(seg.Args[2])
				d.area.CubeTo(x, y, x1, y1, x2, y2)
			}
		}
		d.area.ClosePath()
	}
	d.paint(box, s.fill, s.opacity*s.fillShare)
	return nil
}
