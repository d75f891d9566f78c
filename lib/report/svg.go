package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The colours of Okabe and Ito ("Color Universal Design", 2008), without black
// and yellow, which vanish on a dark or a light ground.
var palette = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}

// Curves beyond the colours are told apart by their dashes.
var dashes = []string{"", "7 4", "2 3", "9 3 2 3"}

const (
	charWidth  = 6.6 // of 12-pixel text, roughly
	lineHeight = 16.0
)

// A canvas is the frame of a plot and its axes.
type canvas struct {
	strings.Builder
	x, y                     axis
	left, right, top, bottom float64 // edges of the frame
}

func (c *canvas) px(v float64) float64 { return c.left + c.x.place(v)*(c.right-c.left) }
func (c *canvas) py(v float64) float64 { return c.bottom - c.y.place(v)*(c.bottom-c.top) }

// text writes a label; anchor is "start", "middle" or "end".
func (c *canvas) text(x, y float64, anchor, more, s string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, more, escape(s))
}

// SVG returns the plot as one svg element. Text and axes have the color of the page,
// and the background is transparent.
func (p Plot) SVG() string {
	width, height := p.size()
	c := &canvas{}
	c.x, c.y, _ = p.ranges()
	empty := c.x.empty
	c.x.widen(0.01)
	c.y.widen(0.05)
	names := p.legend(width - 20)

	c.top = 12 + lineHeight*float64(len(names))
	if p.Title != "" {
		c.top += lineHeight + 4
	}
	c.bottom, c.right = height-24, width-14
	if p.X != "" {
		c.bottom -= lineHeight + 2
	}
	rows := c.y.ticks(max(2, int((c.bottom-c.top)/45)))
	widest := 0
	for _, t := range rows {
		widest = max(widest, utf8.RuneCountInString(t.label))
	}
	c.left = math.Min(14+charWidth*float64(widest), width/2)
	if p.Y != "" {
		c.left += lineHeight + 2
	}

	c.open(width, height, 12, p.Title, p.describe())
	p.writeLegend(c, names, width)
	c.axes(rows, p)
	if empty {
		c.text((c.left+c.right)/2, (c.top+c.bottom)/2, "middle", ` opacity="0.7"`, "no data")
	}
	for i, s := range p.Series {
		c.series(s, i)
	}
	c.WriteString("</svg>")
	return c.String()
}

// open starts the svg element: its size and that of its text in CSS pixels, its title, and
// its alternative text. It shrinks if there is less room.
func (c *canvas) open(width, height, text float64, title, shows string) {
	shows = escape(shows)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s" `+
		`style="max-width:100%%;height:auto" font-family="system-ui,sans-serif" font-size="%.0f" fill="currentColor">`, width, height, width, height, shows, text)
	fmt.Fprintf(c, "<title>%s</title>", shows)
	if title != "" {
		c.title(title, width)
	}
}

// title writes the title above the plot: a long one in smaller letters, and shortened
// if these would be too small.
func (c *canvas) title(s string, width float64) {
	const size, letter = 14.0, 8.8 // a bold letter of that size is about so wide
	s = shorten(s, int(width/letter/0.75))
	fits := math.Min(size, size*width/letter/math.Max(1, float64(utf8.RuneCountInString(s))))
	c.text(width/2, 17, "middle", fmt.Sprintf(` font-size="%.3g" font-weight="bold"`, fits), s)
}

// columns are the numbers below the plot, as many as have room next to each other.
func (c *canvas) columns() []tick {
	about := max(2, int((c.right-c.left)/75))
	columns := c.x.ticks(about)
	for ; about > 1 && c.crowded(columns); about-- {
		columns = c.x.ticks(about - 1)
	}
	return columns
}

// crowded says whether numbers below the plot, such as 1,500,000, have no room next to each other.
func (c *canvas) crowded(columns []tick) bool {
	for i := 1; i < len(columns); i++ {
		letters := utf8.RuneCountInString(columns[i-1].label) + utf8.RuneCountInString(columns[i].label)
		if c.px(columns[i].at)-c.px(columns[i-1].at) < charWidth*(float64(letters)/2+1) {
			return true
		}
	}
	return false
}

// axes draws grid, frame, numbers and names.
func (c *canvas) axes(rows []tick, p Plot) {
	columns := c.columns()
	var grid strings.Builder
	for _, t := range rows {
		fmt.Fprintf(&grid, "M%.1f %.1fH%.1f", c.left, c.py(t.at), c.right)
		c.text(c.left-6, c.py(t.at)+4, "end", "", t.label)
	}
	for _, t := range columns {
		fmt.Fprintf(&grid, "M%.1f %.1fV%.1f", c.px(t.at), c.bottom, c.top)
		half := charWidth / 2 * float64(utf8.RuneCountInString(t.label))
		c.text(min(c.px(t.at), c.right+12-half), c.bottom+16, "middle", "", t.label) // the last one may be wide
	}
	fmt.Fprintf(c, `<path d="%s" fill="none" stroke="currentColor" stroke-opacity="0.15"/>`, grid.String())
	fmt.Fprintf(c, `<path d="M%.1f %.1fV%.1fH%.1f" fill="none" stroke="currentColor" stroke-opacity="0.6"/>`, c.left, c.top, c.bottom, c.right)
	middle := (c.top + c.bottom) / 2
	if p.X != "" {
		c.text((c.left+c.right)/2, c.bottom+lineHeight+18, "middle", "", shorten(p.X, int((c.right-c.left)/charWidth)))
	}
	if p.Y != "" {
		c.text(14, middle, "middle", fmt.Sprintf(` transform="rotate(-90 14 %.1f)"`, middle), shorten(p.Y, int((c.bottom-c.top)/charWidth)))
	}
}

