package fused

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestForms holds each operation's kernel against its plain form.
func TestForms(t *testing.T) {
	labels := random(9, shapes.Make(dtypes.Int32, 7), 0, 5)
	scalars := []*tensors.Tensor{random(1, f32(), 0.01, 0), tensor(f32(), []float64{3})}
	state := func(dims ...int) []*tensors.Tensor {
		v := random(12, f32(dims...), 0.1, 0)
		l := numbers(v)
		for i := range l {
			l[i] *= l[i]
		}
		return []*tensors.Tensor{random(10, f32(dims...), 0.3, 0), random(11, f32(dims...), 0.3, 0), tensor(f32(dims...), l)}
	}
	x, w, b := random(2, f32(7, 6), 1, 0), random(3, f32(6, 5), 0.5, 0), random(4, f32(5), 0.5, 0)
	g := random(5, f32(7, 5), 1, 0)
	for _, tt := range []struct {
		name  string
		in    []*tensors.Tensor
		build func(o Ops, in []*Node) []*Node
	}{
		{"linear", []*tensors.Tensor{x, w, b}, func(o Ops, in []*Node) []*Node {
			return []*Node{o.Linear(in[0], in[1], in[2], kernels.Tanh), o.Linear(in[0], in[1], nil, kernels.ReLU)}
		}},
		{"gradient of linear", []*tensors.Tensor{x, w, b, g}, func(o Ops, in []*Node) []*Node {
			y := o.Linear(o.Linear(in[0], in[1], in[2], kernels.Tanh), Transpose(in[1], 0, 1), nil, kernels.Sigmoid)
			return gradient.Final(ReduceAllSum(Mul(y, Mul(in[0], y))), in[0], in[1], in[2])
		}},
		{"input gradient", []*tensors.Tensor{g, w, x}, func(o Ops, in []*Node) []*Node {
			return []*Node{o.LinearInput(in[0], in[1], in[2], kernels.Sigmoid), o.LinearInput(in[0], in[1], nil, kernels.Sigmoid)}
		}},
		{"update", append(append(append([]*tensors.Tensor{x, g}, state(6, 5)...), state(5)...), scalars...), func(o Ops, in []*Node) []*Node {
			w, b := o.LinearUpdate(in[0], in[1], in[2:5], in[5:8], optim.Adam{}.Rule(), in[8], in[9])
			v, none := o.LinearUpdate(in[0], in[1], in[2:4], nil, optim.SGD{Momentum: 0.5}.Rule(), in[8], in[9])
			return append(append(append(w, b...), v...), none...)
		}},
		{"head", []*tensors.Tensor{x, w, b, labels}, func(o Ops, in []*Node) []*Node {
			loss, hit, g := o.Head(in[0], in[1], in[2], in[3])
			return []*Node{loss, hit, g}
		}},
		{"end", []*tensors.Tensor{random(41, f32(3, 7, kernels.LargestHeadReduce), 1, 0), w, b, labels, x}, func(o Ops, in []*Node) []*Node {
			loss, hit, g, below := o.HeadReduce(in[0], in[1], in[2], in[3], in[4], kernels.Tanh)
			_, _, alone, through := o.HeadReduce(in[0], in[1], nil, in[3], nil, kernels.Identity)
			return []*Node{loss, hit, g, below, alone, through}
		}},
		{"update of parts", append(append(append([]*tensors.Tensor{random(42, f32(9, 3*2+1, 5), 1, 0)}, state(3, 2, 5)...), state(5)...), scalars...), func(o Ops, in []*Node) []*Node {
			w, b := o.PartsUpdate(in[0], in[1:4], in[4:7], optim.Adam{}.Rule(), in[7], in[8])
			return append(w, b...)
		}},
		{"take", []*tensors.Tensor{random(31, shapes.Make(dtypes.Uint8, 9, 130), 0, 256), random(32, shapes.Make(dtypes.Int32, 9), 0, 5),
			tensor(shapes.Make(dtypes.Int32, 9), []float64{3, 1, 4, 8, 5, 0, 2, 6, 7}), count(1), count(40), count(2)}, func(o Ops, in []*Node) []*Node {
			s := Source{X: in[0], Y: in[1], Order: in[2], Place: in[3], Step: in[4], Batch: 2}
			var out []*Node
			for _, b := range append(o.Take(s, in[5], 3), o.Take(s, in[5], 1)...) { // the last of three would begin at the ninth of nine
				out = append(out, b.X, b.Y, b.Number)
			}
			return out
		}},
		{"take targets", []*tensors.Tensor{random(33, f32(9, 130), 1, 0), random(34, f32(9, 3), 1, 0),
			tensor(shapes.Make(dtypes.Int32, 9), []float64{3, 1, 4, 8, 5, 0, 2, 6, 7}), count(1), count(40), count(2)}, func(o Ops, in []*Node) []*Node {
			var out []*Node
			for _, b := range o.Take(Source{X: in[0], Y: in[1], Order: in[2], Place: in[3], Step: in[4], Batch: 2}, in[5], 2) {
				out = append(out, b.X, b.Y, b.Number)
			}
			return out
		}},
		{"softmax", []*tensors.Tensor{g, labels}, func(o Ops, in []*Node) []*Node {
			loss, hit, g := o.Softmax(in[0], in[1])
			return []*Node{loss, hit, g}
		}},
		{"cross entropy", []*tensors.Tensor{g, labels}, func(o Ops, in []*Node) []*Node {
			loss, hit := o.CrossEntropy(in[0], in[1], func(x *Node) *Node { return losses.CrossEntropy{}.Rows(x, in[1]) })
			return []*Node{loss, hit, gradient.Final(ReduceAllSum(Square(loss)), in[0])[0]}
		}},
		{"activations", []*tensors.Tensor{random(54, f32(6, 5), 2, 0), random(55, f32(5), 1, 0)}, func(o Ops, in []*Node) []*Node {
			var out []*Node
			for _, a := range []activations.Activation{activations.ReLU, activations.Tanh, activations.GELU, activations.SiLU} {
				y, z := o.Activate(in[0], in[1], a), o.Activate(in[0], nil, a)
				out = append(append(out, y, z), gradient.Final(ReduceAllSum(Mul(Square(y), z)), in...)...)
			}
			return out
		}},
		{"norms", []*tensors.Tensor{random(51, f32(3, 2, 5), 1, 2), random(52, f32(5), 1, 0), random(53, f32(5), 1, 0)}, func(o Ops, in []*Node) []*Node {
			y, z := o.Norm(in[0], in[1], in[2], 1e-5), o.Norm(in[0], in[2], nil, 1e-6)
			return append([]*Node{y, z}, gradient.Final(ReduceAllSum(Mul(Square(y), z)), in...)...)
		}},
		{"norms of sums", []*tensors.Tensor{random(56, f32(3, 2, 5), 1, 2), random(57, f32(3, 2, 5), 1, 0), random(58, f32(5), 1, 0), random(59, f32(5), 1, 0)}, func(o Ops, in []*Node) []*Node {
			var out []*Node
			for i, z := range []*Node{in[1], in[1], nil} {
				for _, offset := range []*Node{in[3], nil} {
					of, biases := in[0], (*Node)(nil)
					if z != nil {
						of = Add(of, z)
					}
					if i == 1 {
						biases = in[2]
						of = Add(of, ExpandLeftToRank(biases, 3))
					}
					y, kept, columns := o.NormOfSum(of, in[0], z, biases, in[2], offset, 1e-5)
					if columns == nil {
						columns = func() (g, sums *Node) {
							g = gradient.Final(ReduceAllSum(Mul(Square(models.Plain{}.Norm(Identity(of), in[2], offset, 1e-5)), Identity(of))), of)[0]
							return g, ReduceSum(g, 0, 1)
						}
					}
					wrt := []*Node{in[0], in[1], in[2], in[3]}
					out = append(append(out, y, kept), gradient.Final(ReduceAllSum(Mul(Square(y), kept)), wrt...)...)
					g, sums := columns()
					out = append(out, g, sums)
					// of some inputs only, and of one way only
					out = append(out, gradient.Final(ReduceAllSum(Mul(Square(y), kept)), in[2])...)
					out = append(append(out, gradient.Final(ReduceAllSum(Square(y)), wrt[:3]...)...), gradient.Final(ReduceAllSum(Square(kept)), in[0])...)
					// in one pass of the norm alone, and then without it
					gradient.Final(ReduceAllSum(Square(y)), in[3])
					out = append(out, gradient.Final(ReduceAllSum(Square(kept)), in[0])...)
					// and of the gradient
					slope := Gradient(ReduceAllSum(Mul(Square(y), kept)), in[0])[0]
					out = append(out, Gradient(ReduceAllSum(Square(slope)), in[0], in[2])...)
					out = append(out, gradient.Final(ReduceAllSum(Add(Square(slope), Mul(Square(y), kept))), wrt...)...)
				}
			}
			return out
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ran := emulated(t, Ops{}, tt.in, tt.build)
			want := plainly(t, tt.in, func(in []*Node) []*Node { return tt.build(Ops{}, in) })
			if len(ran) == 0 {
				t.Error("no kernel ran")
			}
			for i := range want {
				near(t, fmt.Sprint("output ", i), got[i], want[i], 2e-5)
			}
		})
	}
}

