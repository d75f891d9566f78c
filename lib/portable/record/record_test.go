package record

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/portable"
)

// nets are some of those that package export tests.
var nets = map[string]models.Net{
	"transformer": {Input: []int{6}, Layers: []models.Layer{models.Embedding{Vocab: 11, Units: 8}, models.Positions{Length: 6},
		models.TransformerBlock{Heads: 2, Causal: true}, models.LayerNorm{}, models.Dense{Units: 11}}},
	"function": {Input: []int{4}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Dense{Name: "a", Units: 6}, in["x"])
		x = Where(GreaterThan(x, ZerosLike(x)), Clip(x, Const(x.Graph(), float32(-1)), Const(x.Graph(), float32(0.5))), MulScalar(x, 0.1))
		// a loop whose number of turns is fixed
		two := Const(x.Graph(), float32(2))
		cond := NewClosure(x.Graph(), func(g *Graph) []*Node {
			i, _ := Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "x", x.Shape())
			return []*Node{LessThan(i, Const(g, int32(3)))}
		})
		body := NewClosure(x.Graph(), func(g *Graph) []*Node {
			i, y := Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "x", x.Shape())
			return []*Node{AddScalar(i, 1), Tanh(Mul(y, two))}
		})
		return While(cond, body, Const(x.Graph(), int32(0)), x)[1]
	}},
	"other operations for one": {Input: []int{4}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Dense{Name: "a", Units: 4}, in["x"])
		for range min(3, x.Shape().Dimensions[0]/3) {
			x = Tanh(x)
		}
		return x
	}},
}

// made is a net with random variables, and its own results for n examples.
func made(t *testing.T, backend compute.Backend, net models.Net, n int) (vars []Variable, flats []any, inputs []any, want []float32) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	store := model.NewStore()
	g := NewGraph(backend, "variables")
	model.SetStore(g, store)
	net.Build(store.RootScope(), net.Batch(n, func(name string, shape shapes.Shape) *Node { return Parameter(g, name, shape) }), nil, nil)
	for v := range store.IterVariables() {
		if strings.Contains(v.Path(), "#") {
			continue
		}
		flat := make([]float32, v.Shape().Size())
		for k := range flat {
			flat[k] = float32(math.Abs(random.NormFloat64())) / 2
		}
		vars = append(vars, Variable{Name: strings.TrimPrefix(v.Path(), "/"), Path: v.Path(), Shape: v.Shape(), Trainable: v.Trainable})
		flats = append(flats, flat)
	}
	constant := func(g *Graph, flat any, dims []int) *Node { return Reshape(Const(g, flat), dims...) }
	out := MustNewExec(backend, func(g *Graph) *Node {
		store := model.NewStore().WithVariableAsConst(true)
		model.SetStore(g, store)
		store.SetTraining(g, false)
		for k, v := range vars {
			store.VariableWithValue(v.Path, tensors.FromFlatDataAndDimensions(flats[k].([]float32), v.Shape.Dimensions...))
		}
		inputs = nil
		return net.Build(store.RootScope(), net.Batch(n, func(name string, shape shapes.Shape) *Node {
			vocab := 1
			for _, i := range net.AllInputs() {
				if i.Name == name {
					vocab = max(1, i.Vocab)
				}
			}
			flat := dtypes.MakeAnySlice(shape.DType, shape.Size())
			switch l := flat.(type) {
			case []int32:
				for k := range l {
					l[k] = random.Int32N(int32(vocab))
				}
			case []float32:
				for k := range l {
					l[k] = float32(random.NormFloat64())
				}
			}
			inputs = append(inputs, flat)
			return constant(g, flat, shape.Dimensions)
		}), nil, nil)
	}).MustCall()[0]
	tensors.MustConstFlatData(out, func(flat []float32) { want = append(want, flat...) })
	return vars, flats, inputs, want
}

// TestNets holds recorded nets, through JSON, to GoMLX's own results, for other numbers of
// examples than they are recorded for.
func TestNets(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	for name, net := range nets {
		t.Run(name, func(t *testing.T) {
			net.Name = name
			const n = 7
			vars, flats, inputs, want := made(t, backend, net, n)
			p, err := Net(net, vars)
			if err != nil {
				t.Fatal(err)
			}
			if one := name == "other operations for one"; one != (p.Batch == 1) {
				t.Fatalf("got a program for %d examples", p.Batch)
			}
			text, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{portable.ProgramFile: {Data: text}}
			m, err := portable.OpenProgram(files, backend)
			if err != nil {
				t.Fatal(err)
			}
			var weights []compute.Buffer
			for _, w := range p.Weights {
				for k, v := range vars {
					if v.Name == w.Name {
						b, err := backend.BufferFromFlatData(0, flats[k], v.Shape)
						if err != nil {
							t.Fatal(err)
						}
						weights = append(weights, b)
					}
				}
			}
			m.Weights = func() ([]compute.Buffer, func(), error) { return weights, func() {}, nil }
			got, err := m.Predict(inputs...)
			if err != nil {
				t.Fatal(err)
			}
			if p.Batch == 1 { // what the net gives for one example is another function
				if len(got) != len(want) {
					t.Fatalf("got %d numbers, want %d", len(got), len(want))
				}
				return
			}
			for i := range want {
				if len(got) != len(want) || !(math.Abs(float64(got[i]-want[i])) < 1e-5) {
					t.Fatalf("got %v, want %v", got, want)
				}
			}
		})
	}
}