// series draws one curve: its band, its line, and dots if there are few points or dots
// are requested.
func (c *canvas) series(s Series, index int) {
	colour, dash := style(index)
	c.band(s, colour)
	points := c.visible(s)
	runs := thin(points, s.Points, c.right-c.left)
	var d []byte
	dots := s.Points || len(points) <= 30
	if !s.Points {
		for _, run := range runs {
			for i, pt := range run {
				d = pt.append(d, "ML"[min(i, 1)])
			}
			if len(run) == 1 {
				d = append(d, "h0"...) // a dot, by its round ends
			}
		}
		fmt.Fprintf(c, `<path d="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"%s/>`, d, colour, dash)
	}
	if dots {
		d = d[:0]
		for _, run := range runs {
			for _, pt := range run {
				d = append(pt.append(d, 'M'), "h0"...)
			}
		}
		fmt.Fprintf(c, `<path d="%s" fill="none" stroke="%s" stroke-width="5" stroke-linecap="round"/>`, d, colour)
	}
}

func style(index int) (colour, dash string) {
	colour = palette[index%len(palette)]
	if pattern := dashes[index/len(palette)%len(dashes)]; pattern != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, pattern)
	}
	return colour, dash
}

// band fills the room between Low and High, in one piece for each stretch that
// has both.
func (c *canvas) band(s Series, colour string) {
	n := min(len(s.Low), len(s.High), len(s.Y))
	var d []byte
	var upper, lower []point
	end := func() {
		if len(upper) > 1 {
			// Thinning each edge by itself keeps the extremes of both.
			edge := append(slices.Concat(thin(upper, false, c.right-c.left)...), reversed(slices.Concat(thin(lower, false, c.right-c.left)...))...)
			for i, pt := range edge {
				d = pt.append(d, "ML"[min(i, 1)])
			}
			d = append(d, 'Z')
		}
		upper, lower = nil, nil
	}
	for i := range n {
		x, _, ok := s.at(i)
		low, high := s.Low[i], s.High[i]
		if !ok || !finite(low) || !finite(high) || !c.x.shows(x) || !c.y.shows(low) || !c.y.shows(high) {
			end()
			continue
		}
		upper = append(upper, point{c.px(x), c.py(high), false})
		lower = append(lower, point{c.px(x), c.py(low), false})
	}
	end()
	if len(d) > 0 {
		fmt.Fprintf(c, `<path d="%s" fill="%s" fill-opacity="0.2" stroke="none"/>`, d, colour)
	}
}

func reversed(points []point) []point {
	slices.Reverse(points)
	return points
}

// A point is a position on the canvas; first says that no line leads to it.
type point struct {
	x, y  float64
	first bool
}

func (p point) append(d []byte, command byte) []byte {
	d = append(d, command)
	d = strconv.AppendFloat(d, p.x, 'f', 1, 64)
	d = append(d, ' ')
	return strconv.AppendFloat(d, p.y, 'f', 1, 64)
}

// visible returns the points that can be shown. A line breaks at one that
// cannot.
func (c *canvas) visible(s Series) []point {
	points := make([]point, 0, len(s.Y))
	first := true
	for i := range s.Y {
		x, y, ok := s.at(i)
		if !ok || !c.x.shows(x) || !c.y.shows(y) {
			first = true
			continue
		}
		points = append(points, point{c.px(x), c.py(y), first})
		first = false
	}
	return points
}

// legend arranges the names in lines that fit the width; a single curve has none: the
// title and the axis say what it is.
func (p Plot) legend(width float64) (lines [][]int) {
	if len(p.Series) == 1 && (p.Title != "" || p.Y != "") {
		return nil
	}
	room := 0.0
	for i, s := range p.Series {
		if s.Name == "" {
			continue
		}
		need := legendWidth(s.Name)
		if len(lines) == 0 || room < need {
			if len(lines) == 6 { // more would leave no room for the curves
				break
			}
			lines, room = append(lines, nil), width
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
		room -= need
	}
	return lines
}

const longestName = 48

func legendWidth(name string) float64 {
	return 44 + charWidth*float64(utf8.RuneCountInString(shorten(name, longestName)))
}

func (p Plot) writeLegend(c *canvas, lines [][]int, width float64) {
	y := c.top - 8 - lineHeight*float64(len(lines)-1)
	for _, line := range lines {
		total := 0.0
		for _, i := range line {
			total += legendWidth(p.Series[i].Name)
		}
		x := math.Max(10, (width-total)/2)
		for _, i := range line {
			colour, dash := style(i)
			if p.Series[i].Points {
				fmt.Fprintf(c, `<path d="M%.1f %.1fh0" stroke="%s" stroke-width="7" stroke-linecap="round"/>`, x+12, y-4, colour)
			} else {
				fmt.Fprintf(c, `<path d="M%.1f %.1fh24" stroke="%s" stroke-width="3"%s/>`, x, y-4, colour, dash)
			}
			c.text(x+30, y, "start", "", shorten(p.Series[i].Name, longestName))
			x += legendWidth(p.Series[i].Name)
		}
		y += lineHeight
	}
}

// shorten cuts text that is longer than so many characters.
func shorten(s string, most int) string {
	s = oneLine(s)
	if runes := []rune(s); len(runes) > max(most, 1) {
		return string(runes[:max(most, 1)-1]) + "…"
	}
	return s
}
