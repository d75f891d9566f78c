package raster

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Image is one with its size in CSS pixels and its alternative text.
type Image struct {
	Data          []byte // PNG
	Width, Height int
	Alt           string
}

const (
	density = 2    // pixels per CSS pixel: sharp on today's screens, and in print
	largest = 4000 // CSS pixels of width and height
)

// A state is what an element inherits, and its own shape.
type state struct {
	fill, stroke           paint
	width                  float64 // of the stroke
	round                  bool    // ends of lines
	dash                   []float64
	size                   float64 // of text
	bold                   bool
	anchor                 string
	angle, cx, cy          float64 // rotation, in degrees
	opacity                float64
	fillShare, strokeShare float64 // opacities of their own
}

// silent are the attributes that change nothing here.
var silent = []string{"xmlns", "role", "aria-label", "viewBox", "font-family", "class", "preserveAspectRatio", "image-rendering", "stroke-linejoin"}

var (
	numbers   = regexp.MustCompile(`-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?`)
	turned    = regexp.MustCompile(`^rotate\(([^()]*)\)$`)
	laidOut   = regexp.MustCompile(`^(?:\s*(?:max-width|height|width|display|vertical-align)\s*:[^;]*(?:;|$))*$`)
	fontStyle = regexp.MustCompile(`font:\s*([\d.]+)px [^;]*(?:;|$)`)
)

// ErrGlyph reports a letter that the fonts of PNG lack.
var ErrGlyph = errors.New("svg: no glyph")

// PNG draws an svg element. The error says what of it cannot be drawn; with [ErrGlyph],
// the image has all but its data.
func PNG(svg string) (*Image, error) {
	dec := xml.NewDecoder(strings.NewReader(svg))
	dec.Entity = xml.HTMLEntity
	var d *drawing
	p := &Image{}
	states := []state{{fill: ink, width: 1, size: 16, opacity: 1, fillShare: 1, strokeShare: 1}}
	var words *label
	var lacks error
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("svg: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if words != nil {
				return nil, fmt.Errorf("svg: <%s> inside of text", t.Name.Local)
			}
			at := map[string]string{}
			for _, a := range t.Attr {
				at[a.Name.Local] = strings.TrimSpace(a.Value)
			}
			s := states[len(states)-1]
			if err := s.inherit(at); err != nil {
				return nil, fmt.Errorf("svg: <%s>: %w", t.Name.Local, err)
			}
			states = append(states, s)
			if (d == nil) != (t.Name.Local == "svg") {
				return nil, fmt.Errorf("svg: <%s> is not where it can be drawn", t.Name.Local)
			}
			switch t.Name.Local {
			case "svg":
				if d, err = p.open(at); err != nil {
					return nil, err
				}
			case "title", "desc":
				if err := dec.Skip(); err != nil {
					return nil, fmt.Errorf("svg: %w", err)
				}
				states = states[:len(states)-1]
			case "g":
			case "text":
				words = &label{}
				if words.x, words.y, err = pair(at, "x", "y"); err != nil {
					return nil, err
				}
			default:
				if err := d.shape(t.Name.Local, at, s); err != nil {
					return nil, fmt.Errorf("svg: <%s>: %w", t.Name.Local, err)
				}
			}
		case xml.CharData:
			if words != nil {
				words.text += string(t)
			}
		case xml.EndElement:
			if words != nil {
				if err := d.text(*words, states[len(states)-1]); errors.Is(err, ErrGlyph) {
					lacks = err
				} else if err != nil {
					return nil, err
				}
				words = nil
			}
			states = states[:len(states)-1]
		}
	}
	if d == nil {
		return nil, errors.New("svg: no svg element")
	}
	if lacks != nil {
		return p, lacks
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, d.compact()); err != nil {
		return nil, fmt.Errorf("svg: %w", err)
	}
	p.Data = b.Bytes()
	return p, nil
}

