package raster_test

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"

	"gaiden/kernels/internal/raster"
	"gaiden/lib/report"
	"gaiden/lib/search"
)

func svg(inside string) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" width="40" height="20" aria-label="a &amp; b" fill="currentColor">` + inside + `</svg>`
}

// Each place is in CSS pixels; an image has two pixels for each.
func TestPNG(t *testing.T) {
	white, red, ink := color.NRGBA{255, 255, 255, 255}, color.NRGBA{255, 0, 0, 255}, color.NRGBA{0x1f, 0x23, 0x28, 255}
	pink := color.NRGBA{255, 128, 128, 255}
	tests := []struct {
		name, inside string
		x, y         int
		want         color.NRGBA
	}{
		{"white card", ``, 20, 10, white},
		{"transparent corner", ``, 0, 0, color.NRGBA{}},
		{"rectangle", `<rect x="10" y="5" width="10" height="10" fill="#f00"/>`, 15, 10, red},
		{"next to the rectangle", `<rect x="10" y="5" width="10" height="10" fill="#f00"/>`, 25, 10, white},
		{"colour of the page", `<rect x="10" y="5" width="10" height="10"/>`, 15, 10, ink},
		{"opacity", `<rect x="10" y="5" width="10" height="10" fill="#ff0000" fill-opacity="0.5"/>`, 15, 10, pink},
		{"inherited", `<g fill="#f00"><circle cx="20" cy="10" r="5"/></g>`, 20, 10, red},
		{"filled path", `<path d="M10 5L20 5V15H10z" fill="#f00"/>`, 15, 10, red},
		{"relative path", `<path d="m10 5h10v10h-10z" fill="#f00"/>`, 15, 10, red},
		{"stroke", `<path d="M5 10H35" fill="none" stroke="#f00" stroke-width="4"/>`, 20, 10, red},
		{"next to the stroke", `<path d="M5 10H35" fill="none" stroke="#f00" stroke-width="4"/>`, 20, 14, white},
		{"dot", `<path d="M20 10h0" fill="none" stroke="#f00" stroke-width="8" stroke-linecap="round"/>`, 20, 10, red},
		{"dash", `<path d="M4 10H36" stroke="#f00" stroke-width="4" stroke-dasharray="8 8"/>`, 8, 10, red},
		{"gap", `<path d="M4 10H36" stroke="#f00" stroke-width="4" stroke-dasharray="8 8"/>`, 16, 10, white},
		{"line", `<line x1="5" x2="35" y1="10" y2="10" stroke="#f00" stroke-width="4"/>`, 20, 10, red},
		{"polyline", `<polyline points="5,10 35,10" fill="none" stroke="#f00" stroke-width="4"/>`, 20, 10, red},
		{"text", `<text x="20" y="18" text-anchor="middle" font-size="24" font-weight="bold">I</text>`, 20, 10, ink},
		{"turned text", `<text x="20" y="10" font-size="24" text-anchor="middle" transform="rotate(-90 20 10)">I</text>`, 12, 10, ink},
		{"superscript", `<text x="20" y="18" text-anchor="middle" font-size="24">⁻</text>`, 20, 18, white},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := raster.PNG(svg(tt.inside))
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != 40 || p.Height != 20 || p.Alt != "a & b" {
				t.Errorf("got %d×%d %q, want 40×20 and its label", p.Width, p.Height, p.Alt)
			}
			img, err := png.Decode(bytes.NewReader(p.Data))
			if err != nil {
				t.Fatal(err)
			}
			got := color.NRGBAModel.Convert(img.At(2*tt.x, 2*tt.y)).(color.NRGBA)
			off := func(a, b uint8) bool { return math.Abs(float64(a)-float64(b)) > 3 }
			if off(got.R, tt.want.R) || off(got.G, tt.want.G) || off(got.B, tt.want.B) || off(got.A, tt.want.A) {
				t.Errorf("pixel %d,%d is %v, want %v", tt.x, tt.y, got, tt.want)
			}
		})
	}
}

// What cannot be drawn as it is meant is not drawn.
func TestRefused(t *testing.T) {
	for _, inside := range []string{
		`<path d="M0 0C1 1 2 2 3 3"/>`, `<foreignObject/>`, `<rect width="1" height="1" fill="url(#g)"/>`, `<rect width="1" height="1" filter="url(#f)"/>`,
		`<g transform="scale(2)"/>`, `<image width="1" height="1" href="https://example.org/a.png"/>`, `<path d="M1e9 0H3"/>`, `<path d="M"/>`, `<text>a<tspan>b</tspan></text>`,
		`<rect width="x"/>`, `<svg/>`, `<g>`,
	} {
		if p, err := raster.PNG(svg(inside)); err == nil {
			t.Errorf("%s is an image of %d bytes, want an error", inside, len(p.Data))
		}
	}
	for _, all := range []string{"", "<div/>", `<svg width="1e9" height="2"/>`, `<svg viewBox="0 0 1 1" width="40" height="20"/>`} {
		if _, err := raster.PNG(all); err == nil {
			t.Errorf("%s: no error", all)
		}
	}
}

