package models_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/fit"
	"gaiden/lib/models"
)

var update = flag.Bool("update", false, "write testdata anew")

func total(t *testing.T, n models.Net) models.Summary {
	t.Helper()
	s, err := fit.New("net", n, fit.Config{}).Summary()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each count can be done by hand; ResNets' are torchvision's with a head for
// ten classes, and twice the channels of their batch norms.
func TestSizes(t *testing.T) {
	tests := []struct {
		net    models.Net
		out    []int
		params int
		fixed  int // of them, not trained
	}{
		{models.SeedCNN(), []int{10}, 197_210, 0},
		{models.MLP(1000), []int{10}, 1_796_010, 0},
		{models.KerasCNN(), []int{10}, 1_199_882, 0},
		{models.LeNet5(), []int{10}, 74_966, 0},
		{models.Peaks(), []int{1}, 171, 0},
		{models.SineLSTM(5, 20), []int{20, 1}, 236, 0},
		{models.DeepPose(14), []int{28}, 58_396_060, 0},
		{models.ResNet152(), []int{10}, 58_315_722, 151_424},
		{models.ResNet50(), []int{10}, 23_581_642, 53_120},
		{models.FCN(784, []int{300, 100}, 10), []int{10}, 266_610, 0},
	}
	for _, tt := range tests {
		s := total(t, tt.net)
		if got := s.Total(); got != tt.params || s.NonTrainable != tt.fixed {
			t.Errorf("%s has %d parameters, %d of them not trained, want %d, %d", tt.net.Name, got, s.NonTrainable, tt.params, tt.fixed)
		}
		if got := s.Rows[len(s.Rows)-1].Output; !slices.Equal(got, tt.out) {
			t.Errorf("%s returns %v, want %v", tt.net.Name, got, tt.out)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, net := range []models.Net{models.SeedCNN(), models.KerasCNN(), models.ResNet("ResNet14", 1, 1, 1, 1)} {
		path := filepath.Join("testdata", strings.ToLower(net.Name)+".summary")
		got := total(t, net).String() + "\n"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; run with -update", err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", net.Name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	net := models.Net{Layers: []models.Layer{models.Dense{}, models.Dense{Name: "dense_1"}, models.Dense{}, models.Flatten{}}}
	if got, want := net.Names(), []string{"dense", "dense_1", "dense_2", "flatten"}; !slices.Equal(got, want) {
		t.Errorf("names: got %v, want %v", got, want)
	}
}

// TestRefused holds that a layer that does not fit says which it is and why.
func TestRefused(t *testing.T) {
	image, flat := []int{8, 8, 3}, []int{12}
	tests := []struct {
		name  string
		input []int
		layer models.Layer
		want  string
	}{
		{"conv of a vector", flat, models.Conv2D{Name: "c", Channels: 2, Kernel: 3}, "want images shaped"},
		{"large kernel", image, models.Conv2D{Name: "c", Channels: 2, Kernel: 9}, "kernel 9×9 on an image of 8×8"},
		{"large window", image, models.MaxPool2D{Name: "c", Window: 9}, "window 9×9 on an image of 8×8"},
		{"LSTM of a vector", flat, models.LSTM{Name: "c", Units: 2}, "want sequences shaped"},
		{"embedding of floats", flat, models.Sequential{Name: "c", Layers: []models.Layer{models.Dense{Name: "d", Units: 2}, models.Embedding{Name: "e", Vocab: 3, Units: 2}}}, "want integers"},
		{"attention of a vector", flat, models.Attention{Name: "c", Heads: 2}, "want sequences shaped"},
		{"heads that do not divide", []int{5, 7}, models.Attention{Name: "c", Heads: 2}, "got a width of 7: want a multiple of 2"},
		{"too many frequencies", []int{5, 6}, models.Attention{Name: "c", Heads: 2, Frequencies: []float64{1, 2}}, "got 2 Frequencies: want at most 1"},
		{"no embedding of the name", []int{5, 6}, models.Tied{Name: "c", Of: "words"}, "found no table /words/weights"},
		{"odd heads with RoPE", []int{5, 6}, models.Attention{Name: "c", Heads: 2, RoPE: 100}, "heads have a size of 3: want an even one"},
		{"long sequences", []int{5, 6}, models.Positions{Name: "c", Length: 4}, "got sequences of 5 time steps: want at most 4"},
		{"groups that do not divide", image, models.GroupNorm{Name: "c", Groups: 2}, "got 3 channels: want a multiple of 2"},
		{"repeated change of shape", flat, models.Repeat{Name: "c", Times: 2, Layer: models.Dense{Units: 3}}, "want the same shape, because it is repeated"},
		{"bidirectional last step", []int{5, 6}, models.Bidirectional{Name: "c", Layer: models.LastStep{}}, "want something for each time step"},
		{"last step of a vector", flat, models.LastStep{Name: "c"}, "want sequences shaped"},
		{"long kernel", []int{5, 6}, models.Conv1D{Name: "c", Channels: 2, Kernel: 3, Dilation: 3}, "a kernel that spans 7 on sides of 5"},
		{"concatenated shapes", image, models.Concat{Name: "c", Branches: [][]models.Layer{nil, {models.MaxPool2D{Name: "p", Window: 2}}}}, "want the same sides but for the last"},
		{"branches that differ", image, models.Residual{Name: "c", Main: []models.Layer{models.Flatten{Name: "f"}}}, "want one shape"},
	}
	for _, tt := range tests {
		_, err := fit.New("net", models.Net{Name: "net", Input: tt.input, Layers: []models.Layer{tt.layer}}, fit.Config{}).Summary()
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "net: layer c got an input of [2 ") {
			t.Errorf("%s: got error %v, want one that names layer c and holds %q", tt.name, err, tt.want)
		}
	}
	dense := models.Dense{Name: "a", Units: 2}
	for _, tt := range []struct {
		net  models.Net
		want string
	}{
		{models.Net{Name: "none"}, `net "none" has no layers`},
		{models.SineLSTM(5, -1), "net SineLSTM has an input of [-1 1]: want sides of 1 or more"},
		{models.Net{Name: "twins", Input: flat, Layers: []models.Layer{dense, models.Flatten{}, dense}}, "twins: layers 1 and 3 are both called a: want names that differ"},
		{models.Net{Name: "path", Input: flat, Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "a/b", Units: 2}}}, `path: layer 2 is called "a/b"`},
	} {
		if _, err := fit.New("net", tt.net, fit.Config{}).Summary(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got error %v, want %q", err, tt.want)
		}
	}
}

// TestStrings: what a cell shows of a net and of a layer are names, and no addresses.
func TestStrings(t *testing.T) {
	net := models.Net{Name: "net", Input: []int{4}, Layers: []models.Layer{models.Dense{Name: "fc", Units: 3, Act: models.ReLU}, models.Activation{Act: func(x *graph.Node) *graph.Node { return x }}}}
	for want, x := range map[string]any{
		"net takes x [4]: fc (Dense), activation (Activation)":              net,
		"a net has a layer that is nil":                                     models.Net{Layers: []models.Layer{nil}},
		"{Name: Act:a function}":                                            net.Layers[1],
		"{Name:fc Units:3 Act:ReLU NoBias:false Init:<nil> BiasInit:<nil>}": net.Layers[0],
		"{Name: Units:1 Act:none NoBias:false Init:<nil> BiasInit:<nil>}":   models.Dense{Units: 1},
	} {
		if got := fmt.Sprintf("%+v", x); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// steps is a layer of a user's that keeps every so many time steps.
type steps struct {
	every  int
	masked bool
}

func (steps) Title() (name, kind string) { return "c", "Own" }

func (l steps) Apply(_ *model.Scope, x *graph.Node) *graph.Node {
	y := graph.Slice(x, graph.AxisRange(), graph.AxisRange().Stride(l.every))
	if mask := models.MaskOf(x); mask != nil && l.masked {
		y = models.WithMask(y, graph.Slice(mask, graph.AxisRange(), graph.AxisRange().Stride(l.every)))
	}
	return y
}

// TestMasksAreKept holds that a layer that changes the length of sequences with a mask is an error,
// unless it gives its result one: else those after it take padding for data.
func TestMasksAreKept(t *testing.T) {
	masking, gru := models.Masking{Name: "m"}, models.GRU{Name: "gru", Units: 2}
	for _, tt := range []struct {
		name   string
		input  []int
		layers []models.Layer
		lost   bool
	}{
		{"shorter", []int{6, 3}, []models.Layer{masking, steps{2, false}, gru}, true},
		{"shorter, in a layer", []int{6, 3}, []models.Layer{masking, models.Sequential{Name: "s", Layers: []models.Layer{steps{2, false}}}, gru}, true},
		{"images", []int{6, 5, 3}, []models.Layer{masking, models.Conv2D{Name: "c", Channels: 2, Kernel: 3}}, true},
		{"another shape", []int{6, 4}, []models.Layer{masking, models.Unflatten{Name: "c", Dims: []int{3, 8}}, gru}, true},
		{"shorter with a mask", []int{6, 3}, []models.Layer{masking, steps{2, true}, gru}, false},
		{"same length", []int{6, 3}, []models.Layer{masking, steps{1, false}, gru}, false},
		{"no mask", []int{6, 3}, []models.Layer{steps{2, false}, gru}, false},
		{"vectors", []int{6, 3}, []models.Layer{masking, models.Flatten{}, models.Dense{Name: "d", Units: 2}}, false},
	} {
		_, err := fit.New("net", models.Net{Name: "net", Input: tt.input, Layers: tt.layers}, fit.Config{}).Summary()
		if want := "with a mask of [2 6]: want a mask of its result"; tt.lost && (err == nil || !strings.Contains(err.Error(), want)) || !tt.lost && err != nil {
			t.Errorf("%s: got %v, want an error: %t", tt.name, err, tt.lost)
		}
	}
}
