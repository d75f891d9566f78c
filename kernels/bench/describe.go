package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// description is a net and its training as the peers' scripts read them: what Gaiden,
// JAX and PyTorch train is written once.
type description struct {
	Name                    string
	Input                   []int
	Bytes                   bool // examples are uint8, to be divided by 255
	Layers                  []layer
	Loss                    string // cross entropy, mean squared error or visibility
	Optimizer               string // sgd, adam, adamw or adadelta
	Settings                map[string]float64
	Batch, Examples, Epochs int      // epochs of one sample; 0: as many as take 0.3 s
	Ways                    []string // of training, such as "scan"; empty: all
	Tests                   int      // examples of a validation after each epoch; 0: steps alone
	Check                   string   // a folder with initial weights and examples, on which losses are printed; "" for none
	Curve                   int      // of the steps of so many batches there, trained in order; 0: of one batch, before any step

	Inputs []input // of a net with several; else Input is the only one's
	BF16   bool    // matrices are multiplied in bfloat16, weights are float32
	Vocab  int     // examples are ids from 0 to Vocab-1; 0: they are numbers
	Same   bool    // the targets are the examples
	Net    string  // a function that the peers have under this name, before the layers or in their place
	Inner  []layer // layers that this function takes
	Frozen string  // the prefix of weights that do not change, as PyTorch names them
}

// input is one of several.
type input struct {
	Name  string
	Dims  []int
	Vocab int // as in description
}

// layer is a layer of a description. What a kind does not have is left out.
type layer struct {
	Kind, Name                 string
	Act                        string  `json:",omitempty"`
	Units, Kernel, Stride, Pad int     `json:",omitempty"`
	Vocab, Heads               int     `json:",omitempty"`
	Of                         string  `json:",omitempty"`
	Dims                       []int   `json:",omitempty"`
	Bias, Causal               bool    `json:",omitempty"`
	Rate, Momentum, Epsilon    float64 `json:",omitempty"`
	Main, Skip                 []layer `json:",omitempty"`
}

// describe is the description of a case's net. Layers and optimizers that the peers do not
// know are an error.
func (c trainCase) describe() (d description, err error) {
	d = description{Name: c.name, Input: c.model.Input, Batch: c.batch, Examples: c.n, Epochs: c.epochs, Tests: c.tests, BF16: c.config.BF16}
	c.n = c.batch
	data := c.examples()
	_, d.Bytes = data.X.([]byte)
	d.Same, d.Net = data.Y == fit.SameX, c.peerNet
	for _, in := range c.model.AllInputs() {
		d.Inputs = append(d.Inputs, input{in.Name, append([]int{}, in.Dims...), in.Vocab})
	}
	if len(d.Inputs) == 1 {
		d.Inputs = nil
	}
	if d.Inner, err = layersOf(c.inner, models.Net{Layers: c.inner}.Names()); err != nil {
		return d, err
	}
	d.Vocab = cmp.Or(c.vocab, c.model.Vocab())
	loss := c.config.Loss
	if loss == nil {
		loss = losses.CrossEntropy{}
		if _, floats := data.Y.([]float32); floats || d.Same {
			loss = losses.MSE{}
		}
	}
	d.Loss = loss.Title()
	optimizer := c.config.Optimizer
	if g, is := optimizer.(optim.Groups); is && len(g.Groups) == 1 && g.Groups[0].Frozen {
		optimizer, d.Frozen = g.Optimizer, strings.ReplaceAll(strings.TrimSuffix(g.Groups[0].Names[0], "*"), "/", ".")
	}
	switch o := optimizer.(type) {
	case optim.SGD:
		d.Optimizer, d.Settings = "sgd", map[string]float64{"rate": o.Rate(), "momentum": o.Momentum, "nesterov": 0, "decay": o.WeightDecay}
		if o.Nesterov {
			d.Settings["nesterov"] = 1
		}
	case optim.AdaDelta:
		d.Optimizer, d.Settings = "adadelta", map[string]float64{"rate": o.Rate(), "rho": cmp.Or(o.Rho, 0.9), "epsilon": cmp.Or(o.Epsilon, 1e-6), "decay": o.WeightDecay}
	case optim.Adam, nil:
		a, _ := o.(optim.Adam)
		d.Optimizer, d.Settings = "adam", map[string]float64{"rate": a.Rate(), "beta1": cmp.Or(a.Beta1, 0.9), "beta2": cmp.Or(a.Beta2, 0.999), "epsilon": cmp.Or(a.Epsilon, 1e-8), "decay": a.WeightDecay}
	case optim.AdamW:
		d.Optimizer, d.Settings = "adamw", map[string]float64{"rate": o.Rate(), "beta1": cmp.Or(o.Beta1, 0.9), "beta2": cmp.Or(o.Beta2, 0.999), "epsilon": cmp.Or(o.Epsilon, 1e-8), "decay": cmp.Or(o.WeightDecay, 0.01)}
	default:
		return d, fmt.Errorf("%s: the peers have no optimizer %T", c.name, o)
	}
	switch {
	case c.config.Step != nil && c.peerNet != "": // the function does it all
		return d, nil
	case c.peerNet != "":
		d.Layers, err = layersOf(c.model.Layers, models.Net{Layers: c.model.Layers}.Names())
	default:
		d.Layers, err = layersOf(c.model.Listed().Layers, c.model.Names())
	}
	return d, err
}

