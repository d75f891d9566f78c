package main

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/models"
)

// fill says what an input starts with.
type fill int

const (
	normal   fill = iota // deviation 1
	small                // deviation 0.05: weights
	positive             // 0 to 0.01: second moments
	classes              // labels below limit
	number               // the scalar limit
	zero
)

// input is one parameter of a case.
type input struct {
	shape shapes.Shape
	fill  fill
	limit float64
}

// operation is something to be compared and timed.
type operation struct {
	name  string
	in    []input
	bf16  bool
	limit float64         // for the error of outputs; default: 2e-3, or 2e-2 in bfloat16
	loose map[int]float64 // a limit for the error of an output that has its own
	build func(o fused.Ops, in []*Node) []*Node
	// reference, if not nil, is another way to the same outputs, without
	// kernels; default: build.
	reference func(o fused.Ops, in []*Node) []*Node
	// chain maps outputs to the inputs whose place they take at the next turn.
	chain map[int]int
	// poke is the input that ties repetitions together; -1 is none.
	poke int
	// prepare makes what reference needs in a graph, outside of loops.
	prepare func(g *Graph)
	// op is the kernel, where its tilings can be tried; nil if there are
	// several.
	op kernels.Op
	// bytes and flops are what one turn moves and computes at least.
	bytes, flops float64
}

func (c operation) shapes() []shapes.Shape {
	l := make([]shapes.Shape, len(c.in))
	for i, x := range c.in {
		l[i] = x.shape
	}
	return l
}

