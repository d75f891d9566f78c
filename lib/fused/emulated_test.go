package fused

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/emulate"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// pure is a backend that needs no plugin. A tensor belongs to one backend, so
// all tests have the same.
var pure, pureError = gobackend.New("")

// lowered is pure with a lowering for nets.
type lowered struct {
	compute.Backend
	lowering models.Lowering
}

func (l *lowered) Lowering() models.Lowering { return l.lowering }

var onHost = &lowered{Backend: pure, lowering: models.Plain{}}

func host(t *testing.T) compute.Backend {
	t.Helper()
	if pureError != nil {
		t.Fatal(pureError)
	}
	return onHost
}

// stop ends the building of a graph at a kernel whose inputs are not known yet.
type stop struct {
	kernel   triton.Kernel
	operands []*Node
}

func (stop) Error() string { return "a kernel's inputs are not known yet" } // a net's panics are errors

// emulated runs a graph whose kernels run in package emulate: it is built again
// and again, each time as far as the next kernel, with what the kernels before
// have given as inputs. Ops that o.Choose has nil for are in the plain form.
func emulated(t *testing.T, o Ops, in []*tensors.Tensor, build func(o Ops, in []*Node) []*Node) (out []*tensors.Tensor, ran []string) {
	t.Helper()
	backend := host(t)
	o.Builder = hlo.NewBuilder(nil, "test", nil) // it is there, and is not used
	refused := o.Choose
	o.Choose = func(op kernels.Op) kernels.Op {
		if refused != nil && refused(op) == nil {
			return nil
		}
		return op.With(kernels.Tile{Rounding: triton.Exact})
	}
	var known [][]*tensors.Tensor
	for {
		var next *stop
		args := append([]*tensors.Tensor{}, in...)
		for _, l := range known {
			args = append(args, l...)
		}
		got := execute(t, backend, args, func(all []*Node) (nodes []*Node) {
			rest, number := all[len(in):], 0
			defer func() {
				if r := recover(); r != nil {
					var s stop
					if err, is := r.(error); !is || !errors.As(err, &s) {
						panic(r)
					}
					next = &s
					nodes = s.operands
				}
			}()
			o := o
			o.run = func(k triton.Kernel, operands []*Node) []*Node {
				if number == len(known) {
					panic(stop{k, operands})
				}
				n := len(known[number])
				number++
				outputs := rest[:n]
				rest = rest[n:]
				l := make([]*Node, n)
				for i, x := range outputs {
					l[i] = StopGradient(x) // as a call's results: what needs their gradients defines them
				}
				return l
			}
			return build(o, all[:len(in):len(in)])
		})
		if next == nil {
			return got, ran
		}
		ran, known = append(ran, next.kernel.Name), append(known, emulateOne(t, next.kernel, got))
	}
}

// without refuses ops of one kind, as a chooser does that has found XLA's own form faster.
func without[O kernels.Op](op kernels.Op) kernels.Op {
	if _, is := op.(O); is {
		return nil
	}
	return op
}

// execute runs a graph. Variables that it makes parameters of without need are
// given zeros.
func execute(t *testing.T, backend compute.Backend, in []*tensors.Tensor, build func(in []*Node) []*Node) []*tensors.Tensor {
	t.Helper()
	g := NewGraph(backend, t.Name())
	nodes := make([]*Node, len(in))
	args := make([]any, len(in))
	for i, x := range in {
		nodes[i], args[i] = Parameter(g, fmt.Sprint("in", i), x.Shape()), x
	}
	out := build(nodes)
	for i, x := range out {
		out[i] = Identity(x)
	}
	if err := g.Compile(out...); err != nil {
		t.Fatal(err)
	}
	_, more := g.Executable().Inputs()
	for _, s := range more[len(in):] {
		args = append(args, tensors.FromShape(s))
	}
	return g.Run(args...)
}

func emulateOne(t *testing.T, k triton.Kernel, operands []*tensors.Tensor) []*tensors.Tensor {
	t.Helper()
	var in [][]float64
	for i, s := range k.Inputs {
		if !operands[i].Shape().Equal(s) {
			t.Fatalf("kernel %s: operand %d is %s, want %s", k.Name, i, operands[i].Shape(), s)
		}
		in = append(in, numbers(operands[i]))
	}
	if len(operands) != len(k.Inputs)+len(k.After) {
		t.Fatalf("kernel %s: got %d operands, want %d and %d", k.Name, len(operands), len(k.Inputs), len(k.After))
	}
	out, err := emulate.Run(k, in...)
	if err != nil {
		t.Fatal(err)
	}
	var l []*tensors.Tensor
	for i, s := range k.Outputs {
		l = append(l, tensor(s, out[i]))
	}
	return l
}

func numbers(x *tensors.Tensor) []float64 {
	var l []float64
	x.MustConstFlatData(func(flat any) {
		switch f := flat.(type) {
		case []float32:
			for _, v := range f {
				l = append(l, float64(v))
			}
		case []int32:
			for _, v := range f {
				l = append(l, float64(v))
			}
		case []uint8:
			for _, v := range f {
				l = append(l, float64(v))
			}
		case []bfloat16.BFloat16:
			for _, v := range f {
				l = append(l, float64(v.Float32()))
			}
		default:
			panic(fmt.Sprintf("%T", flat))
		}
	})
	return l
}

func tensor(s shapes.Shape, l []float64) *tensors.Tensor {
	x := tensors.FromShape(s)
	x.MustMutableFlatData(func(flat any) {
		switch f := flat.(type) {
		case []float32:
			for i := range f {
				f[i] = float32(l[i])
			}
		case []int32:
			for i := range f {
				f[i] = int32(l[i])
			}
		case []uint8:
			for i := range f {
				f[i] = uint8(l[i])
			}
		case []bfloat16.BFloat16:
			for i := range f {
				f[i] = bfloat16.FromFloat32(float32(l[i]))
			}
		}
	})
	return x
}

// random are numbers of a normal distribution, or labels below classes.
func random(seed uint64, s shapes.Shape, deviation float64, classes int) *tensors.Tensor {
	r := rand.New(rand.NewPCG(seed, 3))
	l := make([]float64, s.Size())
	for i := range l {
		if classes > 0 {
			l[i] = float64(r.IntN(classes))
		} else {
			l[i] = r.NormFloat64() * deviation
		}
	}
	return tensor(s, l)
}

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

func near(t *testing.T, what string, got, want *tensors.Tensor, limit float64) {
	t.Helper()
	g, w := numbers(got), numbers(want)
	if !got.Shape().Equal(want.Shape()) {
		t.Fatalf("%s: got %s, want %s", what, got.Shape(), want.Shape())
	}
	var off, size float64
	for i := range g {
		off, size = off+(g[i]-w[i])*(g[i]-w[i]), size+w[i]*w[i]
	}
	if e := math.Sqrt(off / max(size, 1e-30)); !(e <= limit) {
		t.Errorf("%s: got a relative error of %.2g, want at most %.2g", what, e, limit)
	}
}

// plainly runs a graph without kernels.
func plainly(t *testing.T, in []*tensors.Tensor, build func(in []*Node) []*Node) []*tensors.Tensor {
	t.Helper()
	return execute(t, host(t), in, build)
}
