package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"gaiden/lib/timing/units"
)

// A Heat is a heat map of a matrix, from dark for the smallest value to light for the
// largest.
type Heat struct {
	Title string
	X, Y  string // axis labels of columns and rows

	// Values is shaped [rows columns]; rows may differ in length.
	Values [][]float64

	// Rows and Columns are labels; nil means numbers from 0.
	Rows, Columns []string

	// Numbers prints each value in its cell.
	Numbers bool

	// Width is in CSS pixels; 0 means 480.
	Width int

	// Alt is the alternative text for readers who cannot see the plot; the default
	// gives the range.
	Alt string
}

// A page can show no more cells than this in a row or column; others are
// thinned.
const mostCells = 128

// cells returns the rows and columns to draw, the scale of their values, and how
// many values are hidden.
func (h Heat) cells() (rows, columns []int, scale axis, hidden int) {
	wide := 0
	scale = newAxis(false)
	for _, row := range h.Values {
		wide = max(wide, len(row))
		for _, v := range row {
			if finite(v) {
				scale.include(v)
			} else {
				hidden++
			}
		}
	}
	return thinned(len(h.Values), mostCells), thinned(wide, mostCells), scale, hidden
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprint(i)
}

func (h Heat) notes() []string {
	rows, columns, _, hidden := h.cells()
	var notes []string
	if hidden > 0 {
		notes = append(notes, units.Count(hidden)+" values are not shown: not finite")
	}
	wide := 0
	for _, row := range h.Values {
		wide = max(wide, len(row))
	}
	if len(rows) < len(h.Values) || len(columns) < wide {
		notes = append(notes, fmt.Sprintf("%d×%d of %s×%s cells are drawn", len(rows), len(columns), units.Count(len(h.Values)), units.Count(wide)))
	}
	return notes
}

// String returns a table of the numbers, or shades where there are more than 16 rows or
// columns: the more ink, the larger the value.
func (h Heat) String() string {
	rows, columns, scale, _ := h.cells()
	t := Table{Title: h.Title, Notes: h.notes()}
	if len(rows) == 0 || len(columns) == 0 {
		t.Notes = append(t.Notes, "no data")
		return t.String()
	}
	if max(len(rows), len(columns)) > 16 {
		var b strings.Builder
		for _, r := range rows {
			for _, c := range columns {
				mark := ' '
				if c < len(h.Values[r]) && finite(h.Values[r][c]) {
					mark = inkOf(scale.place(h.Values[r][c]))
				}
				b.WriteString(strings.Repeat(string(mark), 2))
			}
			b.WriteByte('\n')
		}
		return strings.Join(append([]string{h.Title, b.String() + fmt.Sprintf("%s to %s", number(scale.low), number(scale.high))}, t.Notes...), "\n") + "\n"
	}
	t.Head = []string{""}
	for _, c := range columns {
		t.Head = append(t.Head, nameOf(h.Columns, c))
	}
	for _, r := range rows {
		row := []any{nameOf(h.Rows, r)}
		for _, c := range columns {
			if c < len(h.Values[r]) {
				row = append(row, h.Values[r][c])
			}
		}
		t.Add(row...)
	}
	return t.String()
}

func (h Heat) describe(rows, columns []int, scale axis) string {
	if h.Alt != "" {
		return clean(h.Alt)
	}
	s := "Heat map"
	if h.Title != "" {
		s += " " + oneLine(h.Title)
	}
	if scale.empty {
		return s + ": no data"
	}
	return fmt.Sprintf("%s: %d×%d cells from %s to %s", s, len(rows), len(columns), number(scale.low), number(scale.high))
}

func (h Heat) HTML() string {
	return "<div>" + h.SVG() + small(h.notes()...) + "</div>"
}

// SVG returns the heat map as one svg element. Text has the color of the page.
func (h Heat) SVG() string {
	rows, columns, scale, _ := h.cells()
	width, _ := Plot{Width: cmp.Or(h.Width, 480), Height: 360}.size()
	c := &canvas{}
	label := func(names []string, all []int) (widest float64) {
		for _, i := range all {
			widest = max(widest, charWidth*float64(min(utf8.RuneCountInString(nameOf(names, i)), 16)))
		}
		return widest
	}
	left, below := 12+label(h.Rows, rows), 20.0
	if h.Y != "" {
		left += lineHeight
	}
	side := math.Min(48, (width-left-8)/float64(max(1, len(columns))))
	if used := left + side*float64(len(columns)) + 16; h.Width == 0 && len(columns) > 0 {
		width = min(width, max(used, charWidth*float64(utf8.RuneCountInString(h.Title))+20, 160))
	}
	upright := label(h.Columns, columns) > side-2
	if upright {
		below = 10 + label(h.Columns, columns)
	}
	top := 6.0
	if h.Title != "" {
		top = 28
	}
	bottom := top + side*float64(len(rows))
	height := bottom + below + 4
	if h.X != "" {
		height += lineHeight
	}
	if len(rows) == 0 || len(columns) == 0 {
		height = 80
	}
	c.open(width, height, 12, h.Title, h.describe(rows, columns, scale))
	if len(rows) == 0 || len(columns) == 0 {
		c.text(width/2, 54, "middle", ` opacity="0.7"`, "no data")
		c.WriteString("</svg>")
		return c.String()
	}
	every := int(math.Ceil(14 / side)) // labels that have room
	for i, r := range rows {
		y := top + side*float64(i)
		if i%every == 0 {
			c.text(left-5, y+side/2+4, "end", "", shorten(nameOf(h.Rows, r), 16))
		}
		for j, k := range columns {
			if k >= len(h.Values[r]) || !finite(h.Values[r][k]) {
				continue
			}
			v := h.Values[r][k]
			share := scale.place(v)
			x := left + side*float64(j)
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, side, side, shade(share))
			if h.Numbers && side >= 14 {
				fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="%.0f" fill="%s">%s</text>`, x+side/2, y+side/2+4, min(12, side/2.6), ink(share), escape(number(v)))
			}
		}
	}
	for j, k := range columns {
		x := left + side*(float64(j)+0.5)
		if j%every != 0 {
			continue
		}
		name := shorten(nameOf(h.Columns, k), 16)
		if upright {
			c.text(x+4, bottom+7, "end", fmt.Sprintf(` transform="rotate(-90 %.1f %.1f)"`, x+4, bottom+7), name)
		} else {
			c.text(x, bottom+15, "middle", "", name)
		}
	}
	if h.X != "" {
		c.text(left+side*float64(len(columns))/2, height-6, "middle", "", shorten(h.X, 40))
	}
	if h.Y != "" {
		middle := (top + bottom) / 2
		c.text(12, middle, "middle", fmt.Sprintf(` transform="rotate(-90 12 %.1f)"`, middle), shorten(h.Y, 40))
	}
	c.WriteString("</svg>")
	return c.String()
}
