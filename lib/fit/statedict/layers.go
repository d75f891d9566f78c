package statedict

import (
	"maps"
	"slices"
	"strings"

	"gaiden/lib/models"
)

// list adds the rules of layers, one after the other.
func (all rules) list(layers []*models.Built, in flow) flow {
	for _, b := range layers {
		in = all.layer(b, in)
	}
	return in
}

// layer adds the rules of a layer, and is what it makes of in.
func (all rules) layer(b *models.Built, in flow) flow {
	if out, is := all.container(b, in); is {
		return out
	}
	if out, is := unweighted(b, in); is {
		return out
	}
	if out, is := all.composed(b, in); is {
		return out
	}
	return all.weighted(b, in)
}

// container adds the rules of the layers in one that has no variables of its own.
func (all rules) container(b *models.Built, in flow) (out flow, is bool) {
	switch l := b.Layer.(type) {
	case models.Sequential, models.Repeat:
		return all.list(b.Inner, in), true
	case models.Residual:
		n := len(l.Main)
		return all.list(b.Inner[:n], in).plus(all.list(b.Inner[n:], in)), true
	case models.Concat:
		at := 0
		for i, branch := range l.Branches {
			y := all.list(b.Inner[at:at+len(branch)], in)
			if at += len(branch); i > 0 {
				y = out.and(y)
			}
			out = y
		}
		return out, true
	case models.SpectralNorm: // has names of its own
		return rules{kept: map[string]rule{}}.layer(b.Inner[0], in), true
	}
	return flow{}, false
}

// unweighted is what a layer without variables makes of in.
func unweighted(b *models.Built, in flow) (out flow, is bool) {
	switch l := b.Layer.(type) {
	case models.Flatten:
		return in.vector(), true
	case models.Unflatten:
		return in.shaped(l.Dims), true
	case models.Activation, models.AvgPool2D, models.AvgPool3D, models.ColorJitter, models.Cutout, models.Dropout, models.Masking, models.MaxPool2D, models.MaxPool3D, models.MixUp,
		models.Normalize, models.RandomAffine, models.RandomCrop, models.RandomFlip, models.SoftCap, models.Upsample2D:
	case models.AvgPool1D, models.MaxPool1D:
		in = in.settled(channelsBefore)
	case models.FirstStep, models.LastStep, models.GlobalAvgPool, models.GlobalMaxPool, models.SinusoidalPositions:
		in = in.settled(channelsLast)
		in.channels = channelsLast
	case models.TimestepEncoding:
		return flow{dims: b.Out}, true
	default:
		return flow{}, false
	}
	in.dims = b.Out
	return in, true
}

// composed adds the rules of a layer whose variables are those of several layers of PyTorch.
func (all rules) composed(b *models.Built, in flow) (out flow, is bool) {
	out = flow{dims: b.Out}
	switch l := b.Layer.(type) {
	case models.GRU, models.LSTM, models.RNN:
		in = in.settled(channelsLast)
		all.recurrent(l, b.Scope, b.Scope, "", in)
	case models.Bidirectional: // of other layers PyTorch has none
		in = in.settled(channelsLast)
		all.recurrent(l.Layer, b.Scope+"/forward", b.Scope, "", in)
		all.recurrent(l.Layer, b.Scope+"/backward", b.Scope, "_reverse", in)
	case models.Attention:
		in = in.settled(channelsLast)
		all.parts(b, in, models.Dense{}, "query", "key", "value", "output")
		all.parts(b, in, models.LayerNorm{}, "query_norm", "key_norm")
	case models.FeedForward:
		in = in.settled(channelsLast)
		all.parts(b, in, models.Dense{}, "up", "gate")
		if len(in.dims) == 1 {
			in.order = nil
		}
		out.order = all.parts(b, in, models.Dense{}, "down").order
	case models.TransformerBlock:
		in = in.settled(channelsLast)
		all.parts(b, in, models.LayerNorm{}, "norm1", "norm2")
		all.parts(b, in, models.Attention{}, "attention")
		all.parts(b, in, models.FeedForward{}, "feedforward")
	default:
		return flow{}, false
	}
	return out, true
}

