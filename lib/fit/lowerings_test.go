package fit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// library, patches, products and winograd choose one algorithm for all convolutions; where it
// cannot compute one, XLA does.
func library(lower.Convolution) lower.Choice { return lower.Choice{} }

func patches(lower.Convolution) lower.Choice { return lower.Choice{Algorithm: lower.Patches} }

func products(c lower.Convolution) lower.Choice {
	if c.Stride > 1 {
		return lower.Choice{Split: lower.Split{Taps: true}}
	}
	return lower.Choice{Split: lower.Split{Output: true, Rows: true, Weights: true}}
}

// winograd has tiles of so many outputs a side.
func winograd(side int) func(c lower.Convolution) lower.Choice {
	return func(c lower.Convolution) lower.Choice {
		if c.Stride > 1 || c.Kernel < 3 {
			return lower.Choice{}
		}
		return lower.Choice{Algorithm: lower.Winograd, Tile: side}
	}
}

// TestLowerings holds that every way to pool and to convolve gives the same,
// for kernels, strides and padding of each kind.
func TestLowerings(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := formulaData("SeedCNN", 4, 12*12*2, 0)
	type convolution struct{ kernel, pad, stride int }
	tests := []struct {
		c2, c3  convolution
		pooling models.Pooling
	}{
		{convolution{3, 1, 1}, convolution{3, 0, 2}, models.Mask},
		{convolution{4, 0, 1}, convolution{4, 1, 2}, models.SelectAndScatter},
		{convolution{5, 2, 1}, convolution{2, 2, 1}, models.IndexedFill}, // padding that no window needs
	}
	for i, tt := range tests {
		var loss [4]float64
		var gradients [4]map[string][]float32
		for k, choose := range []func(lower.Convolution) lower.Choice{patches, library, products, winograd(2)} {
			net := models.Net{Name: "net", Input: []int{12, 12, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: 3, Kernel: 3, Same: true, Act: models.ReLU},
				models.MaxPool2D{Name: "p1", Window: 2, Gradient: []models.Pooling{models.Mask, tt.pooling, models.Mask, models.Mask}[k]},
				models.Conv2D{Name: "c2", Channels: 4, Kernel: tt.c2.kernel, Pad: tt.c2.pad, Stride: tt.c2.stride},
				models.Conv2D{Name: "c3", Channels: 3, Kernel: tt.c3.kernel, Pad: tt.c3.pad, Stride: tt.c3.stride},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			n := attach(t, s, fmt.Sprintf("net%d.%d", i, k), net, Config{FirstLook: true})
			n.options.Convolution = choose
			loss[k], gradients[k] = oneStep(t, n, d, 4)
		}
		for k := 1; k < len(loss); k++ {
			if math.Abs(loss[0]-loss[k]) > 1e-5 {
				t.Errorf("%+v: got loss %v, want %v", tt, loss[k], loss[0])
			}
			compare(t, gradients[k], gradients[0], 1e-4)
		}
	}
}

// TestParts holds that a gradient of weights that is taken part by part of the batch is
// the one that XLA's convolution gives at once, with oneDNN too. The images of 135×132
// have columns that no window reaches.
func TestParts(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ height, width, kernel, pad, stride int }{
		{64, 64, 3, 1, 1},
		{135, 132, 5, 0, 2},
		{129, 129, 6, 2, 2},
	} {
		const batch, channels = 5, 256 // 5 M outputs: parts of one image or two, the last one not full
		d := formulaData("SeedCNN", batch, tt.height*tt.width*2, 0)
		var loss [3]float64
		var gradients [3]map[string][]float32
		for k, choose := range []func(lower.Convolution) lower.Choice{library, nil, nil} {
			net := models.Net{Name: "net", Input: []int{tt.height, tt.width, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: channels, Kernel: tt.kernel, Pad: tt.pad, Stride: tt.stride, Act: models.ReLU},
				models.Conv2D{Name: "c2", Channels: 2, Kernel: 8, Stride: 8},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			n := attach(t, s, fmt.Sprintf("parts%d.%d", i, k), net, Config{FirstLook: true, OneDNN: k == 2})
			n.options.Convolution = choose
			loss[k], gradients[k] = oneStep(t, n, d, batch)
			if math.Abs(loss[k]-loss[0]) > 1e-5 {
				t.Errorf("%+v: got loss %v, want %v", tt, loss[k], loss[0])
			}
			compare(t, gradients[k], gradients[0], 1e-4)
		}
	}
}

// TestWinograd holds that Winograd's way gives what XLA's convolution gives, for tiles of
// each size, some over the image's edge, and a batch of two parts and a rest.
func TestWinograd(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ height, width, kernel, pad, tile int }{
		{64, 61, 3, 1, 4},
		{13, 13, 3, 0, 3},
		{7, 6, 3, 2, 2},
		{27, 30, 5, 2, 3},
		{20, 24, 4, 1, 4},
		{11, 9, 5, 2, 2},
	} {
		const batch, channels = 5, 256
		d := formulaData("SeedCNN", batch, tt.height*tt.width*2, 0)
		var loss [2]float64
		var gradients [2]map[string][]float32
		for k, choose := range []func(lower.Convolution) lower.Choice{library, winograd(tt.tile)} {
			net := models.Net{Name: "net", Input: []int{tt.height, tt.width, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: channels, Kernel: tt.kernel, Pad: tt.pad, Act: graph.Tanh},
				models.Conv2D{Name: "c2", Channels: 3, Kernel: tt.kernel, Pad: tt.pad, Act: graph.Tanh},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			n := attach(t, s, fmt.Sprintf("winograd%d.%d", i, k), net, Config{FirstLook: true})
			n.options.Convolution = choose
			loss[k], gradients[k] = oneStep(t, n, d, batch)
		}
		if math.Abs(loss[1]-loss[0]) > 1e-5*math.Abs(loss[0]) {
			t.Errorf("%+v: got loss %v, want %v", tt, loss[1], loss[0])
		}
		compare(t, gradients[1], gradients[0], 1e-4)
	}
}

// TestBiases holds that the gradient of biases, a sum of sums for a GPU, is the sum: of
// rows that are cut and of some that are not, in float32 and bfloat16.
func TestBiases(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "net", Input: []int{6, 6, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 4, Kernel: 3, Act: graph.Tanh},
		models.Flatten{Name: "flatten"},
		models.Dense{Name: "hidden", Units: 32, Act: graph.Tanh},
		models.Dense{Name: "output", Units: 10}}}
	for i, batch := range []int{17, 128, 384, 1024} {
		d := formulaData("SeedCNN", batch, 36, 0)
		for k, config := range []Config{{Kernels: XLAKernels, FirstLook: true}, {Kernels: XLAKernels, FirstLook: true, BF16: true}} {
			var gradients [2]map[string][]float32
			for j, platform := range []string{"cpu", "cuda"} {
				n := attach(t, s, fmt.Sprintf("biases%d.%d.%d", i, k, j), net, config)
				n.target = played(platform, "")
				_, gradients[j] = oneStep(t, n, d, batch)
			}
			compare(t, gradients[1], gradients[0], []float64{1e-5, 2e-2}[k])
		}
	}
}

