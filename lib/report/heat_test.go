package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestHeatGolden(t *testing.T) {
	h := Heat{Title: "a matrix", X: "to", Y: "from", Values: [][]float64{{1, 2}, {3, 4}}, Rows: []string{"a", "b"}, Columns: []string{"left", "right"}, Numbers: true}
	golden(t, "heat.svg", h.SVG()+"\n")
	golden(t, "heat.txt", h.String()+"\n")
}

func TestHeatsOfAnything(t *testing.T) {
	large := make([][]float64, 1000)
	for i := range large {
		large[i] = make([]float64, 1000)
		large[i][i] = 1
	}
	tests := []struct {
		name string
		heat Heat
		says string
	}{
		{"nothing", Heat{}, "no data"},
		{"empty rows", Heat{Values: make([][]float64, 3)}, "no data"},
		{"one cell", Heat{Values: [][]float64{{7}}, Numbers: true}, "<rect"},
		{"not finite", Heat{Values: [][]float64{{math.NaN(), 1}, {math.Inf(1), 2}}}, "2 values are not shown"},
		{"rows of other lengths", Heat{Values: [][]float64{{1}, {1, 2, 3}, {}}}, "<rect"},
		{"a million", Heat{Values: large, Numbers: true}, "128×128 of 1,000×1,000 cells are drawn"},
		{"markup", Heat{Title: "<b>", Rows: []string{"<script>"}, Values: [][]float64{{1, 2}}}, "&lt;script&gt;"},
		{"long names", Heat{Rows: []string{strings.Repeat("r", 999)}, Columns: []string{strings.Repeat("c", 999)}, Values: [][]float64{{1}}}, "…"},
		{"tiny", Heat{Width: -3, Values: [][]float64{{1, 2}, {3, 4}}}, "<rect"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rich := tt.heat.HTML()
			wellFormed(t, rich)
			if !strings.Contains(rich, tt.says) {
				t.Errorf("got %.1500s, want %q in it", rich, tt.says)
			}
			if len(rich) > 2<<20 || tt.heat.String() == "" {
				t.Errorf("got %d bytes and the text %.60q", len(rich), tt.heat.String())
			}
		})
	}
}

func TestConfusion(t *testing.T) {
	tests := []struct {
		name      string
		confusion Confusion
		says      []string
	}{
		{"nothing", Confusion{}, []string{"no examples"}},
		{"all right", Confusion{Want: []int32{0, 1}, Got: []int32{0, 1}}, []string{"no example is taken for another class"}},
		{"names", Confusion{Names: []string{"cat", "dog"}, Want: []int32{0, 0, 0, 1}, Got: []int32{1, 1, 0, 1}}, []string{"cat, taken for dog 2 times"}},
		{"more labels than answers", Confusion{Want: []int32{0, 1, 1}, Got: []int32{0}}, []string{"2 examples left out"}},
		{"labels below 0", Confusion{Want: []int32{-1, 0}, Got: []int32{0, 0}}, []string{"1 example left out"}},
		{"a label like a memory address", Confusion{Want: []int32{0, 2147483646}, Got: []int32{0, 1}}, []string{"1 example left out"}},
		{"markup", Confusion{Names: []string{"<b>", "&"}, Want: []int32{0}, Got: []int32{1}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wellFormed(t, tt.confusion.HTML())
			for _, s := range tt.says {
				if !strings.Contains(tt.confusion.String(), s) || !strings.Contains(tt.confusion.HTML(), s) {
					t.Errorf("got %.600s, want %q in it", tt.confusion.String(), s)
				}
			}
		})
	}
}

// Colours must get lighter all the way, or a print says something else.
func TestShadesGetLighter(t *testing.T) {
	before := -1.0
	for i := range 101 {
		r, g, b := rgb(float64(i) / 100)
		light := 0.2126*float64(r) + 0.7152*float64(g) + 0.0722*float64(b)
		if light <= before {
			t.Fatalf("shade %d %% has lightness %.1f, want more than %.1f", i, light, before)
		}
		before = light
	}
	if shade(-1) != shade(0) || shade(2) != shade(1) {
		t.Error("shares outside 0 to 1: want the colours of the ends")
	}
}

// Numbers on any shade can be read: contrast as WCAG 2.2 defines it, of which it
// asks 4.5.
func TestInk(t *testing.T) {
	luminance := func(colour string) float64 {
		var c [3]uint8
		if len(colour) == 4 { // "#rgb"
			colour = "#" + strings.Repeat(colour[1:2], 2) + strings.Repeat(colour[2:3], 2) + strings.Repeat(colour[3:], 2)
		}
		if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, part := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(c[i]) / 255
			if v > 0.04045 {
				v = math.Pow((v+0.055)/1.055, 2.4)
			} else {
				v /= 12.92
			}
			sum += part * v
		}
		return sum
	}
	for i := range 1001 {
		share := float64(i) / 1000
		a, b := luminance(ink(share)), luminance(shade(share))
		if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 4.5 {
			t.Errorf("%s on %s, share %.3f: contrast %.2f, want 4.5 or more", ink(share), shade(share), share, contrast)
		}
	}
}

// TestWideHeat: a heat map of more columns than a line of numbers holds is shades.
func TestWideHeat(t *testing.T) {
	row := make([]float64, 40)
	for i := range row {
		row[i] = float64(i)
	}
	got := Heat{Title: "wide", Values: [][]float64{row, row}}.String()
	line := strings.Repeat(" ", 16) + strings.Repeat("░", 16) + strings.Repeat("▒", 16) + strings.Repeat("▓", 16) + strings.Repeat("█", 16)
	if want := "wide\n" + line + "\n" + line + "\n0 to 39\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
