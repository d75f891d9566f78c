package fused

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

func TestNewPlan(t *testing.T) {
	for _, tt := range []struct {
		net  models.Net
		want string // of String, or of the error
	}{
		{models.MLP(1000), "flatten flatten|l1 dense|l2 dense|l3 head"},
		{models.SeedCNN(), "conv conv with pooling|flatten flatten|dense dense|output head"},
		{models.LeNet5(), "conv1 conv with pooling|conv2 conv with pooling|conv3 conv|flatten flatten|fc4 dense|fc5 head"},
		{models.KerasCNN(), "conv2d conv|conv2d_1 conv with pooling|dropout GoMLX's ops: no kernel for Dropout|flatten flatten|dense dense|dropout_1 GoMLX's ops: no kernel for Dropout|dense_1 head"},
		{models.SineLSTM(5, 10), "error: fused: SineLSTM: its last layer is not a Dense of [n inputs] without activation: train it without kernels"},
		{models.Net{Name: "open", Input: []int{4}, Layers: []models.Layer{models.Dense{Units: 3, Act: models.ReLU}}}, "error: fused: open: its last layer is not a Dense of [n inputs] without activation: train it without kernels"},
		{models.Net{Name: "function", Input: []int{4}, Function: func(_ *model.Scope, in models.Inputs) *Node { return in["x"] }}, "error: fused: function: its last layer is not a Dense of [n inputs] without activation: train it without kernels"},
		{models.Net{Name: "own", Input: []int{4}, Layers: []models.Layer{models.Dense{Name: "a", Units: 3, Act: func(x *Node) *Node { return x }}, models.Dense{Name: "b", Units: 3}}},
			"a GoMLX's ops: an activation without a kernel|b head"},
	} {
		p, err := NewPlan(tt.net)
		got := fmt.Sprint("error: ", err)
		if err == nil {
			var l []string
			for _, line := range strings.Split(strings.TrimSpace(p.String()), "\n") {
				l = append(l, strings.Join(strings.Fields(line), " "))
			}
			got = strings.Join(l, "|")
		}
		if got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.net.Name, got, tt.want)
		}
	}
}

// writer is a backend that only writes programs, with kernels.
type writer struct{ hlo.Backend }

func (w *writer) Kernels() *hlo.Builder { return w.HLO }

// ownKernel doubles a vector: a kernel as a user writes one.
var ownKernel = triton.Kernel{
	Name: "double", Grid: [3]int{4}, Inputs: []shapes.Shape{f32(512)}, Outputs: []shapes.Shape{f32(512)},
	Body: func(b *triton.Block) {
		i := b.ProgramID(0).Mul(128).Add(b.Range(128))
		b.Output(0).At(i).Store(b.Input(0).At(i).Load().Mul(2.0))
	},
}

// TestCall puts a kernel of your own into a graph.
func TestCall(t *testing.T) {
	w := &writer{}
	g := NewGraph(w, "call")
	x := Parameter(g, "x", f32(512))
	y := Call(w.HLO, ownKernel, Neg(x))[0]
	if err := g.Compile(Add(y, x)); err != nil {
		t.Fatal(err)
	}
	text := string(w.Program.Text(nil))
	if strings.Count(text, "stablehlo.custom_call @"+triton.Target) != 1 || !strings.Contains(text, `name = "double"`) {
		t.Errorf("got\n%s\nwant one call of the kernel", text)
	}
}

func TestCallRefusals(t *testing.T) {
	for name, call := range map[string]func(w *writer, x *Node){
		"fused: kernel double: got no builder, want that of the graph": func(_ *writer, x *Node) { Call(nil, ownKernel, x) },
		"fused: kernel double: got no operands":                        func(w *writer, _ *Node) { Call(w.HLO, ownKernel) },
		"operand 0 is (Float32)[7], want (Float32)[512]":               func(w *writer, x *Node) { Call(w.HLO, ownKernel, Slice(x, AxisRange(0, 7))) },
		"fused: Linear: got x (Float32)[512] and w (Float32)[512]":     func(w *writer, x *Node) { Ops{Builder: w.HLO}.Linear(x, x, nil, kernels.ReLU) },
		"fused: LSTM: got z (Float32)[512]":                            func(w *writer, x *Node) { Ops{}.Recurrence(models.Recurrence{Kind: "LSTM", Z: x, Recurrent: x}) },
		"fused: Conv: got x (Float32)[512]":                            func(w *writer, x *Node) { Ops{}.Conv(Convolution{}, x, x, x) },
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{}
			g := NewGraph(w, "refusal")
			x := Parameter(g, "x", f32(512))
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) {
					t.Errorf("got %q, want %q", got, name)
				}
			}()
			call(w, x)
		})
	}
}

// TestUsual holds which ops are kernels without measuring.
func TestUsual(t *testing.T) {
	few, many := kernels.Geometry{In: 16}, kernels.Geometry{In: 17}
	for _, tt := range []struct {
		op   kernels.Op
		want bool
	}{
		{kernels.Linear{}, true}, {kernels.Linear{Batch: 128, In: 9216, Out: 128}, false}, {kernels.Linear{Batch: 4096, In: 9216, Out: 128}, true}, {kernels.Head{}, true}, {kernels.Conv{Geometry: few}, true}, {kernels.Conv{Geometry: many}, false},
		{kernels.ConvInput{Geometry: many}, false}, {kernels.ConvGradient{Geometry: many}, false}, {kernels.ConvGradient{Geometry: few}, true},
	} {
		if got := Usual(tt.op) != nil; got != tt.want {
			t.Errorf("%T: got kernel %v, want %v", tt.op, got, tt.want)
		}
	}
	if _, is := choose(Ops{}, kernels.Linear{}); is {
		t.Error("got a kernel without a builder, want none")
	}
}