// TestWholeImage holds that a convolution whose outputs each see the whole image,
// which is one product, gives what XLA's convolution gives.
func TestWholeImage(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ side, kernel, pad, stride int }{
		{2, 3, 1, 1}, // as in ResNet152
		{1, 3, 1, 1},
		{3, 5, 2, 1},
		{3, 3, 0, 1}, // one output
		{2, 4, 2, 2},
	} {
		d := formulaData("SeedCNN", 4, tt.side*tt.side*2, 0)
		var loss [2]float64
		var gradients [2]map[string][]float32
		for k, choose := range []func(lower.Convolution) lower.Choice{nil, library} {
			conv := models.Conv2D{Kernel: tt.kernel, Pad: tt.pad, Stride: tt.stride}
			first, second := conv, conv
			first.Name, first.Channels, first.Act = "c1", 3, models.ReLU
			second.Name, second.Channels = "c2", 2
			layers := []models.Layer{first, second, models.Flatten{Name: "f"}, models.Dense{Name: "output", Units: 10}}
			if (tt.side+2*tt.pad-tt.kernel)/tt.stride+1 != tt.side {
				layers = slices.Delete(layers, 1, 2)
			}
			net := models.Net{Name: "net", Input: []int{tt.side, tt.side, 2}, Layers: layers}
			n := attach(t, s, fmt.Sprintf("whole%d.%d", i, k), net, Config{FirstLook: true})
			n.options.Convolution = choose
			loss[k], gradients[k] = oneStep(t, n, d, 4)
		}
		if math.Abs(loss[0]-loss[1]) > 1e-5 {
			t.Errorf("%+v: got loss %v, want %v", tt, loss[0], loss[1])
		}
		compare(t, gradients[0], gradients[1], 1e-5)
	}
}

