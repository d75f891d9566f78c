package models_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/fieldtest"
	"gaiden/lib/fit"
	. "gaiden/lib/models"
)

// TestCheck holds that each setting of each layer that means nothing, or that nothing would
// use, is refused by its name before anything is built.
func TestCheck(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	conv := Conv2D{Channels: 1, Kernel: 1}
	with := func(change func(*Conv2D)) Conv2D { c := conv; change(&c); return c }
	inner := func(l ...Layer) Layer { return Residual{Main: l} }
	var none *Dense
	for _, tt := range []struct {
		layer Layer
		want  string // "": right
	}{
		{conv, ""},
		{Conv2D{Kernel: 1}, "Channels is 0: want 1 or more"},
		{with(func(c *Conv2D) { c.Channels = -3 }), "Channels is -3"},
		{Conv2D{Channels: 1}, "Kernel is 0: want 1 or more"},
		{with(func(c *Conv2D) { c.Kernel = -1 }), "Kernel is -1"},
		{with(func(c *Conv2D) { c.Stride = -2 }), "Stride is -2: want 1 or more, or 0 for 1"},
		{with(func(c *Conv2D) { c.Pad = -1 }), "Pad is -1: want 0 or more"},
		{with(func(c *Conv2D) { c.Pad, c.Same = 1, true }), "Pad is set, and Same leaves it without use"},
		{with(func(c *Conv2D) { c.NoBias, c.BiasInit = true, He }), "BiasInit is set, and NoBias"},
		{Dense{Units: 1}, ""},
		{Dense{}, "Units is 0: want 1 or more"},
		{Dense{Units: -5}, "Units is -5"},
		{Dense{Units: 1, NoBias: true, BiasInit: He}, "BiasInit is set, and NoBias"},
		{Dense{Units: 1, Init: Normal(nan)}, "Normal(NaN): want a finite number"},
		{Dense{Units: 1, Init: Normal(-1)}, "Normal(-1): want 0 or more"},
		{Dense{Units: 1, BiasInit: Fill(inf)}, "Fill(+Inf): want a finite number"},
		{Dropout{}, ""}, {Dropout{Rate: 0.99}, ""},
		{Dropout{Rate: 1}, "Rate is 1: want 0 or more, and less than 1"},
		{Dropout{Rate: -0.1}, "Rate is -0.1"}, {Dropout{Rate: nan}, "Rate is NaN"}, {Dropout{Rate: inf}, "Rate is +Inf"},
		{BatchNorm{}, ""},
		{BatchNorm{Momentum: 1}, "Momentum is 1: want 0 or more, and less than 1"},
		{BatchNorm{Momentum: -0.1}, "Momentum is -0.1"}, {BatchNorm{Momentum: nan}, "Momentum is NaN"},
		{BatchNorm{Epsilon: -1e-5}, "Epsilon is -1e-05"}, {BatchNorm{Epsilon: nan}, "Epsilon is NaN"}, {BatchNorm{Epsilon: inf}, "Epsilon is +Inf"},
		{MaxPool2D{Window: 3, Pad: 1}, ""},
		{MaxPool2D{}, "Window is 0: want 1 or more"}, {MaxPool2D{Window: -2}, "Window is -2"},
		{MaxPool2D{Window: 2, Stride: -1}, "Stride is -1: want 1 or more, or 0 for Window"},
		{MaxPool2D{Window: 2, Pad: -1}, "Pad is -1"},
		{MaxPool2D{Window: 2, Pad: 2}, "Pad is 2 with windows of 2"},
		{MaxPool2D{Window: 2, Gradient: 7}, "Gradient is 7: want one of models.Mask"},
		{LSTM{}, "Units is 0"}, {LSTM{Units: 1, Stateful: -1}, "Stateful is -1"},
		{GlobalAvgPool{}, ""}, {Flatten{}, ""}, {Activation{}, ""},
		{Residual{}, "Main has no layers"},
		{Residual{Skip: []Layer{Dense{Name: "a", Units: 1}}}, "Main has no layers"},
		{inner(Dense{Units: 1}), "Main: layer 1, a Dense, has no name"},
		{inner(MaxPool2D{Window: 2}, Flatten{}, Dropout{Rate: 0.5}, Flatten{}, Dense{Name: "a", Units: 1}), ""}, {inner(Flatten{}, Dropout{Rate: 2}), "Main: layer 2: Rate is 2"},
		{inner(Dense{Name: "a/b", Units: 1}), "without / or *"},
		{inner(Dense{Name: "a"}), "Main: layer a: Units is 0"},
		{inner(Dense{Name: "a", Units: 1}, Dense{Name: "a", Units: 1}), "layer 2 is called a, as one before it"},
		{Residual{Main: []Layer{Dense{Name: "a", Units: 1}}, Skip: []Layer{Dense{Name: "a", Units: 1}}}, "Skip: layer 1 is called a, as one before it"},
		{inner(nil), "Main: layer 1 is nil"},
		{inner(&Dense{Name: "a", Units: 1}), "Main: layer 1 is a *models.Dense: want it without &"},
		{inner(Residual{Name: "r", Main: []Layer{Dropout{Name: "d", Rate: 2}}}), "Main: layer r: Main: layer d: Rate is 2"},
		{Embedding{Units: 1}, "Vocab is 0: want 1 or more"}, {Embedding{Vocab: 1}, "Units is 0"}, {Positions{}, "Length is 0"},
		{LayerNorm{Epsilon: -1}, "Epsilon is -1"}, {RMSNorm{Epsilon: nan}, "Epsilon is NaN"}, {GroupNorm{}, "Groups is 0"}, {GroupNorm{Groups: 1, Epsilon: inf}, "Epsilon is +Inf"},
		{Attention{}, "Heads is 0"}, {Attention{Heads: 4, KVHeads: 3}, "KVHeads is 3: want a divisor of 4"}, {Attention{Heads: 1, Window: 2}, "Causal is not"},
		{Attention{Heads: 1, ALiBi: true}, "Causal is not"}, {Attention{Heads: 1, RoPE: -1}, "RoPE is -1"}, {Attention{Heads: 1, Dropout: 1}, "Dropout is 1"},
		{Attention{Heads: 1, RoPE: 2, Frequencies: []float64{1}}, "RoPE and Frequencies are set"}, {Attention{Heads: 1, QKNorm: RMSNorm{Epsilon: -1}}, "QKNorm: Epsilon is -1"}, {Attention{Heads: 1, NoBias: true, NoOutputBias: true}, "NoOutputBias is set, and NoBias"},
		{SoftCap{}, "Limit is 0: want more"}, {Embedding{Vocab: 1, Units: 1, Scale: -1}, "Scale is -1"},
		{FeedForward{Hidden: -1}, "Hidden is -1"}, {TransformerBlock{}, "Heads is 0"}, {TransformerBlock{Heads: 1, Hidden: -1}, "Hidden is -1"},
		{Repeat{Layer: Dense{Units: 1}}, "Times is 0"}, {Repeat{Times: 2}, "Layer is nil: want a layer"}, {Repeat{Times: 2, Layer: Dense{}}, "Units is 0"},
		{Conv3D{Channels: 1}, "Kernel is 0"}, {Conv3D{Channels: 2, Kernel: 1, Groups: 3}, "Groups is 3 with 2 Channels: want a divisor"}, {Conv2D{Channels: 1, Kernel: 1, Dilation: -1}, "Dilation is -1"}, {Conv1D{Channels: 3, Kernel: 1, Groups: 2}, "Groups is 2"},
		{MaxPool1D{}, "Window is 0"}, {MaxPool3D{Window: 2, Pad: 2}, "Pad is 2 with windows of 2"}, {AvgPool1D{Window: 1, Stride: -1}, "Stride is -1"}, {AvgPool3D{}, "Window is 0"}, {InstanceNorm{Epsilon: -1}, "Epsilon is -1"},
		{SpectralNorm{}, "Layer is nil"}, {SpectralNorm{Layer: LSTM{Units: 1}}, "Layer is a LSTM: want a Dense"}, {TimestepEncoding{Units: 3}, "Units is 3: want an even number"}, {TimestepEncoding{Units: 2, MaxPeriod: 1}, "MaxPeriod is 1"},
		{GRU{}, "Units is 0"}, {RNN{}, "Units is 0"}, {Bidirectional{}, "Layer is nil"}, {Bidirectional{Layer: LSTM{}}, "Units is 0"}, {Scan{}, "Cell is nil"},
		{Sequential{}, "number of Layers is 0"}, {Sequential{Layers: []Layer{Dense{Units: 1}}}, "Layers: layer 1, a Dense, has no name: inside of a Sequential"},
		{Concat{Branches: [][]Layer{nil}}, "Branches has 1: want two or more"}, {Concat{Branches: [][]Layer{nil, {Dense{Name: "a"}}}}, "Branches[1]: layer a: Units is 0"},
		{Conv1D{Kernel: 1}, "Channels is 0"}, {Conv1D{Channels: 1, Kernel: 1, Same: true, Causal: true}, "Same is set, and Causal leaves it without use"}, {Conv1D{Channels: 1, Kernel: 1, Dilation: -1}, "Dilation is -1"},
		{DepthwiseConv2D{}, "Kernel is 0"}, {ConvTranspose2D{Channels: 1, Kernel: 2, Stride: 3}, "Kernel is 2 with a Stride of 3"}, {ConvTranspose2D{Channels: 1, Kernel: 2, Pad: 2}, "Pad is 2 with a Kernel of 2"},
		{Bidirectional{Layer: LSTM{Units: 1, Stateful: 2}}, "holds an LSTM with Stateful"}, {inner(Residual{Name: "r", Main: []Layer{LSTM{Name: "l", Units: 1, Stateful: 2}}}), "holds an LSTM with Stateful"},
		{AvgPool2D{}, "Window is 0"}, {Tied{}, "Of is \"\": want the name of an Embedding"}, {Upsample2D{}, "Factor is 0"}, {Unflatten{}, "number of Dims is 0"}, {Unflatten{Dims: []int{4, -1}}, "Dims[1] is -1: want 1 or more"}, {LastStep{}, ""},
		{nil, "layer 1 is nil"}, {none, "layer 1 is a *models.Dense that is nil"},
		{&Dense{Units: 1}, "layer 1 is a *models.Dense: want it without &"},
	} {
		name, input := "layer", []int{4, 4, 1}
		if tt.layer != nil {
			name = reflect.TypeOf(tt.layer).String()
		}
		net := Net{Name: "net", Input: input, Layers: []Layer{tt.layer}}
		err := net.Check()
		if strings.Contains(tt.want, "(") { // an Init speaks when it is asked
			_, err = fit.New("net", net, fit.Config{}).Summary()
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s %+v: got %v, want %q", name, tt.layer, err, tt.want)
		}
	}
	one := []Layer{Dense{Units: 1}}
	for _, tt := range []struct {
		name string
		net  Net
		want string
	}{
		{"no layers", Net{Input: []int{1}}, "has no layers"},
		{"LoRA of rank -1", Net{Input: []int{1}, Layers: one, LoRA: LoRA{Rank: -1}}, "LoRA: Rank is -1"},
		{"LoRA of alpha -1", Net{Input: []int{1}, Layers: one, LoRA: LoRA{Rank: 1, Alpha: -1}}, "LoRA: Alpha is -1"},
		{"LoRA without a rank", Net{Input: []int{1}, Layers: one, LoRA: LoRA{Names: []string{"*"}}}, "LoRA: Rank is 0: want 1 or more"},
		{"negative side", Net{Input: []int{-1}, Layers: one}, "input of [-1]"},
		{"no side", Net{Input: []int{3, 0}, Layers: one}, "input of [3 0]"},
		{"sides that overflow", Net{Input: []int{1 << 40, 1 << 40}, Layers: one}, "input of"},
		{"ResNet of no blocks", ResNet("r", 1, 0), "stage 2 has 0 blocks"},
		{"ResNet of fewer", ResNet("r", -1), "stage 1 has -1 blocks"},
		{"MLP", MLP(0), "Units is 0"}, {"FCN", FCN(1, []int{2, -2}, 1), "Units is -2"}, {"FCN of no inputs", FCN(0, nil, 1), "input of [0]"},
		{"SineLSTM", SineLSTM(0, 2), "Units is 0"}, {"SineLSTM of no length", SineLSTM(1, 0), "input of [0 1]"}, {"DeepPose", DeepPose(0), "Units is 0"},
	} {
		if err := tt.net.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	for name, of := range map[string]Net{"images": {Input: []int{3, 2}, Layers: []Layer{AvgPool2D{Window: 1}}}, "sequences": {Input: []int{3}, Layers: []Layer{LSTM{Units: 1}}},
		"layer l is Stateful": {Input: []int{3, 2}, Function: func(scope *model.Scope, in Inputs) *graph.Node {
			return Call(scope, LSTM{Name: "l", Units: 1, Stateful: 2}, in["x"])
		}}} {
		if _, err := fit.New("net", of, fit.Config{}).Summary(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %s: got %v", name, err)
		}
	}
}

// TestEveryNumber holds that no number of any layer can be senseless without an error that
// names it.
func TestEveryNumber(t *testing.T) {
	layers := []any{Conv2D{Channels: 1, Kernel: 1}, Dense{Units: 1}, Dropout{}, BatchNorm{}, MaxPool2D{Window: 1}, LSTM{Units: 1}, Residual{Main: []Layer{Dense{Name: "d", Units: 1}}},
		Embedding{Vocab: 1, Units: 1}, Positions{Length: 1}, LayerNorm{}, RMSNorm{}, GroupNorm{Groups: 1}, Attention{Heads: 1}, FeedForward{}, TransformerBlock{Heads: 1},
		Repeat{Times: 1, Layer: Dense{Units: 1}}, GRU{Units: 1}, RNN{Units: 1}, Conv1D{Channels: 1, Kernel: 1}, DepthwiseConv2D{Kernel: 1}, ConvTranspose2D{Channels: 1, Kernel: 1}, AvgPool2D{Window: 1}, Upsample2D{Factor: 1}, Conv3D{Channels: 1, Kernel: 1}, AvgPool1D{Window: 1}, AvgPool3D{Window: 1}, MaxPool1D{Window: 1}, MaxPool3D{Window: 1}, InstanceNorm{}, TimestepEncoding{Units: 2}, SoftCap{Limit: 1},
		ColorJitter{Contrast: 0.5}, Cutout{Size: 1}, MixUp{}, RandomAffine{Shift: 0.1}, RandomCrop{Pad: 1}, Normalize{Mean: []float64{0}, Deviation: []float64{1}}}
	fieldtest.Numbers(t, layers, nil, []string{"Summary", "Row", "Convolution", "Attending", "ScoreTile", "Masking", "Input", "Cache", "LoRA"}, func(layer any) error {
		return Net{Name: "net", Input: []int{4, 4, 1}, Layers: []Layer{layer.(Layer)}}.Check()
	})
}

// TestNetsCheck holds that the nets of this package have no setting without use.
func TestNetsCheck(t *testing.T) {
	nets := []Net{SeedCNN(), LeNet5(), KerasCNN(), MLP(10), FCN(3, []int{2}, 1), Peaks(), SineLSTM(5, 4), ResNet152(), ResNet50(), DeepPose(14),
		{Name: "f", Function: func(_ *model.Scope, in Inputs) *graph.Node { return in["x"] }}}
	for _, n := range nets {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}
