package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/fit/result"
	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
)

// TestVocab holds that ids which an Embedding does not know are refused wherever it stands, if
// it takes an input as it is, or a column of it where all columns are ids, and whoever has
// uploaded them.
func TestVocab(t *testing.T) {
	s := open(t)
	words := func(vocab int) models.Embedding {
		return models.Embedding{Name: fmt.Sprint("words", vocab), Vocab: vocab, Units: 2}
	}
	of := func(vocab int, take func(scope *model.Scope, ids *Node) *Node) models.Net {
		return models.Net{Name: "of", Inputs: []models.Input{{Name: "ids", Dims: []int{2}, Integers: true, Vocab: vocab}},
			Function: func(scope *model.Scope, in models.Inputs) *Node {
				return models.Call(scope, models.Flatten{}, take(scope, in["ids"]))
			}}
	}
	list := models.Net{Name: "list", Input: []int{2}, Integers: true, Layers: []models.Layer{
		models.Concat{Branches: [][]models.Layer{{words(9)}, {words(5)}}}, models.Flatten{},
	}}
	for i, tt := range []struct {
		net  models.Net
		most int
		want string // of ids above most; "": they are not known
	}{
		{of(0, func(scope *model.Scope, ids *Node) *Node { return models.Call(scope, words(5), ids) }), 4, "input ids of of knows the ids 0 to 4"},
		{of(9, func(scope *model.Scope, ids *Node) *Node { return models.Call(scope, words(5), ids) }), 4, "input ids of of knows the ids 0 to 4"},
		{of(3, func(scope *model.Scope, ids *Node) *Node { return models.Call(scope, words(5), ids) }), 2, "input ids of of knows the ids 0 to 2"},
		{of(0, func(scope *model.Scope, ids *Node) *Node {
			column := func(i int) *Node { return Reshape(Slice(ids, AxisRange(), AxisElem(i)), -1) }
			return Add(models.Call(scope, words(4), column(0)), models.Call(scope, words(5), column(1)))
		}), 4, "knows the ids 0 to 4"},
		{of(0, func(scope *model.Scope, ids *Node) *Node {
			return models.Call(scope, words(5), Max(Rem(ids, Const(ids.Graph(), int32(5))), ZerosLike(ids)))
		}), 4, ""},
		{list, 4, "layer concatenate of list knows the ids 0 to 4"},
	} {
		n := attach(t, s, fmt.Sprint("vocab", i), tt.net, Config{Loss: losses.MSE{}})
		input := func(id int) any {
			if tt.net.Inputs == nil {
				return []int{0, id}
			}
			return Inputs{"ids": []int{0, id}}
		}
		y := make([]float32, map[bool]int{true: 8, false: 4}[tt.net.Inputs == nil])
		if i == 3 {
			y = y[:2]
		}
		if _, err := n.Upload("good", Data{X: input(tt.most), Y: y}); err != nil {
			t.Errorf("%d: id %d: %v", i, tt.most, err)
		}
		_, predicted := n.Predict(input(tt.most + 1))
		_, uploaded := n.Upload("bad", Data{X: input(tt.most + 1), Y: y})
		_, negative := n.Predict(input(-1))
		other := tt.net // knows no ids
		other.Layers, other.Function = []models.Layer{models.Flatten{}, models.Dense{Name: "out", Units: len(y)}}, func(_ *model.Scope, in models.Inputs) *Node {
			x := in["x"]
			if tt.net.Inputs != nil {
				x = in["ids"]
			}
			return ConvertDType(x, dtypes.Float32)
		}
		if other.Inputs != nil {
			other.Inputs = []models.Input{{Name: "ids", Dims: []int{2}, Integers: true}}
		}
		o := attach(t, s, fmt.Sprint("other", i), other, Config{Loss: losses.MSE{}})
		theirs := load(t, o, fmt.Sprint("theirs", i), Data{X: input(tt.most + 1), Y: y})
		_, fitted := n.Fit(theirs, Train{})
		found, err := n.Data(theirs.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, evaluated := n.Evaluate(found)
		for what, err := range map[string]error{"Predict": predicted, "Upload": uploaded, "Predict of -1": negative, "Fit": fitted, "Evaluate": evaluated} {
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%d: %s: got %v, want %q", i, what, err, tt.want)
			}
		}
	}
}

