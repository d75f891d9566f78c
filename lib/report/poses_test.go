package report

import (
	"math"
	"strings"
	"testing"
)

func TestPoses(t *testing.T) {
	nan := float32(math.NaN())
	pixels := make([]byte, 4*4*3)
	joints := []float32{0.1, 0.1, 0.5, 0.5, 0.9, 0.2}
	bones := [][2]int{{0, 1}, {1, 2}}
	tests := []struct {
		name   string
		sticks Poses
		says   string // in the HTML
	}{
		{"nothing", Poses{}, "no figures"},
		{"an empty figure", Poses{Figures: []Figure{{}}}, "0 joints"},
		{"a picture", Poses{Height: 4, Width: 4, Channels: 3, Bones: bones, Figures: []Figure{{Pixels: pixels, Want: joints, Got: joints}}}, "data:image/png"},
		{"pixels that do not fit", Poses{Height: 5, Width: 4, Channels: 3, Figures: []Figure{{Pixels: pixels, Want: joints}}}, "<rect"},
		{"hidden joints", Poses{Bones: bones, Figures: []Figure{{Want: joints, Visible: []float32{1, 1, 0, 0, 1, 1}}}}, "1 not visible"},
		{"few flags", Poses{Figures: []Figure{{Want: joints, Visible: []float32{1}}}}, "2 not visible"},
		{"bones to nowhere", Poses{Bones: [][2]int{{-1, 0}, {2, 99}}, Figures: []Figure{{Want: joints}}}, "<circle"},
		{"joints that are no numbers", Poses{Bones: bones, Figures: []Figure{{Want: []float32{nan, 0, 1e30, 1, 0.5, 0.5}}}}, "<circle"},
		{"half a joint", Poses{Figures: []Figure{{Want: joints[:5]}}}, "2 joints"},
		{"markup", Poses{Title: "<script>", Figures: []Figure{{Caption: "<b>", Want: joints}}}, "&lt;b&gt;"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rich := tt.sticks.HTML()
			wellFormed(t, rich)
			if !strings.Contains(rich, tt.says) {
				t.Errorf("got %.900s, want %q in it", rich, tt.says)
			}
			if tt.sticks.String() == "" {
				t.Error("got no text")
			}
		})
	}
}

func TestFigureOff(t *testing.T) {
	f := Figure{Want: []float32{0, 0, 1, 1}, Got: []float32{0.3, 0.4, 0, 0}}
	if got, want := f.Off(), (0.5+math.Sqrt2)/2; math.Abs(got-want) > 1e-6 {
		t.Errorf("got %g, want %g", got, want)
	}
	f.Visible = []float32{1, 1, 0, 0}
	if got, want := f.Off(), 0.5; math.Abs(got-want) > 1e-6 {
		t.Errorf("with a joint hidden: got %g, want %g", got, want)
	}
	f.Visible = []float32{0, 0, 0, 0}
	if got := f.Off(); !math.IsNaN(got) {
		t.Errorf("with no joint seen: got %g, want NaN", got)
	}
}
