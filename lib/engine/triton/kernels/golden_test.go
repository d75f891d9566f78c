package kernels

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/activations"
	"gaiden/lib/engine/golden"
	"gaiden/lib/engine/triton"
	"gaiden/lib/optim"
)

var (
	seedConv  = Geometry{Batch: 8, Height: 28, Width: 28, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true}
	lenetConv = Geometry{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true}
	kerasConv = Geometry{Batch: 128, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}
)

// goldens are the kernels of the nets whose time counts, and some odd ones.
// testdata/validate.py of package triton compiles them.
var goldens = map[string]triton.Kernel{
	"linear_100x1000x1000_relu":               Linear{Batch: 100, In: 1000, Out: 1000, Act: ReLU}.Kernel(),
	"linear_100x784x1000_relu_bf16":           Linear{Batch: 100, In: 784, Out: 1000, Act: ReLU, X: dtypes.BFloat16, Y: dtypes.BFloat16, Compute: dtypes.BFloat16}.Kernel(),
	"linear_100x1000x1000_begun":              Linear{Batch: 100, In: 1000, Out: 1000, Act: ReLU, Classes: 10}.Kernel(),
	"linear_100x1000x1000_begun_bf16":         Linear{Batch: 100, In: 1000, Out: 1000, Act: ReLU, X: dtypes.BFloat16, Y: dtypes.BFloat16, Compute: dtypes.BFloat16, Classes: 10}.Kernel(),
	"linear_7x33x10_tanh":                     Linear{Batch: 7, In: 33, Out: 10, Act: Tanh}.Kernel(),
	"linear_input_100x1000x1000_relu":         LinearInput{Batch: 100, In: 1000, Out: 1000, Act: ReLU}.Kernel(),
	"linear_input_100x1000x10_sigmoid":        LinearInput{Batch: 100, In: 1000, Out: 10, Act: Sigmoid}.Kernel(),
	"linear_update_100x1000x1000_adam":        LinearUpdate{Batch: 100, In: 1000, Out: 1000, Rule: optim.Adam{}.Rule()}.Kernel(),
	"linear_update_7x33x10_momentum":          LinearUpdate{Batch: 7, In: 33, Out: 10, Rule: optim.SGD{Momentum: 0.9}.Rule()}.Kernel(),
	"linear_update_100x1000x10_sgd":           LinearUpdate{Batch: 100, In: 1000, Out: 10, Rule: optim.SGD{}.Rule()}.Kernel(),
	"linear_update_100x784x1000_delta":        LinearUpdate{Batch: 100, In: 784, Out: 1000, Rule: optim.AdaDelta{}.Rule()}.Kernel(),
	"linear_gradient_100x784x1000_bf16":       LinearUpdate{Batch: 100, In: 784, Out: 1000, X: dtypes.BFloat16, G: dtypes.BFloat16, Compute: dtypes.BFloat16}.Kernel(),
	"conv_seedcnn":                            Conv{Geometry: seedConv, Act: ReLU}.Kernel(),
	"conv_lenet5_2":                           Conv{Geometry: lenetConv, Act: Sigmoid}.Kernel(),
	"conv_keras_2_bf16":                       Conv{Geometry: kerasConv, Act: ReLU, X: dtypes.BFloat16, Y: dtypes.BFloat16, Compute: dtypes.BFloat16}.Kernel(),
	"conv_input_lenet5_2":                     ConvInput{Geometry: lenetConv, Act: Sigmoid}.Kernel(),
	"conv_input_keras_2":                      ConvInput{Geometry: kerasConv, Act: ReLU}.Kernel(),
	"conv_gradient_seedcnn":                   ConvGradient{Geometry: seedConv}.Kernel(),
	"conv_gradient_lenet5":                    ConvGradient{Geometry: lenetConv}.Kernel(),
	"parts_update_seedcnn":                    PartsUpdate{Parts: 4, Weights: seedConv.weights(), Rule: optim.Adam{}.Rule()}.Kernel(),
	"gather_mnist_b8":                         Gather{Examples: 60000, Size: 784, Batch: 8, X: dtypes.Uint8}.Kernel(),
	"gather_mnist_b100_steps":                 Gather{Examples: 60000, Size: 784, Batch: 100, Steps: 4, X: dtypes.Uint8}.Kernel(),
	"gather_mnist_b8_tile":                    Gather{Examples: 60000, Size: 784, Batch: 8, X: dtypes.Uint8, Tile: Tile{N: 256, Warps: 2}}.Kernel(),
	"group_mlp_adam":                          Group{Rule: optim.Adam{}.Rule(), Members: []Member{LinearUpdate{Batch: 100, In: 784, Out: 1000}, LinearUpdate{Batch: 100, In: 1000, Out: 1000}, LinearUpdate{Batch: 100, In: 1000, Out: 10}, Tally{Batch: 100, Rows: 201}}}.Kernel(),
	"group_seedcnn_adam":                      Group{Rule: optim.Adam{}.Rule(), Members: []Member{PartsUpdate{Parts: 4, Weights: seedConv.weights()}, LinearUpdate{Batch: 8, In: 1960, Out: 100}, LinearUpdate{Batch: 8, In: 100, Out: 10}, Tally{Batch: 8, Rows: 129}}}.Kernel(),
	"lstm_50x20x5":                            Recurrence{Length: 50, Batch: 20, Units: 5}.Kernel(),
	"lstm_100x64x128":                         Recurrence{Length: 100, Batch: 64, Units: 128}.Kernel(),
	"lstm_50x128x64_bf16":                     Recurrence{Length: 50, Batch: 128, Units: 64, Compute: dtypes.BFloat16}.Kernel(),
	"lstm_back_50x128x64_bf16":                RecurrenceBack{Recurrence{Length: 50, Batch: 128, Units: 64, Compute: dtypes.BFloat16}}.Kernel(),
	"lstm_50x128x64_w8_apart":                 Recurrence{Length: 50, Batch: 128, Units: 64, Tile: Tile{N: 16, Warps: 8, Apart: 1}}.Kernel(),
	"lstm_back_7x20x100":                      RecurrenceBack{Recurrence{Length: 7, Batch: 20, Units: 100}}.Kernel(),
	"lstm_back_50x20x64":                      RecurrenceBack{Recurrence{Length: 50, Batch: 20, Units: 64}}.Kernel(),
	"gru_32x64x64":                            Recurrence{Cell: GRU, Length: 32, Batch: 64, Units: 64}.Kernel(),
	"gru_50x128x32_bf16":                      Recurrence{Cell: GRU, Length: 50, Batch: 128, Units: 32, Compute: dtypes.BFloat16}.Kernel(),
	"gru_7x20x100":                            Recurrence{Cell: GRU, Length: 7, Batch: 20, Units: 100}.Kernel(),
	"gru_back_32x64x64":                       RecurrenceBack{Recurrence{Cell: GRU, Length: 32, Batch: 64, Units: 64}}.Kernel(),
	"gru_back_7x20x100":                       RecurrenceBack{Recurrence{Cell: GRU, Length: 7, Batch: 20, Units: 100}}.Kernel(),
	"gru_back_50x128x32_bf16":                 RecurrenceBack{Recurrence{Cell: GRU, Length: 50, Batch: 128, Units: 32, Compute: dtypes.BFloat16}}.Kernel(),
	"rnn_tanh_32x64x64":                       Recurrence{Cell: RNN, Act: Tanh, Length: 32, Batch: 64, Units: 64}.Kernel(),
	"rnn_relu_back_7x20x128":                  RecurrenceBack{Recurrence{Cell: RNN, Act: ReLU, Length: 7, Batch: 20, Units: 128}}.Kernel(),
	"rnn_relu_7x20x128":                       Recurrence{Cell: RNN, Act: ReLU, Length: 7, Batch: 20, Units: 128}.Kernel(),
	"head_100x1000x10":                        Head{Batch: 100, In: 1000, Classes: 10}.Kernel(),
	"end_100x1000x10":                         HeadReduce{Batch: 100, In: 1000, Classes: 10, Parts: 32, Act: ReLU}.Kernel(),
	"end_8x100x10_bf16":                       HeadReduce{Batch: 8, In: 100, Classes: 10, Parts: 7, X: dtypes.BFloat16, G: dtypes.BFloat16, Compute: dtypes.BFloat16, Act: ReLU}.Kernel(),
	"layer_norm_8192x768_bf16":                layerNorm.Kernel(),
	"layer_norm_gradient_8192x768_bf16":       NormGradient{layerNorm}.Kernel(),
	"rms_norm_gradient_9x600":                 NormGradient{Norm{Rows: 9, Width: 600, Epsilon: 1e-6}}.Kernel(),
	"cross_entropy_4096x50257_bf16":           CrossEntropy{Rows: 4096, Classes: 50257, X: dtypes.BFloat16}.Kernel(),
	"cross_entropy_gradient_9x3000":           CrossEntropy{Rows: 9, Classes: 3000, Gradient: true}.Kernel(),
	"activation_8192x3072_gelu_bf16":          gelu.Kernel(),
	"activation_gradient_8192x3072_gelu_bf16": ActivationGradient{gelu}.Kernel(),
	"softmax_100x10":                          Softmax{Batch: 100, Classes: 10}.Kernel(),
	"softmax_4096x1000":                       Softmax{Batch: 4096, Classes: 1000}.Kernel(),
}

