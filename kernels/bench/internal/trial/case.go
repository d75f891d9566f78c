package trial

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// operation is something to be compared and timed.
type operation struct {
	tiling.Form
	name  string
	bf16  bool
	limit float64         // for the error of outputs; default: tiling.Mark
	loose map[int]float64 // a limit for the error of an output that has its own
	moves map[int]float64 // and one for its error over its change; default: farthest
	// times is how many times as far as the plain form a kernel may be where
	// that is more than the limit; default: the limit alone.
	times float64
	// reference, if not nil, is another way to the same outputs, without
	// kernels; default: Build.
	reference func(o fused.Ops, in []*Node) []*Node
	zeros     []int // outputs that may be of zeros only, which says nothing of a kernel
	// op is the kernel, where its tilings can be tried; nil if there are
	// several.
	op kernels.Op
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

// of makes a case of an op. The kernel is used even where fused.Usual would not.
func of(name string, op kernels.Op, bf16 bool) operation {
	form, err := tiling.FormOf(op)
	if err != nil {
		panic(err)
	}
	return made(name, op, form, bf16)
}

func made(name string, op kernels.Op, form tiling.Form, bf16 bool) operation {
	build := form.Build
	form.Build = func(o fused.Ops, in []*Node) []*Node {
		if o.Choose == nil {
			o.Choose = func(op kernels.Op) kernels.Op { return op }
		}
		return build(o, in)
	}
	return operation{Form: form, name: name + " " + word(bf16), bf16: bf16, op: op}
}

// linear is a layer forwards.
func linear(s size, act kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	return of(fmt.Sprintf("linear %s %s", s, act), kernels.Linear{Batch: s.n, In: s.in, Out: s.out, X: k, Y: k, Compute: k, Act: act}, bf16)
}

// gradient is a layer's gradient as GoMLX derives it from the op.
func gradient(s size, act kernels.Act, bf16 bool) operation {
	c := linear(s, act, bf16)
	c.name = "gradient of " + c.name
	c.op = nil
	if act == kernels.ReLU {
		// Where a sum is nearly 0, rounding decides whether it counts.
		c.limit, c.times = 3e-2, 2
	}
	c.Inputs = append(c.Inputs, tiling.Input{Shape: shapes.Make(kind(bf16), s.n, s.out)})
	c.Build = func(o fused.Ops, in []*Node) []*Node {
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
	return of(fmt.Sprintf("input gradient %s %s", s, act), op, bf16)
}

// linearUpdate is a layer's step.
func linearUpdate(s size, rule kernels.Rule, bf16 bool) operation {
	k := kind(bf16)
	return of(fmt.Sprintf("update %s %s", s, rule.Name()), kernels.LinearUpdate{Batch: s.n, In: s.in, Out: s.out, X: k, G: k, Compute: k, Rule: rule}, bf16)
}

// withoutBias is a layer forwards, and the end of a classifier, without one.
func withoutBias(s size, bf16 bool) []operation {
	k := kind(bf16)
	layer := kernels.Linear{Batch: s.n, In: s.in, Out: s.out, X: k, Y: k, Compute: k, Act: kernels.ReLU, NoBias: true}
	return []operation{of(fmt.Sprintf("linear %s relu without bias", s), layer, bf16), end(fmt.Sprintf("head %s without bias", s), s, true, bf16)}
}

// head is the end of a classifier.
func head(s size, bf16 bool) operation { return end(fmt.Sprintf("head %s", s), s, false, bf16) }

func end(name string, s size, noBias, bf16 bool) operation {
	k := kind(bf16)
	c := of(name, kernels.Head{Batch: s.n, In: s.in, Classes: s.out, X: k, G: k, Compute: k, NoBias: noBias}, bf16)
	c.loose = map[int]float64{1: 0.3} // a hit more or less where two logits are close
	c.zeros = few(s.n, s.out)
	return c
}

// last is the end of a classifier whose last layer is begun, from parts of its logits.
func last(s size, parts int, act kernels.Act, noBias, bf16 bool) operation {
	k := kind(bf16)
	c := of(fmt.Sprintf("end %s of %d parts %s", s, parts, act), kernels.End{Batch: s.n, In: s.in, Classes: s.out, Parts: parts, X: k, G: k, Compute: k, Act: act, NoBias: noBias}, bf16)
	c.loose = map[int]float64{1: 0.3}
	c.zeros = few(s.n, s.out)
	return c
}

// partsUpdate is a step with a gradient that is there in parts.
func partsUpdate(parts int, rule kernels.Rule, weights ...int) operation {
	return of(fmt.Sprintf("update of %d parts %v %s", parts, weights, rule.Name()), kernels.PartsUpdate{Parts: parts, Weights: f32(weights...), Rule: rule}, false)
}

// few are the hits, where there may be none by chance.
func few(n, classes int) []int {
	if n < 5*classes {
		return []int{1}
	}
	return nil
}

// softmax is softmax and cross entropy of logits.
func softmax(n, width int, bf16 bool) operation {
	return operation{
		name: fmt.Sprintf("softmax %d×%d %s", n, width, word(bf16)), bf16: bf16,
		loose: map[int]float64{1: 0.3}, zeros: few(n, width),
		Form: tiling.Form{
			Inputs: []tiling.Input{{Shape: shapes.Make(kind(bf16), n, width)}, {Shape: shapes.Make(dtypes.Int32, n), Fill: tiling.Below, Limit: float64(width)}},
			Build: func(o fused.Ops, in []*Node) []*Node {
				loss, hit, g := o.Softmax(in[0], in[1])
				return []*Node{loss, hit, g}
			},
			Bytes: 8 * float64(n*width),
		},
	}
}

// geometries are the convolutions of SeedCNN, LeNet5 and Keras' net, and some
// odd ones.
var geometries = []kernels.Geometry{
	{Batch: 8, Height: 28, Width: 28, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true},
	{Batch: 100, Height: 32, Width: 32, In: 3, Out: 6, Size: 5, Pool: true},
	{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true},
	{Batch: 100, Height: 5, Width: 5, In: 16, Out: 120, Size: 4},
	{Batch: 128, Height: 28, Width: 28, In: 1, Out: 32, Size: 3},
	{Batch: 128, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true},
	{Batch: 1, Height: 7, Width: 9, In: 2, Out: 3, Size: 3, Pool: true},
	{Batch: 3, Height: 11, Width: 6, In: 5, Out: 33, Size: 3, Pad: 1},
	{Batch: 1025, Height: 8, Width: 8, In: 1, Out: 17, Size: 5, Pad: 2, Pool: true},
	{Batch: 4096, Height: 6, Width: 5, In: 3, Out: 8, Size: 3, Pad: 1, Pool: true},
}

func named(what string, g kernels.Geometry, more string) string {
	return what + " " + g.Short() + " " + more
}

// conv is a convolution forwards. Winners may differ where two are close, so
// only the numbers count.
func conv(g kernels.Geometry, act kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	c := of(named("conv", g, act.String()), kernels.Conv{Geometry: g, X: k, Y: k, Compute: k, Act: act}, bf16)
	if g.Pool {
		c.loose = map[int]float64{0: 0.1}
	}
	return c
}

// convInput is a convolution backwards to its input.
func convInput(g kernels.Geometry, before kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	op := kernels.ConvInput{Geometry: g, G: k, D: k, Compute: k, Act: before}
	if before != kernels.Identity {
		op.X = k
	}
	return of(named("conv input", g, before.String()), op, bf16)
}

// convUpdate is a convolution's step.
func convUpdate(g kernels.Geometry, rule kernels.Rule, bf16 bool) operation {
	k := kind(bf16)
	op := kernels.ConvGradient{Geometry: g, X: k, G: k, Compute: k}
	return made(named("conv update", g, rule.Name()), op, tiling.ConvUpdate(op, rule), bf16)
}

// valueCases are odd sizes, masks at every edge, batches of 1 to 4096, and whole
// nets.
func valueCases() []operation {
	var l []operation
	acts := []kernels.Act{kernels.ReLU, kernels.Identity, kernels.Sigmoid, kernels.Tanh}
	rules := []kernels.Rule{optim.Adam{}.Rule(), optim.SGD{}.Rule(), optim.SGD{Momentum: 0.9}.Rule(), optim.AdaDelta{}.Rule(), optim.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4}.Rule(), optim.Adam{WeightDecay: 1e-2}.Rule()}
	sizes := []size{{100, 784, 1000}, {100, 1000, 1000}, {1, 33, 17}, {8, 1960, 100}, {7, 9216, 128}, {100, 1000, 10}, {128, 64, 64}, {513, 127, 65}, {4096, 100, 84}}
	for i, s := range sizes {
		for _, bf16 := range []bool{false, true} {
			l = append(l, linear(s, acts[i%4], bf16), linearInput(s, acts[i%4], bf16), linearUpdate(s, rules[i%len(rules)], bf16), gradient(s, acts[i%4], bf16))
		}
	}
	for _, bf16 := range []bool{false, true} {
		l = append(l, withoutBias(size{100, 1000, 10}, bf16)...)
		l = append(l, withoutBias(size{513, 127, 65}, bf16)...)
		l = append(l, softmax(100, 10, bf16), softmax(1, 3, bf16), softmax(4096, 1000, bf16), softmax(77, 1000, bf16))
	}
	for _, s := range []size{{100, 1000, 10}, {1, 33, 2}, {8, 100, 10}, {1025, 84, 10}, {4096, 84, 10}, {33, 70, 200}} {
		for _, bf16 := range []bool{false, true} {
			l = append(l, head(s, bf16))
		}
	}
	for _, bf16 := range []bool{false, true} {
		l = append(l, last(size{100, 1000, 10}, 32, kernels.ReLU, false, bf16), last(size{1, 33, 2}, 1, kernels.Tanh, true, bf16), last(size{8, 100, 10}, 7, kernels.ReLU, false, bf16),
			last(size{1025, 84, 10}, 3, kernels.Sigmoid, false, bf16), last(size{4096, 84, 16}, 2, kernels.Identity, false, bf16), last(size{33, 70, 3}, 31, kernels.ReLU, true, bf16))
	}
	l = append(l, partsUpdate(4, optim.Adam{}.Rule(), 3, 3, 1, 10), partsUpdate(25, optim.SGD{}.Rule(), 5, 5, 3, 6), partsUpdate(1024, optim.Adam{}.Rule(), 20, 5),
		partsUpdate(1, optim.AdaDelta{}.Rule(), 7, 9), partsUpdate(300, optim.SGD{Momentum: 0.9}.Rule(), 100, 50), partsUpdate(1001, optim.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4}.Rule(), 1, 1))
	for i, g := range geometries {
		for _, bf16 := range []bool{false, true} {
			l = append(l, conv(g, acts[i%4], bf16), convInput(g, acts[(i+1)%4], bf16), convUpdate(g, rules[i%len(rules)], bf16))
		}
	}
	l = append(l, lstm(1, 1, 1), lstm(50, 20, 5), lstm(14, 100, 64), lstm(7, 33, 37), lstm(9, 33, 65), lstm(12, 40, 128), lstm(100, 64, 128), lstm(3, 4096, 20))
	for _, bf16 := range []bool{false, true} {
		l = append(l, take(60000, 784, 8, true, bf16), take(1000, 784, 100, true, bf16), take(77, 5, 33, false, bf16), take(9000, 17, 4096, true, bf16),
			take(60000, 784, 1, true, bf16), take(7, 130, 1, false, bf16))
		l = append(l, fast(step(fcn(), 1024, optim.SGD{}.Rule(), bf16)))
	}
	l = append(l, exact(conv(geometries[0], kernels.ReLU, false)), exact(conv(geometries[1], kernels.Sigmoid, false)),
		exact(step(models.SeedCNN(), 8, optim.Adam{}.Rule(), false)), exact(step(models.LeNet5(), 100, optim.SGD{Momentum: 0.9}.Rule(), false)), oneSign(exact(step(keras(), 128, optim.AdaDelta{}.Rule(), false))),
		exact(step(models.SeedCNN(), 1, optim.SGD{Momentum: 0.9, Nesterov: true}.Rule(), false)), exact(step(models.LeNet5(), 33, optim.Adam{}.Rule(), false)))
	for _, bf16 := range []bool{false, true} {
		l = append(l, norm(1000, 64, kernels.ReLU, false, bf16), norm(33, 7, kernels.Tanh, false, bf16), norm(25600, 100, kernels.ReLU, true, bf16), norm(1, 3, kernels.Identity, true, bf16))
		l = append(l, resNet(2048, bf16)...)
		l = append(l, step(models.MLP(1000), 100, optim.Adam{}.Rule(), bf16), step(models.SeedCNN(), 8, optim.Adam{}.Rule(), bf16),
			step(models.LeNet5(), 100, optim.SGD{Momentum: 0.9}.Rule(), bf16), step(keras(), 128, optim.AdaDelta{}.Rule(), bf16))
		// Their last layers begun by the ones before, and groups of updates, at odd sizes.
		l = append(l, step(dense(models.ReLU, 33, 21, 17, 10), 1, optim.Adam{WeightDecay: 1e-2}.Rule(), bf16), step(dense(models.ReLU, 127, 65, 200, 10), 513, optim.AdaDelta{}.Rule(), bf16),
			step(models.SeedCNN(), 1, optim.SGD{Momentum: 0.9, Nesterov: true}.Rule(), bf16), step(models.LeNet5(), 33, optim.Adam{}.Rule(), bf16))
	}
	return append(l, singles()...)
}
