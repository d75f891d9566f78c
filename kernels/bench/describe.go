package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/graph"

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
	Optimizer               string // sgd, adam or adadelta
	Settings                map[string]float64
	Batch, Examples, Epochs int      // epochs of one sample; 0: as many as take 0.3 s
	Ways                    []string // of training, such as "scan"; empty: all
	Tests                   int      // examples of a validation after each epoch; 0: steps alone
	Check                   string   // a folder with initial weights and one batch, whose loss is printed; "" for none
}

// layer is a layer of a description. What a kind does not have is left out.
type layer struct {
	Kind, Name                 string
	Act                        string  `json:",omitempty"`
	Units, Kernel, Stride, Pad int     `json:",omitempty"`
	Bias                       bool    `json:",omitempty"`
	Rate, Momentum, Epsilon    float64 `json:",omitempty"`
	Main, Skip                 []layer `json:",omitempty"`
}

// describe is the description of a case's net. Layers and optimizers that the peers do not
// know are an error.
func (c trainCase) describe() (d description, err error) {
	d = description{Name: c.name, Input: c.model.Input, Batch: c.batch, Examples: c.n, Epochs: c.epochs, Tests: c.tests}
	c.n = c.batch
	data := c.examples()
	_, d.Bytes = data.X.([]byte)
	loss := c.config.Loss
	if loss == nil {
		loss = losses.CrossEntropy{}
		if _, floats := data.Y.([]float32); floats {
			loss = losses.MSE{}
		}
	}
	d.Loss = loss.Title()
	switch o := c.config.Optimizer.(type) {
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
	default:
		return d, fmt.Errorf("%s: the peers have no optimizer %T", c.name, o)
	}
	d.Layers, err = layersOf(c.model.Listed().Layers, c.model.Names())
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
var acts = []namedAct{{"", nil}, {"relu", models.ReLU}, {"sigmoid", graph.Sigmoid}, {"tanh", graph.Tanh}}