// open begins a drawing of the size that the svg element has.
func (p *Image) open(at map[string]string) (*drawing, error) {
	var box []float64
	for _, s := range numbers.FindAllString(at["viewBox"], -1) {
		v, _ := strconv.ParseFloat(s, 64)
		box = append(box, v)
	}
	width, height, err := pair(at, "width", "height")
	if err != nil || !(width >= 1 && width <= largest && height >= 1 && height <= largest) {
		return nil, fmt.Errorf("svg: got a width of %q and a height of %q, want pixels up to %d", at["width"], at["height"], largest)
	}
	if len(box) > 0 && !slices.Equal(box, []float64{0, 0, width, height}) {
		return nil, fmt.Errorf("svg: a viewBox %q that scales", at["viewBox"])
	}
	p.Width, p.Height, p.Alt = int(math.Ceil(width)), int(math.Ceil(height)), at["aria-label"]
	return newDrawing(p.Width, p.Height), nil
}

// inherit reads what an element says of how it looks; the attributes of its shape are
// left to shape.
func (s *state) inherit(at map[string]string) (err error) {
	number := func(name string, to *float64) {
		if v, ok := at[name]; ok && err == nil {
			*to, err = strconv.ParseFloat(strings.TrimSuffix(v, "px"), 64)
		}
	}
	for name, value := range at {
		switch name {
		case "fill":
			s.fill, err = parsePaint(value)
		case "stroke":
			s.stroke, err = parsePaint(value)
		case "stroke-linecap":
			s.round = value == "round"
		case "stroke-dasharray":
			s.dash = nil
			for _, n := range numbers.FindAllString(value, -1) {
				v, _ := strconv.ParseFloat(n, 64)
				s.dash = append(s.dash, max(v, 0.1))
			}
		case "font-weight":
			s.bold = value == "bold"
		case "text-anchor":
			s.anchor = value
		case "transform":
			m := turned.FindStringSubmatch(value)
			if m == nil {
				return fmt.Errorf("transform %q", value)
			}
			n := numbers.FindAllString(m[1], -1)
			if len(n) != 3 || s.angle != 0 {
				return fmt.Errorf("transform %q", value)
			}
			s.angle, _ = strconv.ParseFloat(n[0], 64)
			s.cx, _ = strconv.ParseFloat(n[1], 64)
			s.cy, _ = strconv.ParseFloat(n[2], 64)
		case "style":
			if m := fontStyle.FindStringSubmatch(value); m != nil {
				s.size, _ = strconv.ParseFloat(m[1], 64)
			}
			if !laidOut.MatchString(fontStyle.ReplaceAllString(value, "")) {
				return fmt.Errorf("style %q", value)
			}
		case "opacity", "fill-opacity", "stroke-opacity", "stroke-width", "font-size":
		case "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "width", "height", "d", "points", "href":
		default:
			if !slices.Contains(silent, name) {
				return fmt.Errorf("attribute %s", name)
			}
		}
		if err != nil {
			return err
		}
	}
	own := 1.0
	number("opacity", &own)
	number("fill-opacity", &s.fillShare)
	number("stroke-opacity", &s.strokeShare)
	number("stroke-width", &s.width)
	number("font-size", &s.size)
	s.opacity *= own
	return err
}

// pair reads two numbers; missing ones are 0.
func pair(at map[string]string, first, second string) (x, y float64, err error) {
	for _, n := range []struct {
		name string
		to   *float64
	}{{first, &x}, {second, &y}} {
		if v := at[n.name]; v != "" && err == nil {
			if *n.to, err = strconv.ParseFloat(strings.TrimSuffix(v, "px"), 64); err != nil || math.Abs(*n.to) > 1e6 {
				err = fmt.Errorf("svg: got %s=%q, want a number", n.name, v)
			}
		}
	}
	return x, y, err
}

