package statedict

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/result"
	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// rulesOf are the summary and the rules of a net.
func rulesOf(t *testing.T, net models.Net, how ...weights.Map) (models.Summary, rules) {
	t.Helper()
	s, err := models.Summarize(&hlo.Backend{}, net)
	if err != nil {
		t.Fatal(err)
	}
	n := Net{Name: net.Name, Model: net, Layers: s.Layers}
	for _, row := range s.Rows {
		for _, v := range row.Variables {
			n.Variables = append(n.Variables, Variable{Name: v.Name})
		}
	}
	r, err := n.rules(how)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

// TestNames holds the layouts of each kind of layer.
func TestNames(t *testing.T) {
	_, r := rulesOf(t, models.Net{Name: "net", Input: []int{4, 4, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "c", Channels: 3, Kernel: 3}, models.BatchNorm{Name: "bn"},
		models.Flatten{}, models.Dense{Name: "fc", Units: 5}}})
	count := func(name string, dims ...int) result.Tensor {
		v := result.Tensor{Name: name, Dims: dims}
		size := 1
		for _, d := range dims {
			size *= d
		}
		for i := range size {
			v.Data = append(v.Data, float32(i))
		}
		return v
	}
	conv := r.of("c/weights").out(count("c/weights", 3, 3, 2, 3))
	if conv.Name != "c.weight" || !slices.Equal(conv.Dims, []int{3, 2, 3, 3}) {
		t.Errorf("convolution: got %s %v", conv.Name, conv.Dims)
	}
	if got, want := conv.Data[((1*2+1)*3+2)*3+0], float32(((2*3+0)*2+1)*3+1); got != want {
		t.Errorf("convolution: out 1, in 1, row 2, column 0: got %v, want %v", got, want)
	}
	dense := r.of("fc/weights").out(count("fc/weights", 2*2*3, 5))
	if dense.Name != "fc.weight" || !slices.Equal(dense.Dims, []int{5, 12}) {
		t.Errorf("dense: got %s %v", dense.Name, dense.Dims)
	}
	// channel 2, row 0, column 1 → unit 4
	if got, want := dense.Data[4*12+(2*2+0)*2+1], float32(((0*2+1)*3+2)*5+4); got != want {
		t.Errorf("dense: got %v, want %v", got, want)
	}
	if got := r.of("bn/variance").name; got != "bn.running_var" {
		t.Errorf("batch norm: got %s", got)
	}
	_, r = rulesOf(t, models.Net{Name: "flat", Input: []int{2, 2, 3}, Layers: []models.Layer{
		models.Flatten{}, models.BatchNorm{Name: "bn"}, models.Dense{Name: "fc", Units: 5}}})
	for _, v := range []result.Tensor{count("bn/mean", 12), count("fc/weights", 12, 5)} { // channel 2, row 0, column 1
		width := len(v.Data) / 12
		out := r.of(v.Name).out(v)
		at := 2*4 + 1 // of 12 inputs
		if got, want := out.Data[at], float32((1*3+2)*width); got != want {
			t.Errorf("%s after Flatten: got %v, want %v", v.Name, got, want)
		}
		if back := r.of(v.Name).in(out); !slices.Equal(back.Data, v.Data) {
			t.Errorf("%s after Flatten: came back as %v", v.Name, back.Data)
		}
	}
}

