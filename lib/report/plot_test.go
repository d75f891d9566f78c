package report

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/fit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file of testdata; -update rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(-update rewrites it)", name, got, want)
	}
}

// wellFormed fails on what no browser should be given.
func wellFormed(t *testing.T, markup string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(markup))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well formed: %v in %.300s", err, markup)
		}
	}
	for _, attribute := range []string{` d="`, ` x="`, ` y="`, ` transform="`} {
		for _, part := range strings.Split(markup, attribute)[1:] {
			value, _, _ := strings.Cut(part, `"`)
			if strings.Contains(value, "NaN") || strings.Contains(value, "Inf") || strings.Contains(value, "e+") {
				t.Fatalf("%s%.80s is no place", attribute, value)
			}
		}
	}
	if strings.Contains(markup, "<script") {
		t.Fatal("there is a script")
	}
}

func TestPlotGolden(t *testing.T) {
	p := Plot{Title: "Error", X: "epoch", Y: "error", LogY: true, Series: []Series{
		{Name: "train", Y: []float64{0.5, 0.2, 0.1, 0.05}},
		{Name: "test", Y: []float64{0.6, 0.3, 0.2, 0.18}, Low: []float64{0.5, 0.25, 0.15, 0.15}, High: []float64{0.7, 0.4, 0.25, 0.2}},
	}}
	golden(t, "plot.svg", p.SVG()+"\n")
	golden(t, "plot.txt", p.String()+"\n")
	wellFormed(t, p.HTML())
}

func TestPlotsOfAnything(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	million := make([]float64, 1e6)
	r := rand.New(rand.NewPCG(1, 1))
	walk := make([]float64, len(million))
	for i := range million {
		million[i] = r.NormFloat64()
		walk[i] = r.NormFloat64()
	}
	holes := append([]float64(nil), million...)
	for i := range holes {
		if i%2 == 0 {
			holes[i] = nan
		}
	}
	tests := []struct {
		name string
		plot Plot
		says string // in the HTML
	}{
		{"nothing", Plot{}, "no data"},
		{"no history", ErrorCurve(nil), "no data"},
		{"several runs", Curves("loss", map[string]*fit.History{"one": {Epochs: []fit.Epoch{{Number: 1}, {Number: 2}}}, "two": {Epochs: []fit.Epoch{{Number: 1, Validation: &fit.Score{Loss: 7}}}}}), ">two<"},
		{"no losses", LossCurve(nil), "no data"},
		{"a name only", Plot{Series: []Series{{Name: "empty"}}}, "no data"},
		{"one point", Plot{Series: []Series{{Y: []float64{3}}}}, "h0"},
		{"one zero", Plot{Series: []Series{{Y: []float64{0}}}}, "h0"},
		{"all equal", Plot{Series: []Series{{Y: []float64{5, 5, 5}}}}, "<path"},
		{"only NaN", Plot{Series: []Series{{Y: []float64{nan, nan}}}}, "2 points are not shown"},
		{"NaN between", Plot{Series: []Series{{Y: []float64{1, nan, 2}}}}, "1 point is not shown"},
		{"infinities", Plot{Series: []Series{{Y: []float64{inf, 1, -inf, 2}}}}, "2 points are not shown: not finite"},
		{"zero on a log axis", Plot{LogY: true, Series: []Series{{Y: []float64{0, 1, -1, 10}}}}, "not positive on a log axis"},
		{"one point, both log", Plot{LogX: true, LogY: true, Series: []Series{{Y: []float64{3}}}}, "h0"},
		{"the largest numbers", Plot{Series: []Series{{Y: []float64{-1e300, 1e300, math.MaxFloat64}}}}, "1 point is not shown"},
		{"the smallest numbers", Plot{Series: []Series{{Y: []float64{5e-324, 1e-323}}}}, "<path"},
		{"a huge log range", Plot{LogY: true, Series: []Series{{Y: []float64{5e-324, 1e300}}}}, "<path"},
		{"far from zero", Plot{Series: []Series{{Y: []float64{1e15, 1e15 + 1}}}}, "<path"},
		{"neighbours", Plot{Series: []Series{{Y: []float64{1, math.Nextafter(1, 2)}}}}, "<path"},
		{"x and y differ", Plot{Series: []Series{{Name: "s", X: []float64{1, 2}, Y: []float64{1, 2, 3}}}}, "got 2 values of x for 3 of y"},
		{"a short band", Plot{Series: []Series{{Y: []float64{1, 2, 3}, Low: []float64{0, nan}, High: []float64{3}}}}, "<path"},
		{"markup", Plot{Title: "<script>alert(1)</script>", X: `"x"`, Y: "<b>", Series: []Series{{Name: "</svg>&amp;", Y: []float64{1, 2}}}}, "&lt;script&gt;"},
		{"control characters", Plot{Title: "a\x00b\x1b[31m\xff", Series: []Series{{Name: "\n", Y: []float64{1}}}}, "a b"},
		{"long names", Plot{Title: strings.Repeat("long ", 100), X: strings.Repeat("x", 1000), Y: strings.Repeat("y", 1000), Series: []Series{{Name: strings.Repeat("n", 1000), Y: []float64{1, 2}}}}, "…"},
		{"many curves", Plot{Series: make([]Series, 100)}, "no data"},
		{"a small picture", Plot{Width: 1, Height: -5, Title: "t", X: "x", Y: "y", Series: []Series{{Name: "n", Y: []float64{1e-9, 1}}}}, "<path"},
		{"a large picture", Plot{Width: 1 << 30, Height: 1 << 30, Series: []Series{{Y: []float64{1, 2}}}}, "4000"},
		{"a million points", Plot{Series: []Series{{Y: million}}}, "1,000,000 points"},
		{"a million dots", Plot{Series: []Series{{X: walk, Y: million, Points: true}}}, "1,000,000 points"},
		{"a million in any order", Plot{Series: []Series{{X: walk, Y: million}}}, "1,000,000 points"},
		{"a million with holes", Plot{Series: []Series{{Y: holes}}}, "500,000 points are not shown"},
		{"a band of a million", Plot{Series: []Series{{Y: million, Low: million, High: walk}}}, "<path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rich, text := tt.plot.HTML(), tt.plot.String()
			wellFormed(t, rich)
			if !strings.Contains(rich, tt.says) {
				t.Errorf("got %.2000s, want %q in it", rich, tt.says)
			}
			if len(rich) > 1<<20 {
				t.Errorf("got %d bytes, want at most a megabyte", len(rich))
			}
			if text == "" || strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("got the text %q", text)
			}
		})
	}
}

