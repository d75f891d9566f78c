package fused

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

type testNet struct {
	name   string
	input  []int
	layers []models.Layer
}

func testNets() []testNet {
	norm := func(name string) models.Layer { return models.LayerNorm{Name: name} }
	dense := func(name string, units int) models.Layer { return models.Dense{Name: name, Units: units} }
	residual := func(layers ...models.Layer) models.Layer { return models.Residual{Main: layers} }
	block := func(name string) models.Layer { return models.TransformerBlock{Name: name, Heads: 2, RoPE: 100} }
	gated := models.TransformerBlock{Name: "g", Heads: 2, KVHeads: 1, RMSNorm: true, Gated: true, Act: models.SiLU, NoBias: true}
	return []testNet{
		{"blocks", []int{3, 4}, []models.Layer{dense("in", 4), block("a"), block("b"), norm("end"), dense("out", 2)}},
		{"gated blocks", []int{3, 4}, []models.Layer{gated, models.RMSNorm{Name: "end", PlusOne: true}, dense("out", 2)}},
		{"recomputed", []int{3, 4}, []models.Layer{dense("in", 4), models.Repeat{Name: "r", Times: 2, Recompute: true, Layer: models.TransformerBlock{Heads: 2, RoPE: 100}}, norm("end")}},
		{"recomputed in a sum", []int{4}, []models.Layer{dense("in", 4), residual(models.Repeat{Name: "r", Times: 1, Recompute: true, Layer: models.Sequential{Layers: []models.Layer{norm("n"), dense("d", 4)}}}), norm("end")}},
		{"reshaped", []int{2, 3}, []models.Layer{dense("in", 3), residual(norm("n"), models.Flatten{Name: "f"}, dense("d", 6), models.Unflatten{Name: "u", Dims: []int{2, 3}}), norm("end")}},
		{"no norm first", []int{4}, []models.Layer{dense("in", 4), residual(dense("d", 4)), norm("end")}},
		{"itself", []int{4}, []models.Layer{dense("in", 4), residual(models.Activation{Name: "a"}), norm("m"), residual(models.Activation{Name: "b"}), norm("end")}},
		{"sums of sums", []int{4}, []models.Layer{dense("in", 4), residual(residual(norm("n"), dense("d", 4)), norm("m"), dense("e", 4)), norm("end")}},
		{"several readers", []int{4}, []models.Layer{dense("in", 4), residual(norm("n"), dense("d", 4)), models.Residual{Main: []models.Layer{norm("m"), dense("e", 4)}, Skip: []models.Layer{norm("o"), dense("f", 4)}}, norm("end")}},
		{"masked", []int{3, 4}, []models.Layer{models.Masking{Name: "mask"}, dense("in", 4), block("a"), norm("end")}},
		{"one layer twice", []int{4}, []models.Layer{dense("in", 4), twice{residual(norm("n"), dense("d", 4))}, norm("end")}},
		{"recurrent", []int{3, 2}, []models.Layer{models.GRU{Name: "a", Units: 3}, models.RNN{Name: "b", Units: 3, Act: models.ReLU}, models.LSTM{Name: "c", Units: 2}, models.LastStep{}, dense("out", 2)}},
		{"recurrent in both directions", []int{3, 2}, []models.Layer{models.Bidirectional{Name: "a", Layer: models.GRU{Units: 3}}, residual(models.RNN{Name: "b", Units: 6}), models.Flatten{Name: "f"}}},
		{"activated", []int{4}, []models.Layer{dense("in", 4), models.Residual{Main: []models.Layer{norm("n"), models.Dense{Name: "d", Units: 4, Act: Tanh}}, Act: models.SiLU}, norm("end")}},
	}
}

// TestNets holds nets whose norms, residual sums, biases and gradients are kernels to the same nets
// in GoMLX's operations: values, gradients of several losses in one graph, and of a loss with a
// gradient in it.
func TestNets(t *testing.T) {
	for _, tt := range testNets() {
		t.Run(tt.name, func(t *testing.T) {
			if ran := holdTrained(t, tt, dtypes.Float32, 1e-4); len(ran) == 0 {
				t.Error("no kernel ran")
			}
		})
	}
}