func layersOf(list []models.Layer, names []string) (all []layer, err error) {
	for i, one := range list {
		var l layer
		switch m := one.(type) {
		case models.Flatten:
			l.Kind = "flatten"
		case models.Activation:
			l.Kind = "activation"
			err = actOf(m.Act, &l)
		case models.Dense:
			l = layer{Kind: "dense", Units: m.Units, Bias: !m.NoBias}
			err = actOf(m.Act, &l)
		case models.Conv2D:
			l = layer{Kind: "conv", Units: m.Channels, Kernel: m.Kernel, Stride: max(1, m.Stride), Pad: m.Pad, Bias: !m.NoBias}
			if m.Dilation > 1 || m.Groups > 1 {
				err = fmt.Errorf("the peers have no dilation and no groups, as layer %s has", m.Name)
			}
			if m.Same {
				l.Pad = m.Kernel / 2
				if l.Stride > 1 || m.Kernel%2 == 0 {
					err = fmt.Errorf("the peers have no Same with a stride of %d and a kernel of %d", l.Stride, m.Kernel)
				}
			}
			err = cmp.Or(err, actOf(m.Act, &l))
		case models.BatchNorm:
			l = layer{Kind: "norm", Momentum: cmp.Or(m.Momentum, 0.9), Epsilon: cmp.Or(m.Epsilon, 1e-5)}
			err = actOf(m.Act, &l)
		case models.MaxPool2D:
			l = layer{Kind: "pool", Kernel: m.Window, Stride: cmp.Or(m.Stride, m.Window), Pad: m.Pad}
		case models.GlobalAvgPool:
			l.Kind = "mean"
		case models.Dropout:
			l = layer{Kind: "dropout", Rate: m.Rate}
		case models.LSTM:
			l = layer{Kind: "lstm", Units: m.Units}
		case models.GRU:
			l = layer{Kind: "gru", Units: m.Units}
		case models.Bidirectional:
			l.Kind = "bidirectional"
			l.Main, err = layersOf([]models.Layer{m.Layer}, []string{""})
		case models.LastStep:
			l.Kind = "last"
		case models.Embedding:
			l = layer{Kind: "embedding", Vocab: m.Vocab, Units: m.Units}
		case models.Positions:
			l = layer{Kind: "positions", Units: m.Length}
		case models.Tied:
			l = layer{Kind: "tied", Of: m.Of, Bias: m.Biases}
		case models.LayerNorm:
			l = layer{Kind: "layernorm", Epsilon: cmp.Or(m.Epsilon, 1e-5)}
		case models.Unflatten:
			l = layer{Kind: "unflatten", Dims: m.Dims}
		case models.Sequential:
			l.Kind = "sequential"
			l.Main, err = layersOf(m.Layers, models.Net{Layers: m.Layers}.Names())
		case models.Repeat:
			l.Kind = "sequential"
			for i := range m.Times {
				one, wrong := layersOf([]models.Layer{m.Layer}, []string{fmt.Sprint(i)})
				l.Main, err = append(l.Main, one...), cmp.Or(err, wrong)
			}
		case models.TransformerBlock:
			l, err = blockOf(m)
		case models.Residual:
			l.Kind = "residual"
			var wrong [3]error
			l.Main, wrong[0] = layersOf(m.Main, models.Net{Layers: m.Main}.Names())
			l.Skip, wrong[1] = layersOf(m.Skip, models.Net{Layers: m.Skip}.Names())
			wrong[2] = actOf(m.Act, &l)
			err = cmp.Or(wrong[:]...)
		default:
			err = fmt.Errorf("the peers have no layer %T", one)
		}
		if err != nil {
			return nil, err
		}
		l.Name = names[i]
		all = append(all, l)
	}
	return all, nil
}

// blockOf is a transformer block: two sums of their input and what layers make of it.
func blockOf(m models.TransformerBlock) (layer, error) {
	plain := models.TransformerBlock{Name: m.Name, Heads: m.Heads, Causal: m.Causal, Dropout: m.Dropout, Init: m.Init, Hidden: m.Hidden}
	if m.Act.Is(models.GELU) {
		m.Act = nil
	}
	if !reflect.DeepEqual(m, plain) || m.Dropout > 0 {
		return layer{}, fmt.Errorf("the peers have no transformer block but GPT-2's, without dropout")
	}
	norm := func(name string) layer { return layer{Kind: "layernorm", Name: name, Epsilon: 1e-5} }
	return layer{Kind: "sequential", Main: []layer{
		{Kind: "residual", Name: "_1", Main: []layer{norm("norm1"), {Kind: "attention", Name: "attention", Heads: m.Heads, Causal: m.Causal}}},
		{Kind: "residual", Name: "_2", Main: []layer{norm("norm2"), {Kind: "feedforward", Name: "feedforward", Units: m.Hidden}}},
	}}, nil
}

// actOf sets a layer's activation.
func actOf(act models.Act, l *layer) error {
	i := slices.IndexFunc(acts, func(a namedAct) bool { return a.act.Is(act) })
	if i < 0 {
		return fmt.Errorf("the peers have no such activation: want one of %d that package bench knows", len(acts))
	}
	l.Act = acts[i].name
	return nil
}

type namedAct struct {
	name string
	act  models.Act
}

// acts are the activations that the peers have; nil is the identity.
var acts = []namedAct{{"", nil}, {"relu", models.ReLU}, {"sigmoid", graph.Sigmoid}, {"tanh", graph.Tanh}, {"silu", models.SiLU}, {"gelu", models.GELU}, {"leakyrelu", models.LeakyReLU}}