var layerNorm = Norm{Rows: 8192, Width: 768, Offset: true, Epsilon: 1e-5, X: dtypes.BFloat16}

var gelu = Activation{Rows: 8192, Width: 3072, Act: activations.GELU, X: dtypes.BFloat16}

func TestGoldens(t *testing.T) { golden.Hold(t, goldens) }

// TestTiles writes every tiling that a chooser may try.
func TestTiles(t *testing.T) {
	for _, op := range []Op{
		Linear{Batch: 100, In: 1000, Out: 1000}, Linear{Batch: 1, In: 1, Out: 1}, Linear{Batch: 4096, In: 100, Out: 84},
		LinearInput{Batch: 100, In: 784, Out: 10}, LinearUpdate{Batch: 8, In: 1960, Out: 100, Rule: optim.Adam{}.Rule()},
		Head{Batch: 100, In: 1000, Classes: 10}, HeadReduce{Batch: 100, In: 1000, Classes: 10, Parts: 32, Act: ReLU}, HeadReduce{Batch: 1, In: 1, Classes: 2, Parts: 1},
		PartsUpdate{Parts: 4, Weights: seedConv.weights(), Rule: optim.Adam{}.Rule()}, PartsUpdate{Parts: 313, Weights: seedConv.weights(), Rule: optim.Adam{}.Rule()},
		Recurrence{Length: 50, Batch: 20, Units: 5}, Recurrence{Length: 100, Batch: 64, Units: 128}, RecurrenceBack{Recurrence{Length: 50, Batch: 128, Units: 64}}, RecurrenceBack{Recurrence{Length: 1, Batch: 1, Units: 1}},
		Recurrence{Cell: GRU, Length: 32, Batch: 64, Units: 64}, RecurrenceBack{Recurrence{Cell: GRU, Length: 1, Batch: 1, Units: 1}}, Recurrence{Cell: RNN, Act: ReLU, Length: 2, Batch: 70, Units: 128}, RecurrenceBack{Recurrence{Cell: RNN, Act: Tanh, Length: 2, Batch: 7, Units: 33}},
		Gather{Examples: 60000, Size: 784, Batch: 8, X: dtypes.Uint8}, Gather{Examples: 2, Size: 1, Batch: 2, Steps: 4}, Gather{Examples: 50000, Size: 3072, Batch: 100, X: dtypes.Uint8},
		layerNorm, NormGradient{layerNorm}, Norm{Rows: 1, Width: LargestNorm}, NormGradient{Norm{Rows: 3, Width: 1}}, CrossEntropy{Rows: 3, Classes: 50257}, CrossEntropy{Rows: 1, Classes: 1}, CrossEntropy{Rows: 2, Classes: 50304, Gradient: true}, gelu, ActivationGradient{gelu}, ActivationGradient{Activation{Rows: 1, Width: 3, NoBias: true}},
		Softmax{Batch: 100, Classes: 10}, Softmax{Batch: 1, Classes: 2}, Softmax{Batch: 4096, Classes: 1000}, Softmax{Batch: 7, Classes: 16384}, Conv{Geometry: seedConv}, ConvInput{Geometry: seedConv}, ConvGradient{Geometry: seedConv},
	} {
		seen := map[string]bool{}
		for _, tile := range op.Tiles() {
			if seen[tile.String()] {
				t.Errorf("%s: tile %s comes twice", op.Key(), tile)
			}
			seen[tile.String()] = true
			if _, err := op.With(tile).(interface{ Kernel() triton.Kernel }).Kernel().Text(); err != nil {
				t.Errorf("%s: tile %s: %v", op.Key(), tile, err)
			}
		}
	}
}
