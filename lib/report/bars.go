package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Bars is a horizontal bar chart, the first bar on top.
type Bars struct {
	Title string
	Bars  []Bar
	Width int // in CSS pixels; 0 means 640
}

// A Bar is one bar of a chart. Values that are negative or not finite have no length.
type Bar struct {
	Name  string
	Value float64
	Text  string // label after the bar; "" means the value
	Group int    // bars of a group have the same color
}

func (b Bar) text() string { return cmp.Or(b.Text, number(b.Value)) }

// length is the bar's as a part of the longest.
func (b Bars) length(bar Bar) float64 {
	most := 0.0
	for _, other := range b.Bars {
		if finite(other.Value) {
			most = max(most, other.Value)
		}
	}
	if most == 0 || !finite(bar.Value) || bar.Value < 0 {
		return 0
	}
	return bar.Value / most
}

// String returns the chart as text, drawn with block characters.
func (b Bars) String() string {
	wide := 0
	for _, bar := range b.Bars {
		wide = max(wide, utf8.RuneCountInString(oneLine(bar.Name)))
	}
	var s strings.Builder
	if b.Title != "" {
		s.WriteString(clean(b.Title) + "\n")
	}
	for _, bar := range b.Bars {
		name := oneLine(bar.Name)
		eighths := int(math.Round(8 * 30 * b.length(bar)))
		blocks := strings.Repeat("█", eighths/8)
		if eighths%8 > 0 {
			blocks += string([]rune(" ▏▎▍▌▋▊▉")[eighths%8])
		}
		fmt.Fprintf(&s, "%s%s  %s %s\n", name, strings.Repeat(" ", wide-utf8.RuneCountInString(name)), blocks, oneLine(bar.text()))
	}
	if len(b.Bars) == 0 {
		s.WriteString("no data\n")
	}
	return strings.TrimSuffix(s.String(), "\n")
}

// HTML returns the chart as one svg element.
func (b Bars) HTML() string {
	width, _ := Plot{Width: b.Width}.size()
	names, texts := 0.0, 0.0
	for _, bar := range b.Bars {
		names = max(names, charWidth*float64(utf8.RuneCountInString(bar.Name)))
		texts = max(texts, charWidth*float64(utf8.RuneCountInString(bar.text())))
	}
	names, texts = min(names, width/2), min(texts, width/3)
	const row = 20.0
	top := 4.0
	c := &canvas{left: names + 12, right: width - texts - 12}
	if b.Title != "" {
		top += lineHeight + 8
	}
	height := top + row*float64(max(len(b.Bars), 1)) + 4
	c.open(width, height, 12, b.Title, b.describe())
	for i, bar := range b.Bars {
		y := top + row*float64(i)
		long := max(1, b.length(bar)*(c.right-c.left))
		c.text(names+6, y+14, "end", "", shorten(bar.Name, int(names/charWidth)))
		fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="14" fill="%s"/>`, c.left, y+3, long, palette[max(bar.Group, 0)%len(palette)])
		c.text(c.left+long+5, y+14, "start", "", shorten(bar.text(), int(texts/charWidth)))
	}
	if len(b.Bars) == 0 {
		c.text(4, top+14, "start", "", "no data")
	}
	c.WriteString("</svg>")
	return "<div>" + c.String() + "</div>"
}

// describe is the alternative text.
func (b Bars) describe() string {
	s := "Bars"
	if b.Title != "" {
		s += ": " + b.Title
	}
	for i, bar := range b.Bars {
		if i == 8 {
			return s + fmt.Sprintf("; and %d more", len(b.Bars)-i)
		}
		s += "; " + bar.Name + " " + bar.text()
	}
	return s
}
