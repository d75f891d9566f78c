package fused

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Plan is how a training step of a net is divided into fused operations.
//
// A Dense layer is one operation each way, and so is a Conv2D of few channels,
// together with the MaxPool2D of 2×2 behind it. An activation whose gradient needs what
// went into it, such as SiLU, is an operation of its own, for XLA. The last layer is a Dense
// without activation, and becomes the head: with cross entropy of labels, loss and gradient
// are in its kernel, and a Dense right before it begins its product, so that head and
// gradient below are one kernel; any other loss is GoMLX's ops behind it. Every other layer
// stays in GoMLX's ops between them.
type Plan struct {
	net   models.Net
	parts []part
}

// part is one step of a plan: one layer, or a convolution and its pooling.
type part struct {
	layer  int // the first
	name   string
	kind   string // flatten, dense, conv, head, activation or plain
	act    kernels.Act
	bias   bool
	size   int // of a convolution's kernels
	same   bool
	pad    int
	pool   bool
	reason string // why it is plain
}

// NewPlan divides a net. Its error says why there is no plan for it at all.
func NewPlan(net models.Net) (*Plan, error) {
	net = net.Listed()
	if net.Adapted("") {
		return nil, fmt.Errorf("fused: %s: it has LoRA or int8 weights, for which there are no kernels", net.Name)
	}
	p := &Plan{net: net}
	names := net.Names()
	axes := 1 + len(net.Input) // of what a layer gets
	for i := 0; i < len(net.Layers); i++ {
		q := part{layer: i, name: names[i], kind: "plain"}
		switch l := net.Layers[i].(type) {
		case models.Flatten:
			q.kind = "flatten"
			axes = 2
		case models.GlobalAvgPool:
			axes = 2
			q.reason = "no kernel for GlobalAveragePooling"
		case models.Dense:
			act, known := l.Act.Activation()
			q.act, q.bias = act, !l.NoBias
			switch {
			case !known:
				q.reason = "an activation without a kernel"
			case axes != 2:
				q.reason = "no kernel for more axes than two"
			default:
				q.kind = "dense"
			}
		case models.Conv2D:
			act, known := l.Act.Activation()
			q.act, q.size, q.same, q.pad, q.bias = act, l.Kernel, l.Same, l.Pad, !l.NoBias
			switch {
			case !known:
				q.reason = "an activation without a kernel"
			case l.Stride > 1 || l.Dilation > 1 || l.Groups > 1 || l.NoBias || l.Kernel > 7 || l.Same && l.Kernel%2 == 0:
				q.reason = "a stride, dilation, groups, no bias, or a size without a kernel"
			default:
				q.kind = "conv"
			}
			if i+1 < len(net.Layers) && q.kind == "conv" && act.FromResult() {
				if m, is := net.Layers[i+1].(models.MaxPool2D); is && m.Window == 2 && m.Stride <= 2 && m.Stride != 1 && m.Pad == 0 {
					q.pool = true
					i++
				}
			}
		default:
			_, kind := net.Layers[i].Title()
			q.reason = "no kernel for " + kind
			switch kind {
			case "Dropout", "BatchNormalization", "Activation", "MaxPooling2D", "LSTM":
			default:
				axes = 0 // nobody knows
			}
		}
		if (q.kind == "dense" || q.kind == "conv") && !q.act.FromResult() {
			after := part{layer: i, name: q.name, kind: "activation", act: q.act}
			q.act = kernels.Identity
			p.parts = append(p.parts, q, after)
			continue
		}
		p.parts = append(p.parts, q)
	}
	if n := len(p.parts); n == 0 || p.parts[n-1].kind != "dense" || p.parts[n-1].act != kernels.Identity {
		return nil, fmt.Errorf("fused: %s: its last layer is not a Dense of [n inputs] without activation: train it without kernels", net.Name)
	}
	p.parts[len(p.parts)-1].kind = "head"
	return p, nil
}

// HasKernel says whether a layer of that name is one of those with kernels. A convolution of
// many channels may still be XLA's.
func (p *Plan) HasKernel(layer string) bool {
	return slices.ContainsFunc(p.parts, func(q part) bool {
		return q.name == layer && (q.kind == "dense" || q.kind == "conv" || q.kind == "head")
	})
}

// String lists the layers, and what becomes of each.
func (p *Plan) String() string {
	var b strings.Builder
	for _, q := range p.parts {
		what := q.kind
		if q.pool {
			what += " with pooling"
		}
		if q.kind == "plain" {
			what = "GoMLX's ops: " + q.reason
		}
		fmt.Fprintf(&b, "%-16s %s\n", q.name, what)
	}
	return b.String()
}

