package report

import (
	"math"
	"strings"
	"testing"
)

func TestSurfaceGolden(t *testing.T) {
	s := Surface{Title: "hill", X: []float32{0, 1, 2}, Y: []float32{-1, 0, 1}, Values: []float32{0, 0, 0, 0, 1, 0, 0, 0, 0}}
	golden(t, "surface.svg", s.SVG()+"\n")
	golden(t, "surface.txt", s.String()+"\n")
	s.Wire = true
	golden(t, "wireframe.svg", s.SVG()+"\n")
}

func TestSurfacesOfAnything(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	flat := make([]float32, 9)
	million := make([]float32, 1e6)
	for i := range million {
		million[i] = float32(math.Sin(float64(i) / 1000))
	}
	axis := func(n int) []float32 {
		a := make([]float32, n)
		for i := range a {
			a[i] = float32(i)
		}
		return a
	}
	tests := []struct {
		name    string
		surface Surface
		says    string
	}{
		{"nothing", Surface{}, "no data"},
		{"one point", Surface{Values: []float32{1}}, "no data"},
		{"one line", Surface{X: axis(1), Y: axis(5), Values: make([]float32, 5)}, "no data"},
		{"all equal", Surface{Values: flat}, "<path"},
		{"only NaN", Surface{Values: []float32{nan, nan, nan, nan}}, "no value is finite"},
		{"a hole", Surface{Values: []float32{0, 1, nan, inf, 2, 3, 4, 5, 6}}, "2 of 9 values are not shown"},
		{"too few values", Surface{X: axis(3), Y: axis(3), Values: make([]float32, 8)}, "8 values for a grid of 3×3"},
		{"no square", Surface{Values: make([]float32, 7)}, "7 values for a grid of 2×2"},
		{"axes that stand still", Surface{X: []float32{1, 1}, Y: []float32{2, 2}, Values: flat[:4]}, "<path"},
		{"axes that are no numbers", Surface{X: []float32{nan, 1}, Y: []float32{0, inf}, Values: flat[:4]}, "<svg"},
		{"the largest numbers", Surface{Values: []float32{-math.MaxFloat32, math.MaxFloat32, 0, 1}}, "<path"},
		{"a range of its own", Surface{Values: []float32{0, 1, 2, 3}, Low: 1, High: 2}, "<path"},
		{"a range that is none", Surface{Values: []float32{0, 1, 2, 3}, Low: 2, High: float64(nan)}, "<path"},
		{"from below", Surface{Values: flat, Elevation: -400, Azimuth: 1e9}, "<path"},
		{"from nowhere", Surface{Values: flat, Elevation: math.NaN(), Azimuth: math.Inf(1)}, "<path"},
		{"a million", Surface{Values: million}, "<path"},
		{"a million wires", Surface{Values: million, Wire: true}, "<path"},
		{"markup", Surface{Title: "<script>\x00", Alt: `"><b>`, Values: flat}, "&lt;script&gt;"},
		{"tiny", Surface{Title: "t", Width: 1, Height: -1, Values: flat}, "<path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, wire := range []bool{tt.surface.Wire, true} {
				tt.surface.Wire = wire
				rich := tt.surface.HTML()
				wellFormed(t, rich)
				if !strings.Contains(rich, tt.says) {
					t.Errorf("got %.1500s, want %q in it", rich, tt.says)
				}
				if len(rich) > 400_000 {
					t.Errorf("got %d bytes, want at most 400,000", len(rich))
				}
				if tt.surface.String() == "" {
					t.Error("got no text")
				}
			}
		})
	}
}

// What is nearer must be drawn later, from wherever it is seen.
func TestSurfaceHidesWhatIsBehind(t *testing.T) {
	for _, azimuth := range []float64{-60, 30, 120, 210} {
		v := view{box: newBox(azimuth, 30, 300, 300, 0)}
		order := backToFront(10, v.toward[0])
		first, last := float64(order[0])-4.5, float64(order[9])-4.5
		if first*v.toward[0] >= last*v.toward[0] {
			t.Errorf("azimuth %g: rows %v are drawn from the front to the back", azimuth, order)
		}
	}
}

func FuzzSurface(f *testing.F) {
	f.Add(3, 3, float32(1), -60.0, 30.0, "title", false)
	f.Add(0, 5, float32(math.NaN()), 0.0, 1e300, "<b>", true)
	f.Fuzz(func(t *testing.T, nx, ny int, v float32, azimuth, elevation float64, title string, wire bool) {
		nx, ny = min(max(nx, 0), 40), min(max(ny, 0), 40)
		values := make([]float32, nx*ny)
		for i := range values {
			values[i] = v * float32(i%7)
		}
		s := Surface{Title: title, X: make([]float32, nx), Values: values, Wire: wire, Azimuth: azimuth, Elevation: elevation, Low: float64(v)}
		wellFormed(t, s.HTML())
		_ = s.String()
	})
}

func TestRow(t *testing.T) {
	b := Row{Surface{Title: "one"}, nil, Plot{Title: "two"}}
	wellFormed(t, b.HTML())
	if n := strings.Count(b.HTML(), "<svg"); n != 2 {
		t.Errorf("got %d pictures, want 2", n)
	}
	if got := b.String(); !strings.Contains(got, "one") || !strings.Contains(got, "two") {
		t.Errorf("got %q, want both names", got)
	}
}