// shape draws an element that has no text.
func (d *drawing) shape(name string, at map[string]string, s state) error {
	x, y, err := pair(at, "x", "y")
	if err != nil {
		return err
	}
	w, h, err := pair(at, "width", "height")
	if err != nil {
		return err
	}
	switch name {
	case "path":
		lines, err := parsePath(at["d"])
		if err != nil {
			return err
		}
		d.lines(lines, s)
	case "polyline", "polygon":
		var all []float64
		for _, n := range numbers.FindAllString(at["points"], -1) {
			v, _ := strconv.ParseFloat(n, 64)
			all = append(all, v)
		}
		l := line{closed: name == "polygon"}
		for i := 0; i+1 < len(all); i += 2 {
			l.points = append(l.points, point{all[i], all[i+1]})
		}
		d.lines([]line{l}, s)
	case "line":
		x1, y1, err := pair(at, "x1", "y1")
		if err != nil {
			return err
		}
		x2, y2, err := pair(at, "x2", "y2")
		if err != nil {
			return err
		}
		d.lines([]line{{points: []point{{x1, y1}, {x2, y2}}}}, s)
	case "rect":
		d.lines([]line{{points: []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, closed: true}}, s)
	case "circle":
		cx, cy, err := pair(at, "cx", "cy")
		if err != nil {
			return err
		}
		r, _, err := pair(at, "r", "")
		if err != nil {
			return err
		}
		d.lines([]line{{points: circle(point{cx, cy}, r), closed: true}}, s)
	case "image":
		data, found := strings.CutPrefix(at["href"], "data:image/png;base64,")
		if !found {
			return errors.New("an image that is not embedded PNG")
		}
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return err
		}
		size, err := png.DecodeConfig(bytes.NewReader(raw))
		if err != nil || size.Width > density*largest || size.Height > density*largest {
			return fmt.Errorf("an image of %d×%d pixels: %v", size.Width, size.Height, err)
		}
		img, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		d.image(img, image.Rect(round(x), round(y), round(x+w), round(y+h)))
	default:
		return errors.New("cannot be drawn")
	}
	return nil
}

func round(v float64) int { return int(math.Round(density * v)) }

// parsePath reads the straight lines of a path.
func parsePath(d string) ([]line, error) {
	var all []line
	var at, start point
	open := func() *line {
		if len(all) == 0 || all[len(all)-1].closed {
			all = append(all, line{points: []point{at}})
		}
		return &all[len(all)-1]
	}
	for d = strings.TrimSpace(d); d != ""; d = strings.TrimSpace(d) {
		command := d[0]
		end := strings.IndexFunc(d[1:], func(r rune) bool { return r != 'e' && r != 'E' && (r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') })
		values := d[1:]
		if end >= 0 {
			values = d[1 : 1+end]
		}
		d = d[1+len(values):]
		var n []float64
		for _, s := range numbers.FindAllString(values, -1) {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || math.Abs(v) > 1e6 {
				return nil, fmt.Errorf("number %q", s)
			}
			n = append(n, v)
		}
		per := map[byte]int{'M': 2, 'L': 2, 'm': 2, 'l': 2, 'H': 1, 'h': 1, 'V': 1, 'v': 1, 'Z': 0, 'z': 0}
		k, known := per[command]
		if !known || k == 0 && len(n) > 0 || k > 0 && (len(n) == 0 || len(n)%k != 0) {
			return nil, fmt.Errorf("command %c of a path with %d numbers", command, len(n))
		}
		if k == 0 {
			open().closed = true
			at = start
			continue
		}
		for ; len(n) > 0; n = n[k:] {
			from := at
			if command >= 'A' && command <= 'Z' {
				from = point{}
			}
			switch command {
			case 'M', 'm':
				at = point{from.x + n[0], from.y + n[1]}
				start = at
				all = append(all, line{points: []point{at}})
				command -= 'M' - 'L' // more numbers are lines
				continue
			case 'L', 'l':
				at = point{from.x + n[0], from.y + n[1]}
			case 'H', 'h':
				at.x = from.x + n[0]
			case 'V', 'v':
				at.y = from.y + n[0]
			}
			l := open()
			l.points = append(l.points, at)
		}
	}
	return all, nil
}