// Step is what a training step is made of.
type Step struct {
	Ops     Ops
	Rule    kernels.Rule
	Rate, T *Node // learning rate and number of the step from 1, float32 scalars
	X       *Node // [n input…]
	Labels  *Node // [n] int32; nil: there is a Loss
	// Loss is the loss of each example, [n] float32, for what the net returns, [n out] float32;
	// hit is 1 for each that is right and 0 for the others, or nil for numbers. The loss of the
	// step is the mean. nil: it is cross entropy of the labels.
	Loss func(out *Node) (loss, hit *Node)
	// State is a weight, float32, and its moments, by its name: conv/weights.
	State func(name string) []*Node
	// Plain builds layer i of the net in GoMLX's ops on x, and returns the
	// names and values of the weights that it used.
	Plain func(i int, x *Node) (y *Node, names []string, weights []*Node)
	// Journal gets the step's row, and is then as the next step wants it.
	Journal *Journal
	// Mark, if not nil, is told the label of what is made next.
	Mark func(label string)
}

// passed is what a part leaves for its way back.
type passed struct {
	x, y, winner *Node
	names        []string
	weights      []*Node
}

// Train writes a step. It returns the new states by name.
func (p *Plan) Train(s Step) (state map[string][]*Node) {
	u := &updates{step: s, state: map[string][]*Node{}}
	o := s.Ops
	var loss, hit *Node
	var last *splitHead // the layer before the head
	var ended *Node     // the gradient below the head
	mark := func(label string) {
		if s.Mark != nil {
			s.Mark(label)
		}
	}
	parts := slices.Clone(p.parts)
	left := make([]passed, len(parts))
	x := to(s.X, o.Compute)
	var g *Node
	for i := range parts {
		q := &parts[i]
		mark(q.name + "/forward")
		left[i].x = x
		if q.covers(x) {
			q.kind = "dense"
			left[i].y = Reshape(o.layer(rows(x), s.weights(*q)[0], q.biases(s), q.act), x.Shape().Dimensions[0], 1, 1, -1)
			x = left[i].y
			continue
		}
		switch q.kind {
		case "flatten":
			x = Reshape(x, x.Shape().Dimensions[0], x.Shape().Size()/x.Shape().Dimensions[0])
		case "dense":
			w, b := s.weights(*q)[0], q.biases(s)
			if i+1 < len(parts) && parts[i+1].kind == "head" && s.Loss == nil {
				if last = o.startHead(x, w, b, q.act, s.weights(parts[i+1])[0], parts[i+1].bias); last != nil {
					x = last.y
					break
				}
			}
			x = o.layer(x, w, b, q.act)
		case "conv":
			if !q.hasKernel(o, x, s) {
				q.kind = "plain"
				if i+1 < len(parts) && parts[i+1].kind == "activation" {
					parts[i+1].act = kernels.Identity // the layer has its own
				}
				x = s.plain(*q, x, &left[i])
				break
			}
			x, left[i].winner = o.Conv(q.convolution(), x, s.State(q.name + "/weights")[0], q.biases(s))
		case "head":
			mark("loss/forward")
			w, b := s.weights(*q)[0], q.biases(s)
			if s.Loss != nil {
				loss, hit, g = s.end(x, w, b)
				break
			}
			if last != nil {
				loss, hit, g, ended = o.finishHead(last, w, b, s.Labels)
				break
			}
			loss, hit, g = o.Head(x, w, b, s.Labels)
		case "activation":
			x = activate(q.act, x)
		default:
			x = s.plain(*q, x, &left[i])
		}
		left[i].y = x
	}
	for i := len(parts) - 1; i >= 0; i-- {
		q := parts[i]
		mark(q.name + "/backward")
		var below *Node // the gradient of x, before what made it
		var made kernels.Act
		if i > 0 {
			made = madeBy(parts[:i])
		}
		more := trains(parts[:i], left)
		switch q.kind {
		case "flatten":
			below = Reshape(g, left[i].x.Shape().Dimensions...)
		case "activation":
			x := left[i].x
			below = activations.BackFrom(gomlx.Ops, q.act, to(g, x.DType()), x)
		case "dense", "head":
			x := left[i].x
			g := Reshape(g, x.Shape().Dimensions[0], -1)
			switch {
			case more && q.kind == "head" && ended != nil:
				below = ended
			case more:
				below = Reshape(o.LinearInput(g, s.weights(q)[0], rows(x), made), x.Shape().Dimensions...)
			}
			u.linear(q, rows(x), g)
		case "conv":
			if more {
				below = o.ConvInput(q.convolution(), g, left[i].winner, s.State(q.name + "/weights")[0], left[i].x, made)
			}
			u.conv(q, left[i].x, g, left[i].winner)
		default:
			below = s.back(left[i], g, more, made, u.state)
		}
		if below != nil && q.kind != "flatten" && q.kind != "activation" {
			u.after = append(u.after, below)
		}
		if !more {
			break
		}
		g = below
	}
	mark(s.Rule.Name() + "/update")
	u.all(loss, hit)
	return u.state
}