// shifted is a layer that computes ids.
type shifted func(ids *Node) *Node

func (shifted) Title() (name, kind string) { return "shifted", "Own" }

func (f shifted) Apply(_ *model.Scope, ids *Node) *Node { return f(ids) }

// TestComputedIDs holds that ids which a net or a step computes and which an Embedding does not
// know end a training with the layer's name, and are NaN in a prediction, and that ids which come
// as they were uploaded cost nothing.
func TestComputedIDs(t *testing.T) {
	t.Parallel()
	s := open(t)
	words := models.Embedding{Name: "words", Vocab: 10, Units: 2}
	of := func(f func(ids *Node) *Node) models.Net {
		return models.Net{Name: "of", Input: []int{2}, Integers: true, Layers: []models.Layer{shifted(f), words, models.Flatten{}, models.Dense{Name: "out", Units: 1}}}
	}
	plus := func(by float64) func(ids *Node) *Node { return func(ids *Node) *Node { return AddScalar(ids, by) } }
	mse := losses.MSE{}
	for name, tt := range map[string]struct {
		net       models.Net
		config    Config
		good, bad int32
	}{
		"more":         {of(plus(1)), Config{Loss: mse}, 8, 9},
		"less":         {of(plus(-1)), Config{Loss: mse}, 1, 0},
		"long":         {of(func(ids *Node) *Node { return AddScalar(ConvertDType(ids, dtypes.Int64), 1<<40) }), Config{Loss: mse}, -1, 3},
		"joined":       {of(func(ids *Node) *Node { return Concatenate([]*Node{ids, AddScalar(ids, 1)}, 1) }), Config{Loss: mse}, 8, 9},
		"BF16":         {of(plus(1)), Config{Loss: mse, BF16: true}, 8, 9},
		"a column":     {of(func(ids *Node) *Node { return Slice(ids, AxisRange(), AxisElem(1)) }), Config{Loss: mse}, 9, 10},
		"some of them": {of(func(ids *Node) *Node { return Reverse(Slice(ids, AxisRange(), AxisElem(1)), 0) }), Config{Loss: mse}, 9, -1},
		"a step": {models.Net{Name: "of", Input: []int{2}, Integers: true, Layers: []models.Layer{words, models.Flatten{}, models.Dense{Name: "out", Units: 1}}},
			Config{Step: func(s *step.Step) { s.Minimize(losses.Mean(mse, s.Forward(AddScalar(s.X, 1)), s.Y)) }}, 8, 9},
	} {
		n := attach(t, s, "ids", tt.net, tt.config)
		fit := func(id int32) error {
			ids := slices.Repeat([]int32{5}, 8)
			ids[5] = id
			if name == "a column" { // the other one has numbers
				ids[4] = 70
			}
			_, err := n.Fit(load(t, n, fmt.Sprint("ids", id), Data{X: ids, Y: make([]float32, 4)}), Train{Batch: 2, Epochs: 2, InOrder: true})
			return err
		}
		if tt.good >= 0 {
			if err := fit(tt.good); err != nil {
				t.Errorf("%s: id %d: %v", name, tt.good, err)
			}
		}
		if tt.bad >= 0 {
			var wrong *result.NotFiniteError
			if err := fit(tt.bad); !errors.As(err, &wrong) || tt.config.Step == nil && wrong.Layer != "words" {
				t.Errorf("%s: id %d: got %v, want one that names the layer", name, tt.bad, err)
			}
		}
		if p, err := n.Predict([]int32{5, 5, 5, tt.bad}); tt.config.Step == nil && tt.bad >= 0 && (err != nil || !math.IsNaN(float64(p.Output[1])) || tt.good >= 0 && math.IsNaN(float64(p.Output[0]))) {
			t.Errorf("%s: predicted %v, %v, want NaN for the second example", name, p, err)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"as they are": false, "computed": true} {
		net := of(plus(0))
		if !want {
			net.Layers = net.Layers[1:]
		}
		n := attach(t, s, "cost", net, Config{Loss: mse})
		set := load(t, n, "cost", Data{X: make([]int32, 8), Y: make([]float32, 4)})
		p, err := n.testProgram(set, 4, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		if p.Has("select") != want {
			t.Errorf("ids %s: the program checks them: %t", name, p.Has("select"))
		}
	}
}
