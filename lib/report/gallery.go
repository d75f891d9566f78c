package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"

	"gaiden/lib/timing/units"
)

// A Gallery is a grid of small images with their true and predicted labels.
type Gallery struct {
	Title string

	// Height, Width and Channels are the dimensions of each image; Channels is 1 for
	// grayscale and 3 for RGB.
	Height, Width, Channels int

	// Columns, if not 0, joins the tiles to one image with so many in a row and no labels,
	// as for the samples of a generator.
	Columns int

	Tiles []Tile
}

// Tiles cuts pixels, or what a net has returned, into images of size numbers each, such as
// height·width·channels. Floats are drawn as they are from 0 to 1.
func Tiles[T byte | float32](values []T, size int) []Tile {
	var l []Tile
	pixels, _ := any(values).([]byte)
	if floats, is := any(values).([]float32); is {
		pixels = make([]byte, len(floats))
		for i, v := range floats {
			if v > 0 { // NaN is not
				pixels[i] = byte(255*min(v, 1) + 0.5)
			}
		}
	}
	for at := 0; size > 0 && at+size <= len(pixels); at += size {
		l = append(l, Tile{Pixels: pixels[at : at+size]})
	}
	return l
}

// A Tile is one image of a gallery.
type Tile struct {
	Pixels []byte // shaped [Height Width Channels]
	Want   string // the true label; empty when it is not known
	Got    string // the prediction; empty when there is none
}

// String returns one line per image with its labels: "correct: 7 predicted: 7".
func (g Gallery) String() string {
	var b strings.Builder
	if g.Title != "" {
		fmt.Fprintf(&b, "%s\n", oneLine(g.Title))
	}
	if g.joins() {
		fmt.Fprintf(&b, "%s of %d×%d×%d, %d in a row", units.Plural(len(g.Tiles), "image"), g.Height, g.Width, g.Channels, g.Columns)
		return b.String()
	}
	for i, t := range g.Tiles {
		fmt.Fprintf(&b, "%3d", i)
		if t.Want != "" {
			fmt.Fprintf(&b, "  correct: %s", oneLine(t.Want))
		}
		if t.Got != "" {
			fmt.Fprintf(&b, "  predicted: %s", oneLine(t.Got))
			if t.Want != "" && t.Got != t.Want {
				b.WriteString("  ✗")
			}
		}
		b.WriteByte('\n')
	}
	if len(g.Tiles) == 0 {
		b.WriteString("no images\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// HTML returns the images as embedded PNGs, about 60 pixels wide. A wrong prediction
// is marked with a sign, bold text and a colored line.
func (g Gallery) HTML() string {
	var b strings.Builder
	b.WriteString("<div>")
	if g.Title != "" {
		fmt.Fprintf(&b, "<div><b>%s</b></div>", escape(g.Title))
	}
	scale := max(1, (56+g.Width/2)/max(1, g.Width))
	if g.joins() {
		g = g.joined()
	}
	for _, t := range g.Tiles {
		caption, alt := escape(t.Want), escape(t.Want)
		switch {
		case t.Want == "":
			caption, alt = escape(t.Got), escape(t.Got)
		case t.Got == t.Want:
			caption += " ✓"
			alt += ", predicted rightly"
		case t.Got != "":
			caption = fmt.Sprintf(`<b style="border-bottom:2px solid #D55E00">✗ %s</b><br>not %s`, escape(t.Got), escape(t.Want))
			alt += ", predicted " + escape(t.Got)
		}
		b.WriteString(`<div style="display:inline-block;vertical-align:top;text-align:center;margin:4px;min-width:60px;font-size:11px;line-height:1.3">`)
		if data, ok := g.png(t.Pixels); ok {
			fmt.Fprintf(&b, `<img src="data:image/png;base64,%s" width="%d" height="%d" style="image-rendering:pixelated" alt="%s">`,
				base64.StdEncoding.EncodeToString(data), g.Width*scale, g.Height*scale, alt)
		} else {
			fmt.Fprintf(&b, "<i>no image: %s for %d×%d×%d</i>", units.Plural(len(t.Pixels), "byte"), g.Height, g.Width, g.Channels)
		}
		fmt.Fprintf(&b, "<br>%s</div>", caption)
	}
	if len(g.Tiles) == 0 {
		b.WriteString("<i>no images</i>")
	}
	b.WriteString("</div>")
	return b.String()
}

// joins says whether the tiles can be one image.
func (g Gallery) joins() bool {
	return g.Columns > 0 && len(g.Tiles) > 0 && !slices.ContainsFunc(g.Tiles, func(t Tile) bool { _, ok := g.png(t.Pixels); return !ok })
}

// joined is a gallery of one tile.
func (g Gallery) joined() Gallery {
	line, rows, columns := g.Width*g.Channels, (len(g.Tiles)+g.Columns-1)/g.Columns, min(g.Columns, len(g.Tiles))
	pixels := make([]byte, rows*g.Height*columns*line)
	for i, t := range g.Tiles {
		for y := range g.Height {
			at := (i/columns*g.Height+y)*columns + i%columns
			copy(pixels[at*line:], t.Pixels[y*line:(y+1)*line])
		}
	}
	g.Height, g.Width, g.Tiles = rows*g.Height, columns*g.Width, []Tile{{Pixels: pixels, Want: units.Plural(len(g.Tiles), "image")}}
	return g
}

func (g Gallery) png(pixels []byte) ([]byte, bool) {
	if g.Height < 1 || g.Width < 1 || (g.Channels != 1 && g.Channels != 3) || len(pixels)/g.Channels/g.Width != g.Height || len(pixels) != g.Height*g.Width*g.Channels {
		return nil, false
	}
	area := image.Rect(0, 0, g.Width, g.Height)
	var picture image.Image
	if g.Channels == 1 {
		picture = &image.Gray{Pix: pixels, Stride: g.Width, Rect: area}
	} else {
		coloured := image.NewNRGBA(area)
		for i := range g.Height * g.Width {
			coloured.Set(i%g.Width, i/g.Width, color.NRGBA{pixels[3*i], pixels[3*i+1], pixels[3*i+2], 255})
		}
		picture = coloured
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return nil, false
	}
	return b.Bytes(), true
}