// TestParts holds the names and layouts of a depthwise convolution, which is a grouped one
// in PyTorch, and of layers in a net of parts.
func TestParts(t *testing.T) {
	part := func(name string) models.Net {
		return models.Net{Name: name, Input: []int{4, 4, 3}, Layers: []models.Layer{
			models.DepthwiseConv2D{Name: "dw", Kernel: 2}, models.Flatten{}, models.Dense{Name: "fc", Units: 2}}}
	}
	_, r := rulesOf(t, models.Parts("parts", []int{1}, part("a"), part("b")))
	w := result.Tensor{Name: "b/dw/weights", Dims: []int{2, 2, 3}, Data: []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	out := r.of(w.Name).out(w)
	if want := []float32{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}; out.Name != "b.dw.weight" || !slices.Equal(out.Dims, []int{3, 1, 2, 2}) || !slices.Equal(out.Data, want) {
		t.Errorf("depthwise: got %s %v %v, want b.dw.weight [3 1 2 2] %v", out.Name, out.Dims, out.Data, want)
	}
	if back := r.of(w.Name).in(out); !slices.Equal(back.Data, w.Data) {
		t.Errorf("depthwise came back as %v", back.Data)
	}
	if got := r.of("a/fc/weights"); got.name != "a.fc.weight" || !slices.Equal(got.features[0].index()[:4], []int{0, 3, 6, 9}) {
		t.Errorf("dense: got %+v", got)
	}
}

// TestMapped: a vector that a map gives another name keeps PyTorch's order.
func TestMapped(t *testing.T) {
	net := models.Net{Name: "mark", Input: []int{2, 2, 3}, Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "fc", Units: 1}}}
	_, r := rulesOf(t, net, weights.Map{Names: []weights.Name{{Variable: "fc/weights", Array: "1.weight"}}})
	if got := r.of("fc/weights"); got.name != "1.weight" || !got.reordered() {
		t.Errorf("got %+v, want 1.weight in PyTorch's order", got)
	}
}

// TestUnlike: layers that PyTorch's net has no weights for, because its arrays are others,
// keep our names and layouts.
func TestUnlike(t *testing.T) {
	image := []int{2, 2, 3}
	dense := func(name string) models.Layer { return models.Dense{Name: name, Units: 12} }
	for name, tt := range map[string]struct {
		net  models.Net
		own  string // variables with our names
		from string // one that has a layout of its own in the file
	}{
		"an image of its channels":    {models.Net{Input: image, Layers: []models.Layer{models.Flatten{}, models.Unflatten{Dims: []int{3, 4}}, models.GRU{Name: "a", Units: 2}, models.Dense{Name: "b", Units: 2}}}, "a", ""},
		"an image of numbers":         {models.Net{Input: []int{12}, Layers: []models.Layer{models.Unflatten{Dims: image}, models.Conv2D{Name: "a", Channels: 1, Kernel: 2}}}, "a", ""},
		"groups of another order":     {models.Net{Input: image, Layers: []models.Layer{models.Flatten{}, models.GroupNorm{Name: "a", Groups: 2}, dense("b")}}, "ab", ""},
		"sums of sequences":           {models.Net{Input: []int{4, 3}, Layers: []models.Layer{models.Residual{Main: []models.Layer{models.Conv1D{Name: "c", Channels: 3, Kernel: 1}, models.LayerNorm{Name: "n"}}, Skip: []models.Layer{models.Conv1D{Name: "d", Channels: 3, Kernel: 1}}}, models.Flatten{}, dense("a")}}, "a", ""},
		"a layer of your own":         {models.Net{Input: image, Layers: []models.Layer{models.Flatten{}, ownLayer{}, dense("a")}}, "a", ""},
		"a layer of your own before":  {models.Net{Input: image, Layers: []models.Layer{ownLayer{}, models.Flatten{}, dense("b")}}, "", "b/weights"},
		"two ways in both directions": {models.Net{Input: []int{4, 3}, Layers: []models.Layer{models.Bidirectional{Name: "a", Layer: models.Sequential{Layers: []models.Layer{models.GRU{Name: "g", Units: 2}}}}}}, "a", ""},
	} {
		s, all := rulesOf(t, tt.net)
		for _, row := range s.Rows {
			for _, v := range row.Variables {
				if got, want := all.of(v.Name).name == v.Name, strings.Contains(tt.own, row.Name); got != want {
					t.Errorf("%s: %s has our name: got %v, want %v", name, v.Name, got, want)
				}
				if got, want := all.of(v.Name).reordered(), v.Name == tt.from; got != want {
					t.Errorf("%s: %s has another order: got %v, want %v", name, v.Name, got, want)
				}
			}
		}
	}
}

// ownLayer is a layer that this package does not know.
type ownLayer struct{}

func (ownLayer) Title() (name, kind string)                      { return "own", "Own" }
func (ownLayer) Apply(_ *model.Scope, x *graph.Node) *graph.Node { return graph.Reverse(x, -1) }
