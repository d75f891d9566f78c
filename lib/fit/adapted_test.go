package fit

import (
	_ "embed"
	"encoding/json"
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/step"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

//go:embed testdata/adapted.json
var adaptedJSON []byte

// TestAdaptedSteps holds second derivatives through recurrences and convolutions to PyTorch's: of a
// gradient penalty, and of a loss after steps of gradient descent, also where nothing is trained.
func TestAdaptedSteps(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want struct {
		Losses  []float64
		Weights map[string][]float64
	}
	if err := json.Unmarshal(adaptedJSON, &want); err != nil {
		t.Fatal(err)
	}
	wave := func(step, scale float64, n int) []float32 {
		l := make([]float32, n)
		for k := range l {
			l[k] = float32(scale * math.Sin(float64(k+1)*step))
		}
		return l
	}
	net := models.Net{Name: "adapted", Input: []int{5, 2}, Layers: []models.Layer{
		models.Conv1D{Name: "conv", Channels: 3, Kernel: 2, Act: Tanh}, models.GRU{Name: "gru", Units: 3}, models.LastStep{Name: "last"}, models.Dense{Name: "head", Units: 1},
	}}
	n := attach(t, s, "adapted", net, Config{Optimizer: optim.SGD{LearningRate: 0.5}, Step: func(s *step.Step) {
		loss := func(from, to int) *Node {
			part := func(x *Node) *Node { return Slice(x, AxisRange(from, to)) }
			return ReduceAllMean(Square(Sub(s.Forward(part(s.X)), part(s.Y))))
		}
		var query *Node
		s.Adapted(loss(0, 2), 0.3, func() {
			s.Adapted(loss(0, 2), 0.3, func() { query = loss(2, 4) })
		})
		slope := Gradient(ReduceAllSum(s.Forward(s.X)), s.X)[0]
		s.Minimize(Add(query, ReduceAllMean(Square(slope))))
	}})
	weights, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"conv/biases", "conv/weights", "gru/biases", "gru/recurrent/biases", "gru/recurrent/weights", "gru/weights", "head/biases", "head/weights"}
	for i, name := range order {
		for k := range weights {
			if weights[k].Name == name {
				weights[k].Data = wave(0.3+float64(i)/10, 0.5, len(weights[k].Data))
			}
		}
	}
	if err := n.SetWeights(weights); err != nil {
		t.Fatal(err)
	}
	tasks := load(t, n, "tasks", Data{X: wave(0.7, 1, 40), Y: wave(0.9, 1, 4)})
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 2e-5*max(1, math.Abs(want))) {
			t.Errorf("%s is %v: want %v", what, got, want)
		}
	}
	score, err := n.Evaluate(tasks)
	if err != nil {
		t.Fatal(err)
	}
	near("the loss by Evaluate", score.Loss, want.Losses[0])
	h, err := n.Fit(tasks, Train{Epochs: 2, Batch: 4, InOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want.Losses {
		near("loss", float64(h.Losses[i]), w)
	}
	after := weightsOf(t, n)
	for name, l := range want.Weights {
		for i, w := range l {
			near(name, float64(after[name][i]), w)
		}
	}
	for wanted, of := range map[string]func(s *step.Step){
		"Step.Minimize inside": func(s *step.Step) {
			s.Adapted(ReduceAllMean(s.Forward(s.X)), 1, func() { s.Minimize(ReduceAllMean(s.Forward(s.X))) })
		},
		`Step.Adapted of "heads": want layers`: func(s *step.Step) { s.Adapted(ReduceAllMean(s.Forward(s.X)), 1, func() {}, "heads") },
		"computed from conv/": func(s *step.Step) {
			y := s.Forward(s.X)
			s.Minimize(ReduceAllMean(Square(y)))
			s.Minimize(ReduceAllMean(y), "conv")
		},
		"no gradient of a loop": func(s *step.Step) {
			y := s.Forward(s.X)
			g := y.Graph()
			cond := NewClosure(g, func(g *Graph) []*Node {
				return []*Node{LessThan(ReduceAllMax(Parameter(g, "y", y.Shape())), Const(g, float32(9)))}
			})
			body := NewClosure(g, func(g *Graph) []*Node { return []*Node{AddScalar(Parameter(g, "y", y.Shape()), 1)} })
			s.Minimize(ReduceAllMean(While(cond, body, y)[0]))
		},
	} {
		bad := attach(t, s, "bad", net, Config{Step: of})
		if _, err := bad.Fit(tasks, Train{Batch: 4}); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %q", err, wanted)
		}
	}
}