// count is an int32 scalar.
func count(n float64) *tensors.Tensor { return tensor(shapes.Make(dtypes.Int32), []float64{n}) }

// tiny are nets with each kind of part.
var tiny = []models.Net{
	{Name: "dense", Input: []int{3, 2}, Layers: []models.Layer{
		models.Flatten{Name: "flatten"}, models.Dense{Name: "a", Units: 9, Act: models.ReLU}, models.Dense{Name: "b", Units: 7, Act: Tanh, NoBias: true}, models.Dense{Name: "c", Units: 4}}},
	{Name: "conv", Input: []int{10, 9, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "a", Channels: 3, Kernel: 3, Act: models.ReLU}, models.MaxPool2D{Name: "p", Window: 2},
		models.Conv2D{Name: "b", Channels: 4, Kernel: 2, Act: Sigmoid}, models.Flatten{Name: "flatten"}, models.Dense{Name: "c", Units: 5}}},
	{Name: "covering", Input: []int{5, 5, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "a", Channels: 3, Kernel: 3, Act: models.ReLU}, models.Conv2D{Name: "b", Channels: 4, Kernel: 3, Act: Tanh},
		models.Flatten{Name: "flatten"}, models.Dense{Name: "c", Units: 5}}},
	{Name: "acts", Input: []int{9, 8, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "a", Channels: 3, Kernel: 3, Act: models.LeakyReLU}, models.MaxPool2D{Name: "p", Window: 2},
		models.Conv2D{Name: "b", Channels: 4, Kernel: 2, Act: models.Hardswish}, models.Flatten{Name: "flatten"},
		models.Dense{Name: "c", Units: 6, Act: models.SiLU}, models.Dense{Name: "c2", Units: 6, Act: models.GELU}, models.Dense{Name: "c3", Units: 6, Act: models.GELUTanh}, models.Dense{Name: "d", Units: 5, Act: models.ELU}, models.Dense{Name: "e", Units: 5, Act: Softplus}, models.Dense{Name: "f", Units: 3}}},
	{Name: "mixed", Input: []int{6, 6, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "a", Channels: 3, Kernel: 3, Act: Tanh}, models.Activation{Name: "act", Act: Sigmoid}, models.Conv2D{Name: "b", Channels: 2, Kernel: 3, Stride: 2, Act: models.ReLU},
		models.Flatten{Name: "flatten"}, models.Dense{Name: "c", Units: 6, Act: models.ReLU}, models.Dense{Name: "d", Units: 3}}},
}

