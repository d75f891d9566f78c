package convolution

import (
	"testing"

	"gaiden/lib/engine/golden"
	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// longest is the length of a text that testdata has as it is.
const longest = 60_000

var (
	kerasConv  = kernels.Geometry{Batch: 128, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}
	lenetConv  = kernels.Geometry{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true}
	paddedConv = kernels.Geometry{Batch: 2, Height: 7, Width: 9, In: 10, Out: 12, Size: 3, Pad: 1}
	tinyConv   = kernels.Geometry{Batch: 2, Height: 3, Width: 3, In: 2, Out: 8, Size: 1}
)

// goldens are the kernels of the nets whose time counts, and small ones with each
// activation, with and without pooling, of float32 and of BFloat16.
var goldens = map[string]ptx.Kernel{
	"conv_keras_2":            Conv{Geometry: kerasConv, Act: kernels.ReLU}.Kernel(),
	"conv_keras_2_bf16":       Conv{Geometry: kerasConv, Act: kernels.ReLU, Brain: true}.Kernel(),
	"conv_lenet5_2":           Conv{Geometry: lenetConv, Act: kernels.Sigmoid}.Kernel(),
	"conv_lenet5_2_bf16":      Conv{Geometry: lenetConv, Act: kernels.Sigmoid, Brain: true}.Kernel(),
	"conv_padded_tanh":        Conv{Geometry: paddedConv, Act: kernels.Tanh}.Kernel(),
	"conv_padded_tanh_bf16":   Conv{Geometry: paddedConv, Act: kernels.Tanh, Brain: true}.Kernel(),
	"conv_tiny_relu":          Conv{Geometry: tinyConv, Act: kernels.ReLU}.Kernel(),
	"conv_tiny_identity_bf16": Conv{Geometry: tinyConv, Brain: true}.Kernel(),
	"back_keras_2":            Back{Geometry: kerasConv, Act: kernels.ReLU}.Kernel(),
	"back_keras_2_bf16":       Back{Geometry: kerasConv, Act: kernels.ReLU, Brain: true}.Kernel(),
	"back_lenet5_2":           Back{Geometry: lenetConv, Act: kernels.Sigmoid}.Kernel(),
	"back_lenet5_2_bf16":      Back{Geometry: lenetConv, Act: kernels.Sigmoid, Brain: true}.Kernel(),
	"conv_keras_2_w16":        Conv{Geometry: kerasConv, Act: kernels.ReLU, Warps: 16}.Kernel(),
	"back_lenet5_2_w8":        Back{Geometry: lenetConv, Act: kernels.Sigmoid, Warps: 8}.Kernel(),
	"back_padded_tanh":        Back{Geometry: paddedConv, Act: kernels.Tanh}.Kernel(),
	"back_padded_tanh_bf16":   Back{Geometry: paddedConv, Act: kernels.Tanh, Brain: true}.Kernel(),
	"back_tiny_relu":          Back{Geometry: tinyConv, Act: kernels.ReLU}.Kernel(),
	"back_tiny_identity_bf16": Back{Geometry: tinyConv, Brain: true}.Kernel(),
}

// TestGoldens holds the text of kernels, to the letter; of the longest there are sums.
func TestGoldens(t *testing.T) { golden.Hold(t, ".ptx", goldens, longest) }
