package fit

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/losses"
	"gaiden/lib/models"
)

// scanned is a net whose recurrence reads what is outside of its cell.
type scanned func(outer *model.Scope, x *Node) func(state []*Node, x *Node) ([]*Node, *Node)

// net has the cell in a Scan, or written time step by time step.
func (s scanned) net(loop bool) models.Net {
	return models.Net{Name: "scanned", Input: []int{4, 2}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := in["x"]
		cell := s(scope, x)
		if loop {
			return models.Call(scope, models.LastStep{}, models.Call(scope, models.Scan{Name: "s", State: [][]int{{3}}, Cell: func(_ *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
				return cell(state, x)
			}}, x))
		}
		state := []*Node{MulScalar(Concatenate([]*Node{Reshape(Slice(x, AxisRange(), AxisElem(0)), -1, 2), Reshape(Slice(x, AxisRange(), AxisElem(0), AxisElem(0)), -1, 1)}, 1), 0)}
		var y *Node
		for k := range 4 {
			state, y = cell(state, Reshape(Slice(x, AxisRange(), AxisElem(k)), -1, 2))
		}
		return y
	}}
}

// TestScanReads holds that what a Scan's cell reads from outside gets the gradient that it has where
// the time steps are written one by one.
func TestScanReads(t *testing.T) {
	s := open(t)
	dense := func(scope *model.Scope, name string, x *Node) *Node {
		return models.Call(scope, models.Dense{Name: name, Units: 3, Act: Tanh}, x)
	}
	data := Data{X: formula("scan/x", 5*8), Y: formula("scan/y", 5*3)}
	for name, of := range map[string]scanned{
		"a node": func(outer *model.Scope, x *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			context := dense(outer, "context", Reshape(x, -1, 8))
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := Add(MulScalar(state[0], 0.5), Mul(dense(outer, "in", x), context))
				return []*Node{h}, h
			}
		},
		"attention": func(outer *model.Scope, x *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			memory := models.Call(outer, models.GRU{Name: "encoder", Units: 3}, x)
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				weights := Softmax(Einsum("nlu,nu->nl", memory, dense(outer, "query", state[0])))
				h := Add(dense(outer, "in", x), Einsum("nl,nlu->nu", weights, memory))
				return []*Node{h}, h
			}
		},
		"two nodes": func(outer *model.Scope, x *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			a, b := dense(outer, "a", Reshape(x, -1, 8)), dense(outer, "b", Reshape(x, -1, 8))
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := Add(Mul(a, state[0]), Mul(b, dense(outer, "in", x)))
				return []*Node{h}, h
			}
		},
	} {
		var got [2]map[string][]float32
		for i, loop := range []bool{true, false} {
			n := attach(t, s, strings.ReplaceAll(name, " ", "-")+[]string{"-loop", ""}[i], of.net(loop), Config{Loss: losses.MSE{}, FirstLook: true})
			if err := n.SetWeights(formulaWeights(n)); err != nil {
				t.Fatal(err)
			}
			set := load(t, n, "scan", data)
			for batch := range set.Batches(5) {
				g := n.Gradients(batch)
				got[i] = map[string][]float32{}
				for _, name := range g.Names() {
					values, err := g.Values(name)
					if err != nil {
						t.Fatal(err)
					}
					got[i][name] = values
				}
			}
		}
		if len(got[0]) < 4 || len(got[0]) != len(got[1]) {
			t.Errorf("%s: %d gradients in a loop, %d without", name, len(got[0]), len(got[1]))
		}
		for of, want := range got[1] {
			largest, off := 0.0, 0.0
			for i, w := range want {
				largest, off = max(largest, math.Abs(float64(w))), max(off, math.Abs(float64(w-got[0][of][i])))
			}
			if largest == 0 || !(off <= 1e-5*largest) {
				t.Errorf("%s: the gradient of %s is off by %g of %g", name, of, off, largest)
			}
		}
	}
}

// TestScanRefuses holds that a Scan's cell has no effect but its results.
func TestScanRefuses(t *testing.T) {
	s := open(t)
	for want, of := range map[string]scanned{
		"the cell draws random numbers, as Dropout does": func(outer *model.Scope, _ *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := models.Call(outer, models.Dropout{Rate: 0.5}, Add(state[0], models.Call(outer, models.Dense{Name: "in", Units: 3}, x)))
				return []*Node{h}, h
			}
		},
		"the cell changes the variable /norm/": func(outer *model.Scope, _ *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := models.Call(outer, models.BatchNorm{Name: "norm"}, Add(state[0], models.Call(outer, models.Dense{Name: "in", Units: 3}, x)))
				return []*Node{h}, h
			}
		},
		"the cell adds to the loss": func(outer *model.Scope, _ *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := Add(state[0], models.Call(outer, models.Dense{Name: "in", Units: 3}, x))
				models.AddLoss(Square(h))
				return []*Node{h}, h
			}
		},
		"from outside, and also what that is made of": func(outer *model.Scope, x *Node) func(state []*Node, x *Node) ([]*Node, *Node) {
			a := models.Call(outer, models.Dense{Name: "a", Units: 3}, Reshape(x, -1, 8))
			b := models.Call(outer, models.Dense{Name: "b", Units: 3}, a)
			return func(state []*Node, x *Node) ([]*Node, *Node) {
				h := Add(Mul(a, state[0]), Add(b, models.Call(outer, models.Dense{Name: "in", Units: 3}, x)))
				return []*Node{h}, h
			}
		},
	} {
		if _, err := Attach(s, "refused", of.net(true), Config{Loss: losses.MSE{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// reading is a layer of one's own that reads a node from outside.
type reading struct{ of *Node }

func (reading) Title() (name, kind string)            { return "reading", "Reading" }
func (l reading) Apply(_ *model.Scope, x *Node) *Node { return Mul(x, l.of) }

// TestRecomputeReads holds that a layer that is computed once more has all gradients or none.
func TestRecomputeReads(t *testing.T) {
	s := open(t)
	for _, again := range []bool{false, true} {
		for _, stop := range []bool{false, true} {
			_, err := Attach(s, "recompute-reads", models.Net{Name: "reads", Input: []int{3}, Function: func(scope *model.Scope, in models.Inputs) *Node {
				context := models.Call(scope, models.Dense{Name: "context", Units: 3}, in["x"])
				if stop {
					context = StopGradient(context)
				}
				return models.Call(scope, models.Repeat{Name: "block", Times: 2, Layer: reading{context}, Recompute: again}, models.Call(scope, models.Dense{Name: "in", Units: 3}, in["x"]))
			}}, Config{Loss: losses.MSE{}})
			if want := "Recompute of a layer that reads (Float32)[2, 3] from outside"; (err != nil) != (again && !stop) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("Recompute %t, StopGradient %t: got %v", again, stop, err)
			}
		}
	}
}
