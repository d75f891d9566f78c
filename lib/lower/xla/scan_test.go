package xla

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// TestScanCells holds gradients of users' cells to those that GoMLX derives of the unrolled
// cell.
func TestScanCells(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	plain, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	dense := func(scope *model.Scope, name string, x *Node, units int) *Node {
		return models.Call(scope, models.Dense{Name: name, Units: units}, x)
	}
	for name, l := range map[string]models.Scan{
		"gates": {State: [][]int{{4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			f := Sigmoid(Add(dense(s, "a", x, 4), models.Call(s, models.Dense{Name: "b", Units: 4, NoBias: true}, state[0])))
			h := Add(state[0], Mul(f, Sub(Tanh(dense(s, "c", Mul(f, state[0]), 4)), state[0])))
			return []*Node{h}, h
		}},
		"two states, the same at the start": {State: [][]int{{3}, {3}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			a := Tanh(Add(dense(s, "a", state[1], 3), dense(s, "x", x, 3)))
			b := Add(state[1], Tanh(dense(s, "b", state[0], 3)))
			return []*Node{a, b}, Concatenate([]*Node{a, b}, 1)
		}},
		"weights used in other ways too": {State: [][]int{{4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			h := Tanh(Add(dense(s, "a", state[0], 4), x))
			w := s.In("a").VariableWithShape("weights", shapes.Make(dtypes.Float32, 4, 4)).NodeValue(x.Graph())
			return []*Node{Add(h, MulScalar(MatMul(x, w), 0.1))}, h
		}},
		"one layer twice": {State: [][]int{{4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			h := Tanh(Add(dense(s, "a", state[0], 4), x))
			return []*Node{h}, dense(s.ResetVisited(), "a", h, 4)
		}},
		"a layer that nothing uses, one of numbers": {State: [][]int{{4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			dense(s, "unused", x, 2)
			h := Tanh(Add(Add(state[0], x), dense(s, "numbers", OnesLike(x), 4)))
			return []*Node{h}, h
		}},
		"a state of matrices": {State: [][]int{{2, 4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			h := Tanh(Add(dense(s, "a", state[0], 4), InsertAxes(x, 1)))
			return []*Node{h}, ReduceSum(h, 1)
		}},
		"a recurrence inside": {State: [][]int{{4}}, Cell: func(s *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
			inner := models.Call(s, models.RNN{Name: "inner", Units: 4}, Stack([]*Node{state[0], x}, 1))
			h := Tanh(Add(dense(s, "a", state[0], 4), ReduceSum(inner, 1)))
			return []*Node{h}, h
		}},
	} {
		t.Run(name, func(t *testing.T) {
			y, want := apply(t, plain, l, []int{2, 5, 4}, 0, true, false)
			got, gradients := apply(t, lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}}}, l, []int{2, 5, 4}, 0, true, false)
			gradients["the result"], want["the result"] = got, y
			if len(gradients) != len(want) {
				t.Errorf("got gradients for %d arrays, want %d", len(gradients), len(want))
			}
			for of, w := range want {
				for i := range w {
					if len(gradients[of]) != len(w) || !(math.Abs(float64(gradients[of][i]-w[i])) < 2e-5*max(1, math.Abs(float64(w[i])))) {
						t.Errorf("%s: got %v, want %v", of, gradients[of], w)
						break
					}
				}
			}
		})
	}
}