// end is Head for a loss of the step's own: the last layer is a kernel, and the loss and its
// gradient are GoMLX's ops.
func (s Step) end(x, w, bias *Node) (loss, hit, g *Node) {
	out := Identity(to(s.Ops.layer(x, w, bias, kernels.Identity), dtypes.Float32))
	loss, hit = s.Loss(out)
	return loss, hit, to(gradient.Final(ReduceAllMean(loss), out)[0], s.Ops.Compute)
}

// covers says whether a convolution's kernels are as large as its images, so
// that it is a dense layer of their pixels.
func (q part) covers(x *Node) bool {
	d := x.Shape().Dimensions
	return q.kind == "conv" && !q.pool && q.size == d[1] && q.size == d[2] && q.pad == 0 && !q.same
}

func rows(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	return Reshape(x, n, x.Shape().Size()/n)
}

// weights are those of a dense layer, and their moments, as [in out].
func (s Step) weights(q part) []*Node {
	l := slices.Clone(s.State(q.name + "/weights"))
	for i, w := range l {
		d := w.Shape().Dimensions
		l[i] = Reshape(w, w.Shape().Size()/d[len(d)-1], d[len(d)-1])
	}
	return l
}

// hasKernel says whether a convolution of x has a kernel. Without one it is a layer like
// others without, which the lowering knows how to compute best.
func (q part) hasKernel(o Ops, x *Node, s Step) bool {
	c := q.convolution()
	_, is := choose(o, kernels.Conv{Geometry: c.geometry(x, s.State(q.name + "/weights")[0]), X: x.DType(), Y: o.Compute, Compute: o.Compute, Act: c.Act})
	return is
}

// plain builds a layer without a kernel, and the pooling behind it that belongs to its part.
func (s Step) plain(q part, x *Node, left *passed) *Node {
	x = Identity(x)
	left.x = x
	var y *Node
	y, left.names, left.weights = s.Plain(q.layer, x)
	if q.pool {
		y, _, _ = s.Plain(q.layer+1, y)
	}
	return y
}

// back is the backward pass through a layer without a kernel: the gradient of its
// input, and new states of its weights.
func (s Step) back(left passed, g *Node, more bool, made kernels.Act, state map[string][]*Node) *Node {
	wrt := left.weights
	if more {
		wrt = append(wrt[:len(wrt):len(wrt)], left.x)
	}
	if len(wrt) == 0 {
		return nil
	}
	gradients := gradient.Final(ReduceAllSum(Mul(left.y, StopGradient(to(g, left.y.DType())))), wrt...)
	for k, name := range left.names {
		state[name] = gomlx.Update(s.Rule, s.Rate, s.T, s.State(name), to(gradients[k], dtypes.Float32))
	}
	if !more {
		return nil
	}
	return slope(made, gradients[len(left.names)], left.x)
}

// madeBy is the activation at the end of what some parts make; the gradient there is taken
// through it by whoever computes it.
func madeBy(parts []part) kernels.Act {
	for _, q := range slices.Backward(parts) {
		switch q.kind {
		case "flatten":
		case "dense", "conv":
			return q.act
		default:
			return kernels.Identity
		}
	}
	return kernels.Identity
}

// trains says whether some of the parts have weights.
func trains(parts []part, left []passed) bool {
	for k, q := range parts {
		if q.kind == "dense" || q.kind == "conv" || len(left[k].weights) > 0 {
			return true
		}
	}
	return false
}

// biases are a layer's, or nil.
func (q part) biases(s Step) *Node {
	if b := q.biasState(s); b != nil {
		return b[0]
	}
	return nil
}

func (q part) biasState(s Step) []*Node {
	if !q.bias {
		return nil
	}
	return s.State(q.name + "/biases")
}

func (q part) convolution() Convolution {
	c := Convolution{Pad: q.pad, Pool: q.pool, Act: q.act}
	if q.same {
		c.Pad = (q.size - 1) / 2
	}
	return c
}