// weighted adds the rules of a layer with variables, and is what it makes of in.
func (all rules) weighted(b *models.Built, in flow) flow {
	out, vector := flow{dims: b.Out}, len(in.dims) == 1
	put := func(own, theirs string, order []int, axes ...*features) {
		all.put(rule{own: b.Scope + "/" + own, layer: b.Scope, name: theirs, order: order, takes: in.order, features: axes})
	}
	kernel := func(order ...int) {
		put("weights", "weight", order)
		put("biases", "bias", nil)
	}
	scale := func() {
		put("scale", "weight", nil, in.order)
		put("offset", "bias", nil, in.order)
	}
	kept := func() flow { return flow{b.Out, in.order, in.channels} }
	switch b.Layer.(type) {
	case models.Dense:
		in = in.settled(channelsLast)
		if vector {
			out.order = &features{open: true}
		}
		put("weights", "weight", []int{1, 0}, in.order, out.order)
		put("biases", "bias", nil, out.order)
	case models.BatchNorm:
		in = in.settled(channelsBefore)
		scale()
		put("mean", "running_mean", nil, in.order)
		put("variance", "running_var", nil, in.order)
		return kept()
	case models.LayerNorm, models.RMSNorm:
		in = in.settled(channelsLast)
		scale()
		return kept()
	case models.GroupNorm, models.InstanceNorm:
		in = in.settled(channelsBefore)
		if vector {
			in.order = alike(in.order, nil)
		}
		scale()
		return kept()
	case models.PReLU:
		put("weights", "weight", nil, in.order)
		return kept()
	case models.Conv1D:
		in = in.settled(channelsBefore)
		kernel(2, 1, 0)
		out.channels = channelsBefore
	case models.Conv2D:
		kernel(3, 2, 0, 1)
	case models.DepthwiseConv2D: // a Conv2d with a group for each channel
		kernel(2, -1, 0, 1)
	case models.ConvTranspose2D:
		kernel(0, 3, 1, 2)
	case models.Conv3D:
		kernel(4, 3, 0, 1, 2)
	case models.Embedding:
		in.order = alike(in.order, nil)
		put("weights", "weight", nil)
		out.order = in.order
	case models.Positions:
		in = in.settled(channelsLast)
		put("weights", "weight", nil)
	case models.Tied:
		if in = in.settled(channelsLast); vector {
			in.order = alike(in.order, nil)
		}
		put("biases", "bias", nil)
	default: // a layer of your own, which may do anything
		if in = in.settled(channelsLast); vector {
			in.order = alike(in.order, nil)
		}
		if in.order.unlike() {
			out.order = in.order
		}
	}
	return out
}

// parts adds the rules of layers that are parts of one, and is what the last of them makes of in.
func (all rules) parts(of *models.Built, in flow, l models.Layer, names ...string) (out flow) {
	for _, name := range names {
		out = all.layer(&models.Built{Layer: l, Scope: of.Scope + "/" + name}, in)
	}
	return out
}

// recurrent adds the rules of a layer with variables in a scope, which nn.LSTM and the like have
// with an end to their names.
func (all rules) recurrent(l models.Layer, scope, layer, end string, in flow) {
	put := func(own, theirs string, order []int) {
		_, one := l.(models.LSTM)
		all.put(rule{own: scope + "/" + own, layer: layer, name: theirs + "_l0" + end, order: order, takes: in.order, second: one && order == nil})
	}
	switch l.(type) {
	case models.LSTM:
		put("weights", "weight_ih", []int{1, 0})
		put("recurrent", "weight_hh", []int{1, 0})
		put("biases", "bias_ih", nil)
	case models.GRU, models.RNN:
		put("weights", "weight_ih", []int{1, 0})
		put("biases", "bias_ih", nil)
		put("recurrent/weights", "weight_hh", []int{1, 0})
		put("recurrent/biases", "bias_hh", nil)
	}
}

// put adds a rule with its layer's name before the array's.
func (all rules) put(r rule) {
	r.name = strings.ReplaceAll(r.layer, "/", ".") + "." + r.name
	all.kept[r.own] = r
}

// settle leaves out layers that PyTorch's net has no weights for: they keep our names.
func (all rules) settle() {
	unlike := map[string]bool{}
	for _, r := range all.kept {
		if r.takes.unlike() || slices.ContainsFunc(r.features, (*features).unlike) {
			unlike[r.layer] = true
		}
	}
	maps.DeleteFunc(all.kept, func(_ string, r rule) bool { return unlike[r.layer] })
}
