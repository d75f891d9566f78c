package report

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gaiden/lib/timing"
)

func TestTableGolden(t *testing.T) {
	table := Table{Title: "Nets & <nets>", Head: []string{"net", "parameters", "loss", "time"}, Notes: []string{"measured <here>"}}
	table.Add("LeNet5", 61706, 0.0123456, "1.42 ms")
	table.Add("größer", int64(1_234_567), math.NaN(), time.Second)
	table.Add("two\nlines", nil, 1e-9)
	table.Add("a heading <of>")
	table.Add("  what is below", 1)
	golden(t, "table.txt", table.String()+"\n")
	golden(t, "table.html", table.HTML()+"\n")
	wellFormed(t, strings.ReplaceAll(table.HTML(), "<br>", "<br/>"))
}

func TestTableOfAnything(t *testing.T) {
	for name, table := range map[string]Table{
		"empty":      {},
		"head only":  {Head: []string{"a", "b"}},
		"ragged":     {Head: []string{"a"}, Rows: [][]string{{"1", "2", "3"}, {}, nil, {"x"}}},
		"no head":    {Rows: [][]string{{"a", "b"}}},
		"bad bytes":  {Rows: [][]string{{"\xff\x00", "\x1b[2J"}}},
		"title only": {Title: "t"},
	} {
		wellFormed(t, table.HTML())
		if text := table.String(); !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b") {
			t.Errorf("%s: got %q, want no control characters", name, text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 60000: "60,000", 0.98580001: "0.9858", 12.3456: "12.35", 1234.56: "1234.6",
		1e-7: "10⁻⁷", 1.25e-7: "1.25×10⁻⁷", -1e-7: "-10⁻⁷", 2.5e9: "2.5×10⁹", math.Inf(1): "∞", math.Inf(-1): "-∞"} {
		if got := number(v); got != want {
			t.Errorf("%g: got %q, want %q", v, got, want)
		}
	}
}

func TestTimings(t *testing.T) {
	a := timing.Measurement{Name: "a <1>", Samples: []float64{0.001, 0.0011, 0.0012, 0.0013, 0.0014, 0.0015}, Loops: 1000, First: 2, Warnings: []error{errors.New("it wobbles")}}
	b := timing.Measurement{Name: "b", Samples: []float64{0.004, 0.0041, 0.0042, 0.0043, 0.0044, 0.0045}, Loops: 1, Partial: true}
	none := timing.Measurement{Name: "none", Err: errors.New("it broke")}
	golden(t, "timings.txt", Timings("Steps", a, b, none).String()+"\n\n"+Comparisons("Before and after", timing.Compare(a, b), timing.Compare(a, a), timing.Compare(a, none)).String()+"\n")
	wellFormed(t, Timings("Steps", a, b, none).HTML())
}

func TestGallery(t *testing.T) {
	g := Gallery{Title: "Predictions", Height: 2, Width: 2, Channels: 1, Tiles: []Tile{
		{Pixels: []byte{0, 1, 2, 3}, Want: "7", Got: "7"},
		{Pixels: []byte{0, 1, 2, 3}, Want: "<b>", Got: `"2"`},
		{Pixels: []byte{0}, Want: "5"},
	}}
	golden(t, "gallery.txt", g.String()+"\n")
	rich := g.HTML()
	for _, want := range []string{`<img src="data:image/png;base64,iVBOR`, "7 ✓", "✗ &#34;2&#34;", "not &lt;b&gt;", "no image: 1 byte for 2×2×1", `alt="7, predicted rightly"`} {
		if !strings.Contains(rich, want) {
			t.Errorf("got %s, want %q in it", rich, want)
		}
	}
	if got := strings.Count(rich, "<img"); got != 2 {
		t.Errorf("got %d pictures, want 2", got)
	}
	g.Channels = 3
	g.Tiles = []Tile{{Pixels: make([]byte, 12), Want: "x"}}
	if !strings.Contains(g.HTML(), "<img") {
		t.Errorf("colour: got %s, want a picture", g.HTML())
	}
	joined := Gallery{Title: "Samples", Height: 1, Width: 2, Channels: 1, Columns: 2, Tiles: Tiles([]float32{0, 1, 2, -1, 0.5, float32(math.NaN()), 9}, 2)}
	if got, want := joined.String(), "Samples\n3 images of 1×2×1, 2 in a row"; got != want {
		t.Errorf("joined: got %q, want %q", got, want)
	}
	if got, want := joined.joined().Tiles[0].Pixels, []byte{0, 255, 255, 0, 128, 0, 0, 0}; !slices.Equal(got, want) || strings.Count(joined.HTML(), "<img") != 1 {
		t.Errorf("joined: got %d and %s, want %d in one image", got, joined.HTML(), want)
	}
	joined.Tiles[0].Pixels = nil
	if rich := joined.HTML(); !strings.Contains(rich, "no image: 0 bytes for 1×2×1") {
		t.Errorf("joined: got %s, want which tile is none", rich)
	}
	g.Tiles = []Tile{{Pixels: make([]byte, 12), Got: "cat"}, {Pixels: make([]byte, 12)}}
	if got, want := g.String(), "Predictions\n  0  predicted: cat\n  1"; got != want {
		t.Errorf("no labels: got %q, want %q", got, want)
	}
	if rich := g.HTML(); strings.ContainsAny(rich, "✗✓") || !strings.Contains(rich, ">cat</div>") {
		t.Errorf("no labels: got %s, want cat, neither right nor wrong", rich)
	}
	for _, bad := range []Gallery{{}, {Height: -1, Width: 2, Channels: 1, Tiles: []Tile{{}}}, {Height: 1 << 40, Width: 1 << 40, Channels: 3, Tiles: []Tile{{}}}, {Channels: 2, Height: 1, Width: 1, Tiles: []Tile{{Pixels: []byte{1, 2}}}}} {
		if rich := bad.HTML(); strings.Contains(rich, "<img") || bad.String() == "" && len(bad.Tiles) > 0 {
			t.Errorf("%+v: got %s, want no image", bad, rich)
		}
	}
}

// A column in which no row has anything is left out; a heading stays one, and so does a
// row of which one cell is left.
func TestEmptyColumns(t *testing.T) {
	table := Table{Head: []string{"name", "none", "all", "some", "short"}, Rows: [][]string{{"heading"}, {"a", "", "1", ""}, {"b", "", "2", "x"}}}
	want := "name     all  some\n───────  ───  ────\nheading\na          1\nb          2  x"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Count(table.HTML(), "<th "); got != 3 {
		t.Errorf("got %d columns in HTML, want 3", got)
	}
	if got := (Table{Head: []string{"a", "b"}, Rows: [][]string{{"x", ""}}}).HTML(); strings.Contains(got, "colspan") {
		t.Errorf("got a heading of a row: %s", got)
	}
}