// TestPlan holds a step made of kernels, and one of their plain forms, against
// the net as GoMLX derives it.
func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		net  models.Net
		loss string // "": cross entropy; else it is the step's own
	}{{tiny[0], ""}, {tiny[1], ""}, {tiny[2], ""}, {tiny[3], ""}, {tiny[4], ""}, {tiny[0], "numbers"}, {tiny[1], "labels"}} {
		net := tt.net
		t.Run(net.Name+tt.loss, func(t *testing.T) {
			const n, limit = 5, 1e-4
			plan, err := NewPlan(net)
			if err != nil {
				t.Fatal(err)
			}
			weights := variables(t, net)
			rule := optim.SGD{Momentum: 0.9}.Rule()
			in := []*tensors.Tensor{random(1, f32(append([]int{n}, net.Input...)...), 1, 0), random(2, shapes.Make(dtypes.Int32, n), 0, 3),
				tensor(f32(), []float64{0.1}), tensor(f32(), []float64{1})}
			at := map[string]int{}
			for i, w := range weights {
				at[w.name] = len(in)
				in = append(in, random(uint64(20+i), w.shape, 0.5, 0), tensor(w.shape, make([]float64, w.shape.Size())))
			}
			apply := func(store *model.Store, in []*Node, build func(scope *model.Scope) *Node) (*Node, []*Node) {
				g := in[0].Graph()
				model.SetStore(g, store)
				store.SetTraining(g, true)
				var values []*Node
				for _, w := range weights {
					v := store.VariableWithShape(w.path, w.shape, Zeros)
					v.SetNodeValue(in[at[w.name]])
					values = append(values, in[at[w.name]])
				}
				return build(store.RootScope()), values
			}
			fusedly := func(o Ops, in []*Node) []*Node {
				journal := &Journal{Rows: Zeros(in[0].Graph(), f32(3, 3)), At: Const(in[0].Graph(), int32(1))}
				step := Step{Ops: o, Journal: journal, Rule: rule, X: in[0], Labels: in[1], Rate: in[2], T: in[3],
					State: func(name string) []*Node { return in[at[name] : at[name]+2] },
					Plain: func(i int, x *Node) (*Node, []string, []*Node) {
						name := net.Names()[i]
						y, values := apply(model.NewStore(), in, func(scope *model.Scope) *Node { return net.Layer(i, name, scope, x, nil) })
						var names []string
						var used []*Node
						for k, w := range weights {
							if strings.HasPrefix(w.name, name+"/") {
								names, used = append(names, w.name), append(used, values[k])
							}
						}
						return y, names, used
					}}
				if tt.loss != "" {
					step.Labels, step.Loss = nil, func(out *Node) (loss, hit *Node) {
						loss, hit, _ = Ops{}.Softmax(out, in[1])
						if tt.loss == "numbers" {
							hit = nil
						}
						return loss, hit
					}
				}
				states := plan.Train(step)
				out := []*Node{Slice(journal.Rows, AxisRange(1, 2))}
				for _, w := range weights {
					out = append(out, states[w.name]...)
				}
				return append(out, journal.Rows, journal.At)
			}
			want := derived(t, tt.loss != "numbers", weights, at, in, rule, func(in []*Node) (*Node, []*Node) {
				return apply(model.NewStore(), in, func(scope *model.Scope) *Node { return net.Apply(scope, in[0]) })
			})
			plain := plainly(t, in, func(in []*Node) []*Node { return fusedly(Ops{}, in) })
			got, ran := emulated(t, Ops{}, in, fusedly)
			if len(ran) == 0 {
				t.Error("got no kernels, want some")
			}
			for i := range want {
				near(t, fmt.Sprint("plain output ", i), plain[i], want[i], limit)
				near(t, fmt.Sprint("output ", i), got[i], want[i], limit)
			}
			for kind, refuse := range map[string]func(kernels.Op) kernels.Op{"end": without[kernels.HeadReduce], "parts update": without[kernels.PartsUpdate], "linear update": without[kernels.LinearUpdate]} {
				some, left := emulated(t, Ops{Choose: refuse}, in, fusedly)
				for i := range want {
					near(t, fmt.Sprint("output ", i, " with no kernel for the ", kind), some[i], want[i], limit)
				}
				if end := strings.Contains(fmt.Sprint(left), "end_"); tt.loss != "" && end || len(left) == 0 || end && kind == "end" {
					t.Errorf("no kernel for the %s: got kernels %q, want others", kind, left)
				}
			}
			rows, next := got[len(want)], got[len(want)+1]
			if r := numbers(rows); r[0] != 0 || r[8] != 0 || r[4] != n || numbers(next)[0] != 2 {
				t.Errorf("journal: got %v, next row %v, want row 1 alone and 2", r, numbers(next))
			}
			t.Log(plan, ran)
		})
	}
}

