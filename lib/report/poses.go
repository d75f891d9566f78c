package report

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
)

// Poses shows images of people with their joints: the true ones connected by thick
// lines, the predicted ones by thin lines.
type Poses struct {
	Title string

	// Height, Width and Channels are the dimensions of each image, as in [Gallery].
	Height, Width, Channels int

	// Bones are the pairs of joints to connect by a line.
	Bones [][2]int

	Figures []Figure

	// Size is the width of an image in CSS pixels; 0 means 150.
	Size int
}

// A Figure is one image. A joint is a pair of coordinates x and y, from 0 to 1, with
// the origin in the top left corner.
type Figure struct {
	Caption string
	Pixels  []byte    // shaped [Height Width Channels]; nil for none
	Want    []float32 // true joints, shaped [joints 2]
	Got     []float32 // predicted joints; nil for none
	// Visible is 0 for coordinates of Want that are not visible; these are drawn
	// hollow. nil means that all are visible.
	Visible []float32
}

// Off returns the mean distance between the visible joints of Want and Got, as a
// share of the image size; NaN if there are none.
func (f Figure) Off() float64 {
	sum, n := 0.0, 0
	for j := range min(len(f.Want), len(f.Got)) / 2 {
		if !f.seen(j) {
			continue
		}
		dx, dy := float64(f.Want[2*j]-f.Got[2*j]), float64(f.Want[2*j+1]-f.Got[2*j+1])
		sum += math.Hypot(dx, dy)
		n++
	}
	return sum / float64(n)
}

func (f Figure) seen(joint int) bool {
	return f.Visible == nil || 2*joint < len(f.Visible) && f.Visible[2*joint] > 0
}

// String returns one line per image with the error of the prediction.
func (s Poses) String() string {
	var b strings.Builder
	if s.Title != "" {
		b.WriteString(oneLine(s.Title) + "\n")
	}
	for i, f := range s.Figures {
		fmt.Fprintf(&b, "%3d  %s\n", i, f.line())
	}
	if len(s.Figures) == 0 {
		b.WriteString("no figures\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (f Figure) line() string {
	parts := []string{}
	if f.Caption != "" {
		parts = append(parts, oneLine(f.Caption))
	}
	hidden := 0
	for j := range len(f.Want) / 2 {
		if !f.seen(j) {
			hidden++
		}
	}
	parts = append(parts, fmt.Sprintf("%d joints", len(f.Want)/2))
	if hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d not visible", hidden))
	}
	if f.Got != nil {
		parts = append(parts, fmt.Sprintf("off by %s of the image on average", number(f.Off())))
	}
	return strings.Join(parts, ", ")
}

// HTML returns a row of svg elements that wraps.
func (s Poses) HTML() string {
	var b strings.Builder
	b.WriteString("<div>")
	if s.Title != "" {
		fmt.Fprintf(&b, "<div><b>%s</b></div>", escape(s.Title))
	}
	size := float64(min(max(cmp.Or(s.Size, 150), 40), 2000))
	high := size
	if s.Height > 0 && s.Width > 0 {
		high = min(size*float64(s.Height)/float64(s.Width), 4000)
	}
	for _, f := range s.Figures {
		b.WriteString(`<div style="display:inline-block;vertical-align:top;margin:4px;text-align:center;font-size:11px">`)
		fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`, size, high, size, high, escape(f.line()))
		if data, ok := (Gallery{Height: s.Height, Width: s.Width, Channels: s.Channels}).png(f.Pixels); ok {
			fmt.Fprintf(&b, `<image width="%.0f" height="%.0f" href="data:image/png;base64,%s"/>`, size, high, base64.StdEncoding.EncodeToString(data))
		} else {
			fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="none" stroke="currentColor" stroke-opacity="0.3"/>`, size, high)
		}
		s.draw(&b, f, f.Want, size, high, palette[4], 3)
		s.draw(&b, f, f.Got, size, high, palette[5], 1.5)
		b.WriteString("</svg>")
		if f.Caption != "" {
			b.WriteString("<div>" + escape(f.Caption) + "</div>")
		}
		b.WriteString("</div>")
	}
	if len(s.Figures) == 0 {
		b.WriteString("<i>no figures</i>")
	}
	b.WriteString("</div>")
	return b.String()
}

// draw adds lines and dots for some joints.
func (s Poses) draw(b *strings.Builder, f Figure, joints []float32, width, height float64, colour string, thick float64) {
	at := func(j int) (x, y float64, ok bool) {
		if j < 0 || 2*j+1 >= len(joints) {
			return 0, 0, false
		}
		x, y = float64(joints[2*j])*width, float64(joints[2*j+1])*height
		return x, y, x > -width && x < 2*width && y > -height && y < 2*height
	}
	var d []byte
	for _, bone := range s.Bones {
		x0, y0, ok0 := at(bone[0])
		x1, y1, ok1 := at(bone[1])
		if ok0 && ok1 {
			d = point{x: x1, y: y1}.append(point{x: x0, y: y0}.append(d, 'M'), 'L')
		}
	}
	if len(d) > 0 {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linecap="round"/>`, d, colour, thick)
	}
	for j := range len(joints) / 2 {
		if x, y, ok := at(j); ok {
			fill := colour
			if !f.seen(j) {
				fill = "none"
			}
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="%s"/>`, x, y, 1.2*thick, fill, colour)
		}
	}
}
