package report

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes/bfloat16"
	gomlx "github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/fit"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dims    []int
		count   int
		rows    int
		columns int
		colours bool
	}{
		{"conv/weights", []int{3, 3, 2, 5}, 10, 3, 3, false},
		{"dense/weights", []int{20, 30}, 1, 20, 30, false},
		{"block/0/attention/weights", []int{2, 4, 16, 16}, 8, 16, 16, false},
		{"block/0/attention/weights", []int{1, 4, 16, 16}, 4, 16, 16, false},
		{"conv1", []int{2, 14, 14, 5}, 10, 14, 14, false},
		{"images", []int{2, 14, 12, 3}, 2, 14, 12, true},
		{"photo", []int{14, 12, 3}, 1, 14, 12, true},
		{"digit", []int{28, 28, 1}, 1, 28, 28, false},
		{"block/0", []int{2, 16, 8}, 2, 16, 8, false},
		{"biases", []int{7}, 0, 0, 0, false},
		{"scalar", nil, 0, 0, 0, false},
		{"empty", []int{0, 3}, 0, 0, 0, false},
	} {
		size := 1
		for _, d := range tt.dims {
			size *= d
		}
		a := fit.Tensor{Name: tt.name, Dims: tt.dims, Data: make([]float32, size)}
		m := cut(a)
		if m.count != tt.count || m.rows != tt.rows || m.columns != tt.columns || m.colours != tt.colours {
			t.Errorf("%s %v: got %d of %d×%d, colours %t, want %d of %d×%d, colours %t", tt.name, tt.dims, m.count, m.rows, m.columns, m.colours, tt.count, tt.rows, tt.columns, tt.colours)
			continue
		}
		seen := make([]bool, size)
		for i := range m.count {
			for r := range m.rows {
				for c := range m.columns {
					if at := m.at(i, r, c); seen[at] {
						t.Fatalf("%s %v: number %d is drawn twice", tt.name, tt.dims, at)
					} else {
						seen[at] = true
					}
				}
			}
		}
	}
	wrong := fit.Tensor{Name: "wrong", Dims: []int{3, 3}, Data: make([]float32, 5)}
	if m := cut(wrong); m.count != 0 {
		t.Errorf("fewer numbers than the shape says: got %d matrices, want none", m.count)
	}
}

func TestTensors(t *testing.T) {
	nan := float32(math.NaN())
	l := tensors{
		{Name: "conv/weights", Dims: []int{2, 2, 1, 2}, Data: []float32{0, 1, 2, 3, 4, 5, 6, 7}},
		{Name: "<odd>", Dims: []int{2, 2}, Data: []float32{1, 1, nan, 1}},
		{Name: "nothing", Dims: []int{1}, Data: []float32{nan}},
		{Name: "empty", Dims: []int{0}},
	}
	golden(t, "tensors.txt", l.String())
	html := l.HTML()
	for _, want := range []string{"&lt;odd&gt;", "conv/weights: 2 of 2×2, 0 to 7", "1 of 4 numbers are not finite"} {
		if !strings.Contains(html, want) {
			t.Errorf("got no %q in %s", want, html)
		}
	}
	if got := strings.Count(html, "<img"); got != 2 {
		t.Errorf("got %d images, want those of the two matrices", got)
	}
	many := fit.Tensor{Name: "many", Dims: []int{500, 300, 2, 2}, Data: make([]float32, 500*300*4)}
	if html := (tensors{many}).HTML(); len(html) > 60_000 || !strings.Contains(html, "64 of 1,000 of 256×2") && !strings.Contains(html, "of 300×2") {
		t.Errorf("a tensor of 600,000 numbers: got %d bytes: %.300s", len(html), html)
	}
}

func TestAttention(t *testing.T) {
	w := fit.Tensor{Name: "block/0/attention/weights", Dims: []int{1, 2, 2, 2}, Data: []float32{1, 0, 0.25, 0.75, 1, 0, 0.5, 0.5}}
	text := Attention(w, "a", "b").String()
	for _, want := range []string{"block/0/attention, head 0", "block/0/attention, head 1", `"a"`, "0.75"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in %s", want, text)
		}
	}
	if text := Attention(fit.Tensor{Name: "conv", Dims: []int{2, 2}, Data: make([]float32, 4)}).String(); !strings.Contains(text, "report.Attention got conv [2 2]: want weights [n heads length keys]") {
		t.Errorf("of a matrix: got %s", text)
	}
}

// TestArrayHTML holds that arrays of GoMLX are shown as a net's weights are, with the numbers of
// those that have few.
func TestArrayHTML(t *testing.T) {
	x := gomlx.FromValue([][]float32{{1, 2.5, 3}, {4, 5, float32(math.NaN())}})
	many := make([]*gomlx.Tensor, mostArrays+3)
	for i := range many {
		many[i] = gomlx.FromValue(int32(i))
	}
	gone := gomlx.FromValue(1)
	gone.MustFinalizeAll()
	for _, tt := range []struct {
		name string
		v    any
		want []string
	}{
		{"a matrix", x, []string{"[2 3]", "1 of 6 numbers are not finite", "float32: 2×3, 1 to 5", "<img src=\"data:image/png", "         1        2.5          3"}},
		{"several", []*gomlx.Tensor{x, gomlx.FromValue([]bool{true, false, true})}, []string{"float32", "bool", "         1          0          1"}},
		{"16 bits", gomlx.FromValue([]bfloat16.BFloat16{bfloat16.FromFloat32(1.5)}), []string{"bfloat16", "1.5"}},
		{"a scalar", gomlx.FromValue(int32(-7)), []string{"int32", "[]", "-7"}},
		{"bytes", gomlx.FromValue([]uint8{255}), []string{"uint8", "255"}},
		{"many", many, []string{"and 3 more"}},
		{"complex", gomlx.FromValue([]complex64{1}), nil},
		{"no array", 7, nil},
		{"nil", (*gomlx.Tensor)(nil), nil},
		{"nothing", []*gomlx.Tensor{}, nil},
		{"finalized", gone, nil},
	} {
		got := ArrayHTML(tt.v)
		if (got == "") != (tt.want == nil) {
			t.Errorf("%s: got %q", tt.name, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %q in it", tt.name, got, want)
			}
		}
	}
	if got := ArrayHTML(gomlx.FromValue(make([]float64, mostNumbers+1))); strings.Contains(got, "<pre>") {
		t.Errorf("many numbers: got %s", got)
	}
}