func FuzzPlot(f *testing.F) {
	f.Add([]byte("12345678abcdefgh"), true, false, "name")
	f.Add(binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Inf(1))), false, true, "<b>")
	f.Fuzz(func(t *testing.T, data []byte, logX, logY bool, name string) {
		var values []float64
		for ; len(data) >= 8; data = data[8:] {
			values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
		half := len(values) / 2
		p := Plot{Title: name, LogX: logX, LogY: logY, Series: []Series{{Name: name, X: values[:half], Y: values[half:]}, {Y: values, Low: values[half:], High: values, Points: logX}}}
		wellFormed(t, p.HTML())
		_ = p.String()
	})
}

// What is left out must not be seen: the same extremes in every column.
func TestThinKeepsWhatIsSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	points := make([]point, 100_000)
	for i := range points {
		points[i] = point{x: float64(i) * 600 / 1e5, y: 100 * r.Float64(), first: i == 0}
	}
	points[54321].y = 1000
	extremes := func(points []point) map[int][2]float64 {
		m := map[int][2]float64{}
		for _, p := range points {
			e, seen := m[int(p.x)]
			if !seen {
				e = [2]float64{p.y, p.y}
			}
			m[int(p.x)] = [2]float64{min(e[0], p.y), max(e[1], p.y)}
		}
		return m
	}
	kept := thin(points, false, 600)
	if len(kept) != 1 || len(kept[0]) > 6000 {
		t.Fatalf("got %d lines of %d points, want one of at most 6000", len(kept), len(kept[0]))
	}
	got, want := extremes(kept[0]), extremes(points)
	for column, w := range want {
		if got[column] != w {
			t.Errorf("column %d: got %v, want %v", column, got[column], w)
		}
	}
	few := thin(points[:100], false, 600)
	if len(few) != 1 || len(few[0]) != 100 {
		t.Errorf("100 points: got %d lines, want one with all of them", len(few))
	}
}

// One curve needs no legend, which the title and the axis are; several do.
func TestLegend(t *testing.T) {
	one := Plot{Title: "loss", Series: []Series{{Name: "train", Y: []float64{1, 2}}}}
	if svg := one.SVG(); strings.Contains(svg, ">train</text>") {
		t.Errorf("one curve: got a legend in %s", svg)
	}
	two := Plot{Title: "loss", Series: append(one.Series, Series{Name: "test", Y: []float64{2, 1}})}
	if svg := two.SVG(); !strings.Contains(svg, ">train</text>") || !strings.Contains(svg, ">test</text>") {
		t.Errorf("two curves: got no legend in %s", svg)
	}
}

func TestTicks(t *testing.T) {
	tests := []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 20, false, "0 5 10 15 20"},
		{-1.5, 9, false, "0 2 4 6 8"},
		{0, 1e6, false, "0 200,000 400,000 600,000 800,000 1,000,000"},
		{0, 4e7, false, "0 10⁷ 2×10⁷ 3×10⁷ 4×10⁷"},
		{-2e-7, 2e-7, false, "-2×10⁻⁷ -10⁻⁷ 0 10⁻⁷ 2×10⁻⁷"},
		{0.001, 1, true, "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1"},
		{1, 1e8, true, "10⁰ 10² 10⁴ 10⁶ 10⁸"},
		{1, 1e4, true, "1 10 100 1,000 10,000"},
		{-1, 1, false, "-1.0 -0.5 0.0 0.5 1.0"},
		{0.42, 0.48, true, "0.42 0.43 0.44 0.45 0.46 0.47 0.48"},
	}
	for _, tt := range tests {
		a := axis{log: tt.log, low: tt.low, high: tt.high}
		var labels []string
		for _, tick := range a.ticks(5) {
			labels = append(labels, tick.label)
		}
		if got := strings.Join(labels, " "); got != tt.want {
			t.Errorf("%g to %g: got %s, want %s", tt.low, tt.high, got, tt.want)
		}
	}
}