// derived is a step of the net as GoMLX derives it.
func derived(t *testing.T, hits bool, weights []variable, at map[string]int, in []*tensors.Tensor, rule kernels.Rule, logits func(in []*Node) (*Node, []*Node)) []*tensors.Tensor {
	t.Helper()
	return plainly(t, in, func(in []*Node) []*Node {
		y, values := logits(in)
		loss, hit, _ := Ops{}.Softmax(y, in[1])
		if !hits {
			hit = ZerosLike(hit)
		}
		gradients := gradient.Final(ReduceAllMean(loss), values...)
		out := []*Node{Reshape(Stack([]*Node{ReduceAllMean(loss), Const(y.Graph(), float32(loss.Shape().Size())), ReduceAllSum(hit)}, 0), 1, 3)}
		for i, w := range weights {
			out = append(out, gomlx.Update(rule, in[2], in[3], in[at[w.name]:at[w.name]+2], gradients[i])...)
		}
		return out
	})
}

type variable struct {
	name, path string
	shape      shapes.Shape
}

// variables are a net's, found by building it once.
func variables(t *testing.T, net models.Net) []variable {
	t.Helper()
	store := model.NewStore()
	g := NewGraph(&writer{}, "variables") // which, unlike the host, knows loops
	model.SetStore(g, store)
	net.Apply(store.RootScope(), Zeros(g, f32(append([]int{1}, net.Input...)...)))
	var l []variable
	for v := range store.IterVariables() {
		l = append(l, variable{strings.TrimPrefix(v.Path(), "/"), v.Path(), v.Shape()})
	}
	return l
}