// holdTrained holds one net that computes in a type of floats, within relative errors, and returns the kernels that ran.
func holdTrained(t *testing.T, tt testNet, float dtypes.DType, limit float64) (ran []string) {
	t.Helper()
	net := models.Net{Name: "net", Input: tt.input, Layers: tt.layers}
	weights := variables(t, net)
	in := []*tensors.Tensor{random(1, f32(append([]int{2}, tt.input...)...), 1, 0)}
	for i, w := range weights {
		in = append(in, random(uint64(20+i), w.shape, 0.5, 0))
	}
	build := func(o Ops, in []*Node) []*Node {
		if o.Builder != nil {
			onHost.lowering = xla.Lowering{Target: lower.Target{Platform: "cuda", Triton: true}, Options: lower.Options{RecurrentKernels: true},
				Calls: Calls{Ops: o, Recurrent: o}, Shared: xla.NewShared()}
			defer func() { onHost.lowering = models.Plain{} }()
		}
		g, store := in[0].Graph(), model.NewStore()
		model.SetStore(g, store)
		store.SetTraining(g, true)
		models.ComputeIn(store.RootScope(), float)
		for i, w := range weights {
			store.VariableWithShape(w.path, w.shape, Zeros).SetNodeValue(ConvertDType(in[1+i], float))
		}
		var output, input *Node // of a bucket of layers, as in package fit
		y := net.Build(store.RootScope(), models.Inputs{"x": ConvertDType(in[0], float)}, func(string) {}, func(i int, y *Node) *Node {
			if i != 1 {
				return y
			}
			output, input = y, Identity(y)
			return input
		})
		all := []*Node{y}
		derive := func(loss *Node, wrt ...*Node) { all = append(all, gradient.Final(loss, wrt...)...) }
		y = ConvertDType(y, dtypes.Float32)
		first := ReduceAllSum(Mul(Sin(IotaFull(g, y.Shape())), y))
		derive(first, in...)
		derive(ReduceAllSum(Square(y)), in...)
		derive(first, in[1])
		derive(first, in[len(in)-1])
		derive(first, input)
		derive(ReduceAllSum(Mul(output, StopGradient(ConvertDType(all[len(all)-1], float)))), in...)
		slope := Gradient(first, in[0])[0]
		derive(Add(ReduceAllSum(Square(slope)), first), in...)
		return all
	}
	got, ran := emulated(t, Ops{}, in, build)
	want := plainly(t, in, func(in []*Node) []*Node { return build(Ops{}, in) })
	size := 0.0 // of the largest: some gradients are zero but for rounding, as those of biases before a norm are
	for _, w := range want {
		size = max(size, norm(numbers(w)))
	}
	for i, w := range want {
		g, w := numbers(got[i]), numbers(w)
		scale := max(norm(w), 1e-2*size, 1e-30)
		for k := range g {
			g[k] -= w[k]
		}
		if e := norm(g) / scale; !(e <= limit) {
			t.Errorf("output %d, %s: got a relative error of %.2g, want at most %g", i, want[i].Shape(), e, limit)
		}
	}
	return ran
}

// TestInference holds the same nets without training, whose dense layers are kernels, for they have one row, to
// nets in GoMLX's operations: values, and gradients of who asks for them.
func TestInference(t *testing.T) {
	for _, tt := range testNets() {
		if strings.HasPrefix(tt.name, "recurrent") {
			continue // loops, which the host does not have
		}
		t.Run(tt.name, func(t *testing.T) {
			input := slices.Clone(tt.input)
			if len(input) == 2 && tt.name != "reshaped" {
				input[0] = 1 // a time step
			}
			net := models.Net{Name: "net", Input: input, Layers: tt.layers}
			weights := variables(t, net)
			in := []*tensors.Tensor{random(1, f32(append([]int{1}, input...)...), 1, 0)}
			for i, w := range weights {
				in = append(in, random(uint64(20+i), w.shape, 0.5, 0))
			}
			build := func(o Ops, in []*Node) []*Node {
				store := inferring(o, in[0].Graph(), weights, in[1:])
				defer func() { onHost.lowering = models.Plain{} }()
				y := net.Build(store.RootScope(), models.Inputs{"x": in[0]}, func(string) {}, nil)
				return append([]*Node{y}, gradient.Final(ReduceAllSum(Square(y)), in...)...)
			}
			got, ran := emulated(t, Ops{}, in, build)
			want := plainly(t, in, func(in []*Node) []*Node { return build(Ops{}, in) })
			if !slices.Contains(ran, "one_row") {
				t.Errorf("got kernels %v, want one_row among them", ran)
			}
			for i := range want {
				near(t, fmt.Sprint("output ", i), got[i], want[i], 1e-4)
			}
		})
	}
}