// All that package report draws has an image.
func TestReport(t *testing.T) {
	series := []report.Series{{Name: "10⁻⁴ × µ", Y: []float64{1, 2, 3}}, {Name: "dots", Y: []float64{1e-3, 1, 1e8}, Points: true}, {Name: "band", Y: []float64{1, 2}, Low: []float64{0, 1}, High: []float64{2, 3}}}
	for range 8 {
		series = append(series, report.Series{Name: "more", Y: []float64{1, 2, 3}})
	}
	grid := [][]float64{{1, 2, 3}, {4, 5, 6}, {7, 8, math.NaN()}}
	flat := []float32{1, 2, 3, 4, 5, 6, 7, 8, float32(math.NaN())}
	joints := []float32{0.1, 0.2, 0.8, 0.9}
	trials := &search.Results{Monitor: "accuracy", Trials: []search.Trial{{Value: 0.9}, {Value: 0.8}}}
	for _, v := range []report.Rich{
		report.Plot{}, report.Plot{Title: "Plot – ≥ 3 …", X: "x", Y: "y", LogY: true, Series: series},
		report.Heat{}, report.Heat{Title: "Heat", Values: grid, Numbers: true, Rows: []string{"a long name of a row", "b", "c"}, X: "x", Y: "y"},
		report.Surface{}, report.Surface{Title: "Surface", Values: flat}, report.Surface{Values: flat, Wire: true},
		report.Bars{}, report.Bars{Title: "Bars", Bars: []report.Bar{{Name: "a", Value: 1}, {Name: "b", Value: 2}}},
		report.Poses{Height: 2, Width: 2, Channels: 1, Bones: [][2]int{{0, 1}}, Figures: []report.Figure{{Pixels: []byte{1, 2, 3, 4}, Want: joints, Got: joints, Visible: []float32{1, 0}}, {Want: joints}}},
		report.Parallel(trials),
	} {
		data, _ := raster.Complete(map[string]any{"text/html": v.HTML()}, nil)
		if page, _ := data["text/html"].(string); len(data) != 1 || strings.Contains(page, "<svg") {
			t.Errorf("%T: still SVG: %.300s", v, page)
		}
	}
}

func TestComplete(t *testing.T) {
	drawing := svg(`<rect x="1" y="1" width="9" height="9"/>`)
	chinese := svg(`<text x="1" y="10">损失</text>`)
	type forms = map[string]any
	tests := []struct {
		name   string
		data   forms
		want   []string // media types
		inHTML string
	}{
		{"an image", forms{"text/html": "<div>" + drawing + "</div>", "image/svg+xml": drawing, "text/plain": "p"}, []string{"image/png", "text/plain"}, ""},
		{"a drawing", forms{"image/svg+xml": drawing}, []string{"image/svg+xml", "image/png"}, ""},
		{"a table and an image", forms{"text/html": "<table></table>" + drawing + "end", "text/plain": "p"}, []string{"text/html", "text/plain"}, `<table></table><img src="data:image/png;base64,`},
		{"two images", forms{"text/html": drawing + drawing}, []string{"text/html"}, `alt="a &amp; b" width="40" height="20"`},
		{"letters that the font lacks", forms{"text/html": chinese}, []string{"text/html"}, `<img src="data:image/svg+xml;base64,`},
		{"a drawing with such letters", forms{"image/svg+xml": chinese}, []string{"image/svg+xml"}, ""},
		{"a drawing with a script", forms{"text/html": drawing + "<script>1</script>"}, []string{"text/html"}, "<svg"},
		{"a drawing with curves", forms{"text/html": svg(`<path d="M0 0C1 1 2 2 3 3"/>`)}, []string{"text/html"}, "<svg"},
		{"PNG of its own", forms{"text/html": drawing, "image/png": []byte("x")}, []string{"text/html", "image/png"}, "<svg"},
		{"text", forms{"text/plain": "<svg></svg>"}, []string{"text/plain"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, metadata := raster.Complete(tt.data, nil)
			for _, mime := range tt.want {
				if data[mime] == nil {
					t.Errorf("no %s", mime)
				}
			}
			if len(data) != len(tt.want) {
				t.Errorf("got %d forms, want %v", len(data), tt.want)
			}
			if page, _ := data["text/html"].(string); !strings.Contains(page, tt.inHTML) {
				t.Errorf("got %.200s, want %s in it", page, tt.inHTML)
			}
			if facts, _ := metadata["image/png"].(map[string]any); tt.name == "an image" && (facts["width"] != 40 || facts["alt"] != "a & b") {
				t.Errorf("got metadata %v, want size and text of the image", metadata)
			}
		})
	}
	if p, err := raster.PNG(chinese); !errors.Is(err, raster.ErrGlyph) || p.Alt != "a & b" {
		t.Errorf("got %v, want ErrGlyph and the facts", err)
	}
}