// kind is the type of activations of a case.
func kind(bf16 bool) dtypes.DType {
	if bf16 {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

func word(bf16 bool) string {
	if bf16 {
		return "bf16"
	}
	return "f32"
}

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

// size is the size of a dense layer.
type size struct{ n, in, out int }

func (s size) String() string { return fmt.Sprintf("%d×%d→%d", s.n, s.in, s.out) }

// linear is a layer forwards.
func linear(s size, act kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	return operation{
		name: fmt.Sprintf("linear %s %s %s", s, act, word(bf16)), bf16: bf16,
		in: []input{{shape: shapes.Make(k, s.n, s.in)}, {shape: f32(s.in, s.out), fill: small}, {shape: f32(s.out)}},
		build: func(o fused.Ops, in []*Node) []*Node {
			return []*Node{o.Linear(in[0], in[1], in[2], act)}
		},
		poke:  1,
		op:    kernels.Linear{Batch: s.n, In: s.in, Out: s.out, X: k, Y: k, Compute: k, Act: act},
		flops: 2 * float64(s.n*s.in*s.out), bytes: 4 * float64(s.in*s.out+s.n*s.in+s.n*s.out),
	}
}

// gradient is a layer's gradient as GoMLX derives it from the op.
func gradient(s size, act kernels.Act, bf16 bool) operation {
	c := linear(s, act, bf16)
	c.name = "gradient of " + c.name
	if act == kernels.ReLU {
		c.limit = 3e-2 // where a sum is nearly 0, TF32 decides whether it counts
	}
	c.op = nil
	c.in = append(c.in, input{shape: shapes.Make(kind(bf16), s.n, s.out)})
	c.build = func(o fused.Ops, in []*Node) []*Node {
		y := o.Linear(in[0], in[1], in[2], act)
		loss := ReduceAllSum(ConvertDType(Mul(y, ConvertDType(in[3], y.DType())), dtypes.Float32))
		return Gradient(loss, in[0], in[1], in[2])
	}
	return c
}

// linearInput is a layer backwards to its input.
func linearInput(s size, act kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	op := kernels.LinearInput{Batch: s.n, In: s.in, Out: s.out, G: k, D: k, Compute: k, Act: act}
	if act != kernels.Identity {
		op.X = k
	}
	return operation{
		name: fmt.Sprintf("input gradient %s %s %s", s, act, word(bf16)), bf16: bf16,
		in: []input{{shape: shapes.Make(k, s.n, s.out)}, {shape: f32(s.in, s.out), fill: small}, {shape: shapes.Make(k, s.n, s.in)}},
		build: func(o fused.Ops, in []*Node) []*Node {
			return []*Node{o.LinearInput(in[0], in[1], in[2], act)}
		},
		poke:  1,
		op:    op,
		flops: 2 * float64(s.n*s.in*s.out), bytes: 4 * float64(s.in*s.out+2*s.n*s.in+s.n*s.out),
	}
}

// linearUpdate is a layer's step.
func linearUpdate(s size, rule kernels.Rule, bf16 bool) operation {
	k := kind(bf16)
	c := operation{
		name: fmt.Sprintf("update %s %s %s", s, rule.Name(), word(bf16)), bf16: bf16,
		in:    []input{{shape: shapes.Make(k, s.n, s.in)}, {shape: shapes.Make(k, s.n, s.out), fill: small}},
		chain: map[int]int{},
		op:    kernels.LinearUpdate{Batch: s.n, In: s.in, Out: s.out, X: k, G: k, Compute: k, Rule: rule},
		flops: 2 * float64(s.n*s.in*s.out), bytes: 4 * (float64(2*(1+rule.Moments())*s.in*s.out) + float64(s.n*(s.in+s.out))),
	}
	each := 1 + rule.Moments()
	for range 2 {
		dims := []int{s.in, s.out}
		if len(c.in) > 2 {
			dims = dims[1:]
		}
		for i := range each {
			c.chain[len(c.in)-2] = len(c.in)
			c.in = append(c.in, input{shape: f32(dims...), fill: [...]fill{small, small, positive}[i]})
		}
	}
	if _, is := rule.(kernels.AdaDelta); is { // both moments are means of squares
		c.in[3].fill, c.in[3+each].fill = positive, positive
	}
	c.in = append(c.in, input{shape: f32(), fill: number, limit: 0.001}, input{shape: f32(), fill: number, limit: 3})
	c.build = func(o fused.Ops, in []*Node) []*Node {
		w, b := o.LinearUpdate(in[0], in[1], in[2:2+each], in[2+each:2+2*each], rule, in[2+2*each], in[3+2*each])
		return append(append([]*Node{}, w...), b...)
	}
	return c
}

// head is the end of a classifier.
func head(s size, bf16 bool) operation {
	k := kind(bf16)
	return operation{
		name: fmt.Sprintf("head %s %s", s, word(bf16)), bf16: bf16,
		in: []input{{shape: shapes.Make(k, s.n, s.in)}, {shape: f32(s.in, s.out), fill: small}, {shape: f32(s.out)},
			{shape: shapes.Make(dtypes.Int32, s.n), fill: classes, limit: float64(s.out)}},
		loose: map[int]float64{1: 0.3}, // a hit more or less where two logits are close
		build: func(o fused.Ops, in []*Node) []*Node {
			loss, hit, g := o.Head(in[0], in[1], in[2], in[3])
			return []*Node{loss, hit, g}
		},
		op:    kernels.Head{Batch: s.n, In: s.in, Classes: s.out, X: k, G: k, Compute: k},
		flops: 2 * float64(s.n*s.in*s.out), bytes: 4 * float64(s.in*s.out+s.n*s.in),
	}
}

// softmax is softmax and cross entropy of logits.
func softmax(n, width int, bf16 bool) operation {
	k := kind(bf16)
	return operation{
		name: fmt.Sprintf("softmax %d×%d %s", n, width, word(bf16)), bf16: bf16,
		in:    []input{{shape: shapes.Make(k, n, width)}, {shape: shapes.Make(dtypes.Int32, n), fill: classes, limit: float64(width)}},
		loose: map[int]float64{1: 0.3},
		build: func(o fused.Ops, in []*Node) []*Node {
			loss, hit, g := o.Softmax(in[0], in[1])
			return []*Node{loss, hit, g}
		},
		bytes: 8 * float64(n*width),
	}
}

// valueCases are odd sizes, masks at every edge, batches of 1 to 4096.
func valueCases() []operation {
	var l []operation
	acts := []kernels.Act{kernels.ReLU, kernels.Identity, kernels.Sigmoid, kernels.Tanh}
	rules := []kernels.Rule{kernels.Adam{}, kernels.SGD{}, kernels.SGD{Momentum: 0.9}, kernels.AdaDelta{}, kernels.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4}, kernels.Adam{WeightDecay: 1e-2}}
	sizes := []size{{100, 784, 1000}, {100, 1000, 1000}, {1, 33, 17}, {8, 1960, 100}, {7, 9216, 128}, {100, 1000, 10}, {128, 64, 64}, {513, 127, 65}, {4096, 100, 84}}
	for i, s := range sizes {
		for _, bf16 := range []bool{false, true} {
			l = append(l, linear(s, acts[i%4], bf16), linearInput(s, acts[i%4], bf16), linearUpdate(s, rules[i%len(rules)], bf16))
		}
		l = append(l, gradient(s, acts[i%4], i%2 == 1))
	}
	for _, s := range []size{{100, 1000, 10}, {1, 33, 2}, {8, 100, 10}, {1025, 84, 10}, {33, 70, 200}} {
		for _, bf16 := range []bool{false, true} {
			l = append(l, head(s, bf16))
		}
	}
	l = append(l, softmax(100, 10, false), softmax(1, 3, false), softmax(4096, 1000, true), softmax(77, 1000, false))
	for i, g := range geometries {
		for _, bf16 := range []bool{false, true} {
			l = append(l, conv(g, acts[i%4], bf16), convInput(g, acts[(i+1)%4], bf16), convUpdate(g, rules[i%len(rules)], bf16))
		}
	}
	for _, bf16 := range []bool{false, true} {
		l = append(l, step(models.MLP(1000), 100, kernels.Adam{}, bf16), step(models.SeedCNN(), 8, kernels.Adam{}, bf16),
			step(models.LeNet5(), 100, kernels.SGD{Momentum: 0.9}, bf16), step(keras(), 128, kernels.AdaDelta{}, bf16))
	}
	return l
}

// timeCases are the layers of the nets whose time counts.
func timeCases() []operation {
	return []operation{
		step(models.MLP(1000), 100, kernels.Adam{}, false), step(models.SeedCNN(), 8, kernels.Adam{}, false),
		step(models.LeNet5(), 100, kernels.Adam{}, false), step(keras(), 128, kernels.AdaDelta{}, false),
		step(models.MLP(1000), 100, kernels.Adam{}, true), step(keras(), 128, kernels.AdaDelta{}, true),
		linear(size{100, 1000, 1000}, kernels.ReLU, false),
		linearInput(size{100, 1000, 1000}, kernels.ReLU, false),
		linearUpdate(size{100, 1000, 1000}, kernels.Adam{}, false),
		linear(size{100, 784, 1000}, kernels.ReLU, false),
		linearUpdate(size{100, 784, 1000}, kernels.Adam{}, false),
		head(size{100, 1000, 10}, false),
		linearInput(size{100, 1000, 10}, kernels.ReLU, false),
		linearUpdate(size{100, 1000, 10}, kernels.Adam{}, false),
		linear(size{100, 1000, 1000}, kernels.ReLU, true),
		linearInput(size{100, 1000, 1000}, kernels.ReLU, true),
		linearUpdate(size{100, 1000, 1000}, kernels.Adam{}, true),
		linear(size{8, 1960, 100}, kernels.ReLU, false),
		linearInput(size{8, 1960, 100}, kernels.Identity, false),
		linearUpdate(size{8, 1960, 100}, kernels.Adam{}, false),
		head(size{8, 100, 10}, false),
		linear(size{128, 9216, 128}, kernels.ReLU, false),
		linearInput(size{128, 9216, 128}, kernels.Identity, false),
		linearUpdate(size{128, 9216, 128}, kernels.AdaDelta{}, false),
		softmax(4096, 1000, false),
		conv(geometries[0], kernels.ReLU, false), convUpdate(geometries[0], kernels.Adam{}, false),
		conv(geometries[1], kernels.Sigmoid, false), convUpdate(geometries[1], kernels.Adam{}, false),
		conv(geometries[2], kernels.Sigmoid, false), convInput(geometries[2], kernels.Sigmoid, false), convUpdate(geometries[2], kernels.Adam{}, false),
		conv(geometries[3], kernels.Sigmoid, false), convInput(geometries[3], kernels.Sigmoid, false), convUpdate(geometries[3], kernels.Adam{}, false),
		conv(geometries[4], kernels.ReLU, false), convUpdate(geometries[4], kernels.AdaDelta{}, false),
		conv(geometries[5], kernels.ReLU, true), convInput(geometries[5], kernels.ReLU, true), convUpdate(geometries[5], kernels.AdaDelta{}, true),
	}
}