// TestJointGradients holds that gradients of several layers of one x, which a GPU computes as one
// matmul, are those of each: in attention with grouped queries and in a gated layer, with frozen
// and adapted layers among them.
func TestJointGradients(t *testing.T) {
	t.Parallel()
	s := open(t)
	const width, length, batch = 8, 6, 4
	block := models.TransformerBlock{Name: "block", Heads: 4, KVHeads: 2, Gated: true, Act: models.SiLU, NoBias: true}
	first := models.Dense{Name: "first", Units: width}
	loop := models.Scan{Name: "scan", State: [][]int{{width}}, Cell: func(scope *model.Scope, state []*graph.Node, x *graph.Node) ([]*graph.Node, *graph.Node) {
		y := models.Call(scope, models.Residual{Name: "r", Main: []models.Layer{models.LayerNorm{Name: "norm"}, models.FeedForward{Name: "f", Gated: true, Hidden: 5}}}, graph.Add(x, state[0]))
		return []*graph.Node{y}, y
	}}
	for name, tt := range map[string]struct {
		layers []models.Layer
		net    func(*models.Net)
		config Config
	}{
		"bfloat16": {layers: []models.Layer{block}, config: Config{BF16: true}}, // the first x has no gradient
		"loop":     {layers: []models.Layer{first, models.Residual{Name: "res", Main: []models.Layer{models.LayerNorm{Name: "n"}, models.Repeat{Name: "rep", Times: 1, Recompute: true, Layer: loop}}}}},
		"frozen":   {layers: []models.Layer{first, block}, config: Config{Optimizer: optim.Groups{Optimizer: optim.SGD{}, Groups: []optim.Group{{Names: []string{"block/attention/key/*", "block/feedforward/up/*"}, Frozen: true}, {Names: []string{"*"}}}}}},
		"adapted":  {layers: []models.Layer{first, block}, net: func(n *models.Net) { n.LoRA = models.LoRA{Rank: 2} }},
	} {
		var gradients [2]map[string][]float32
		for j, platform := range []string{"cpu", "cuda"} {
			net := models.Net{Name: "net", Input: []int{length, width}, Layers: append(slices.Clone(tt.layers), models.Flatten{Name: "flatten"}, models.Dense{Name: "output", Units: 10})}
			if tt.net != nil {
				tt.net(&net)
			}
			config := tt.config
			config.Kernels, config.FirstLook = XLAKernels, true
			n := attach(t, s, fmt.Sprint("joint", name, j), net, config)
			n.target = played(platform, "")
			_, gradients[j] = oneStep(t, n, formulaData("SeedCNN", batch, length*width, 0), batch)
		}
		compare(t, gradients[1], gradients[0], map[bool]float64{false: 1e-5, true: 2e-2}[tt.config.BF16])
	}
}