// inferring sets the lowering of a graph without training, and its variables.
func inferring(o Ops, g *Graph, weights []variable, values []*Node) *model.Store {
	onHost.lowering = plainCache{}
	if o.Builder != nil {
		lowering := xla.Lowering{Target: lower.Target{Platform: "cuda", Triton: true}, Calls: Calls{Ops: o}, Shared: xla.NewShared()}
		lowering.Shared.Inference = true
		onHost.lowering = lowering
	}
	store := model.NewStore()
	model.SetStore(g, store)
	for i, w := range weights {
		store.VariableWithShape(w.path, w.shape, Zeros).SetNodeValue(values[i])
	}
	return store
}

// plainCache has attention to a cache in operations that the host has.
type plainCache struct{ models.Plain }

func (plainCache) AttendCached(q, k, v, keys, values *Node, at models.CachePlace, a models.Attending) (y, newKeys, newValues *Node) {
	return PlainCached(q, k, v, keys, values, at, a)
}

// TestCachedNets holds a time step of sequences with a cache, whose attention is a kernel, to the
// same in GoMLX's operations.
func TestCachedNets(t *testing.T) {
	const rows, slots, width = 2, 5, 8
	for _, layer := range []models.Layer{
		models.TransformerBlock{Name: "a", Heads: 2, Causal: true},
		models.TransformerBlock{Name: "a", Heads: 4, KVHeads: 2, Causal: true, RoPE: 100, Window: 2, RMSNorm: true, Gated: true, Act: models.SiLU, NoBias: true},
		models.Attention{Name: "a", Heads: 2, Causal: true, SoftCap: 3, QKNorm: models.RMSNorm{}},
	} {
		net := models.Net{Name: "net", Input: []int{slots, width}, Layers: []models.Layer{layer}}
		weights := variables(t, net)
		groups := 2
		old := f32(rows, groups, slots, 4)
		if _, is := layer.(models.TransformerBlock); is && layer.(models.TransformerBlock).Heads == 4 {
			old = f32(rows, groups, slots, 2)
		}
		in := []*tensors.Tensor{random(1, f32(rows, 1, width), 1, 0), random(2, old, 1, 0), random(3, old, 1, 0)}
		for i, w := range weights {
			in = append(in, random(uint64(20+i), w.shape, 0.5, 0))
		}
		build := func(o Ops, in []*Node) []*Node {
			g := in[0].Graph()
			store := inferring(o, g, weights, in[3:])
			defer func() { onHost.lowering = models.Plain{} }()
			c := &models.Cache{
				CachePlace: models.CachePlace{Position: Const(g, []int32{3, 2}), Slot: Const(g, int32(3)), At: Const(g, [][]int32{{0, 1, 2, 3, -1}, {-1, 0, 1, 2, -1}})},
				Count:      Const(g, []int32{1, 1}),
			}
			c.Old = func(name string, _ shapes.Shape) *Node {
				if strings.HasSuffix(name, "keys") {
					return in[1]
				}
				return in[2]
			}
			models.SetCache(g, c)
			y := net.Build(store.RootScope(), models.Inputs{"x": in[0]}, func(string) {}, nil)
			models.SetCache(g, nil)
			return append([]*Node{y}, c.New...)
		}
		got, ran := emulated(t, Ops{}, in, build)
		want := plainly(t, in, func(in []*Node) []*Node { return build(Ops{}, in) })
		if !slices.Contains(ran, "cached_attention") {
			t.Errorf("got kernels %v, want cached_attention among them", ran)
		}
		for i := range want {
			near(t, fmt.Sprintf("%T, output %d", layer, i), got[i], want[i], 1e-4)
		}
	}
}

// twice applies one layer, with its weights, to what it has made.
type twice struct{ models.Layer }

func (l twice) Apply(scope *model.Scope, x *Node) *Node {
	return l.Layer.Apply(scope.ResetVisited(), l.Layer.Apply(scope, x))
}

// norm is the square root of the sum of squares.
func norm(l []float64) float64 {
	sum := 0.0
	for _, v := range l {
		sum += v * v
	}
	return math.Sqrt(sum)
}
