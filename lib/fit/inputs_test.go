package fit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
)

// table is a net on ids and numbers; the table of its ids serves two inputs.
func table() models.Net {
	words := models.Embedding{Name: "words", Vocab: 7, Units: 4}
	return models.Net{Name: "table", Inputs: []models.Input{
		{Name: "ids", Dims: []int{3}, Integers: true, Vocab: 7},
		{Name: "numbers", Dims: []int{5}},
		{Name: "also", Integers: true, Vocab: 7},
	}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		ids, also := models.Call(scope, words, in["ids"]), models.Call(scope, words, in["also"]) // [n 3 4], [n 4]
		return Concatenate([]*Node{ReduceMean(ids, 1), also, in["numbers"]}, -1)                 // [n 13]
	}, Layers: []models.Layer{models.Dense{Name: "output", Units: 3}}}
}

// tableData has labels that each of the inputs tells a part of.
func tableData(n int) Data {
	ids, numbers, also, y := make([]int64, 3*n), make([]float64, 5*n), make([]uint8, n), make([]int32, n)
	for i := range n {
		y[i] = int32(i % 3)
		for k := range 3 {
			ids[3*i+k] = int64((i + k) % 7)
		}
		also[i] = uint8(2 * (i % 3))
		numbers[5*i+i%3] = 1
	}
	return Data{X: Inputs{"ids": ids, "numbers": numbers, "also": also}, Y: y}
}

func TestSeveralInputs(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, c := range []Config{{Seed: 1, FirstLook: true}, {Seed: 1, BF16: true}, {Seed: 1}, {Seed: 1, Devices: 2, AllDevices: true}} {
		n := attach(t, s, "table", table(), c)
		if i == 2 {
			n.loop = plan.SingleSteps
		}
		set := load(t, n, "t/train", tableData(60))
		h, err := n.Fit(set, Train{Epochs: 20, Batch: 10, LearningRate: 0.02, Validation: load(t, n, "t/test", tableData(11))})
		if err != nil {
			t.Fatal(err)
		}
		if e := h.Last(); e.Train.Accuracy() < 0.99 || e.Validation.Accuracy() < 0.99 {
			t.Errorf("%+v: got accuracies %v and %v, want 1", c, e.Train.Accuracy(), e.Validation.Accuracy())
		}
		if w := n.layout.variables; len(w) != 4 || w[1].name != "words/weights" { // random numbers, one table, the dense layer
			t.Errorf("got variables %v, want one table", w)
		}
		again, err := n.Data("t/train")
		if err != nil {
			t.Fatal(err)
		}
		x := tableData(60).X
		for _, of := range []any{again, x, set} {
			p, err := n.Predict(of)
			if err != nil || !slices.Equal(p.Classes, set.Labels) {
				t.Errorf("Predict(%T): got %v, %v, want %v", of, p, err, set.Labels)
			}
		}
		if c.BF16 || c.Devices > 1 {
			n.Reset()
			continue
		}
		if _, err := n.Phases(set, 10); err != nil {
			t.Error(err)
		}
		job, err := n.FitJob(again, Train{Epochs: 2, Batch: 10})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := job.Follow(t.Context(), nil); err != nil || len(h.Epochs) != 2 {
			t.Errorf("job: got %v, %v", h, err)
		}
		fresh := attach(t, s, "fresh", table(), c)
		if found := load(t, fresh, "t/train", tableData(60)); found.Fresh || found.key() != set.key() {
			t.Errorf("the same data once more: got %s, fresh %t", found.key(), found.Fresh)
		}
		n.Reset()
		fresh.Reset()
	}
}

// TestExamples holds what examples may be, and what is said of others.
func TestExamples(t *testing.T) {
	t.Parallel()
	s := open(t)
	two := func(integers bool) models.Net {
		return models.Net{Name: "net", Input: []int{2}, Integers: integers, Function: func(scope *model.Scope, in models.Inputs) *Node {
			return models.Call(scope, models.Dense{Name: "out", Units: 1}, ConvertDType(in["x"], dtypes.Float32))
		}}
	}
	numbers := []float32{1, 0, 0, 1}
	data := func(change func(Inputs)) any {
		x := Inputs{"ids": []int{1, 2, 3, 4, 5, 6}, "numbers": make([]float32, 10), "also": []int32{0, 1}}
		change(x)
		return x
	}
	type named [2]float32
	for _, tt := range []struct {
		name string
		net  models.Net
		x    any
		want any // []float32 or []int32: x; string: an error
	}{
		{"float32", two(false), numbers, numbers},
		{"float64", two(false), []float64{1, 0, 0, 1}, numbers},
		{"bool", two(false), []bool{true, false, false, true}, numbers},
		{"rows", two(false), [][]float32{{1, 0}, {0, 1}}, numbers},
		{"rows of float64", two(false), [][]float64{{1, 0}, {0, 1}}, numbers},
		{"arrays", two(false), []named{{1, 0}, {0, 1}}, numbers},
		{"rows of integers", two(true), [][]int{{1, 0}, {0, 1}}, []int32{1, 0, 0, 1}},
		{"bools as integers", two(true), []bool{true, false, false, true}, []int32{1, 0, 0, 1}},
		{"int64", two(true), []int64{1, 1 << 40, 1, 1}, "number 1 of the examples is 1.099511627776e+12: want integers within the range of int32"},
		{"integers", two(false), []int32{1, 0, 0, 1}, "examples are a []int32: want []byte, []float32 or []float64; for ids, Integers set in net"},
		{"ragged rows", two(false), [][]float32{{1, 0}, {0}}, "examples: row [1] has length 1, and those before it 2"},
		{"wide rows", two(false), [][]float32{{1, 0, 1, 1}}, "got 1 example of [4], want 2 numbers in each: "},
		{"strings", two(false), []string{"a", "b"}, "examples are a []string: want []byte"},
		{"inputs of one", two(false), Inputs{"x": numbers}, "examples are several inputs, "},
		{"one of several", table(), numbers, `examples are a []float32: want fit.Inputs with "ids", "numbers", "also", the inputs of table`},
		{"none", table(), nil, `Data has no X: want the examples, as fit.Inputs with "ids"`},
		{"missing", table(), data(func(x Inputs) { delete(x, "numbers") }), `examples have no input "numbers": want fit.Inputs with "ids"`},
		{"unknown", table(), data(func(x Inputs) { x["pears"] = numbers }), `examples have an input "pears": want fit.Inputs`},
		{"another number", table(), data(func(x Inputs) { x["numbers"] = make([]float32, 15) }), "2 examples of ids but 3 of numbers"},
		{"no multiple", table(), data(func(x Inputs) { x["numbers"] = make([]float32, 9) }), "got 9 numbers, want a multiple of 5: input numbers of table takes [5]"},
		{"unknown id", table(), data(func(x Inputs) { x["ids"] = []int{1, 2, 3, 4, 5, 7} }), "number 5 of the examples is 7: input ids of table knows the ids 0 to 6"},
		{"NaN id", table(), data(func(x Inputs) { x["also"] = []float64{0, math.NaN()} }), "number 1 of the examples is NaN: want integers"},
	} {
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), tt.net, Config{FirstLook: true})
		y := any([]float32{1, 2})
		if tt.net.Inputs != nil {
			y = []int{1, 2}
		}
		set, err := n.Upload("d", Data{X: tt.x, Y: y})
		if want, wrong := tt.want.(string); wrong {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", tt.name, err, want)
			}
			if _, err := n.Predict(tt.x); tt.x != nil && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: Predict: got %v, want %q", tt.name, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var same bool
		switch want := tt.want.(type) {
		case []float32:
			got := make([]float32, len(want))
			same = set.array("x").Values(got) == nil && slices.Equal(got, want)
		case []int32:
			got := make([]int32, len(want))
			same = set.array("x").Values(got) == nil && slices.Equal(got, want)
		}
		if !same {
			t.Errorf("%s: the session has other examples", tt.name)
		}
	}
	inferred := New("inferred", models.Net{Name: "net", Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "out", Units: 1}}}, Config{Session: s, FirstLook: true})
	if _, err := inferred.Upload("d", Data{X: [][]float32{{1, 0, 2}, {0, 1, 2}}, Y: []float32{1, 2}}); err != nil || !slices.Equal(inferred.Model().Input, []int{3}) {
		t.Errorf("a net without Input: got %v, %v, want [3]", inferred.Model().Input, err)
	}
	n := attach(t, s, "other", table(), Config{})
	if _, err := n.Predict(load(t, attach(t, s, "one", linear(1), Config{}), "pairs", Data{X: numbers, Y: []float32{1, 2}})); err == nil || !strings.Contains(err.Error(), `got the inputs x, want fit.Inputs with "ids"`) {
		t.Errorf("a set of a net with one input: got %v", err)
	}
}

// gap is a loss of your own: of what the net returns without targets, or of targets of
// another width.
type gap struct{ targets int }

func (gap) Title() string { return "gap" }

func (l gap) Apply(out, y, v *Node) (loss, weight *Node) {
	if (y == nil) != (l.targets == 0) || y != nil && y.Shape().Dimensions[1] != l.targets {
		panic("targets of another width")
	}
	loss = ReduceSum(Square(AddScalar(out, -3)), 1)
	if y != nil {
		loss = Add(loss, ReduceSum(Square(Sub(y, Slice(out, AxisRange(), AxisRange(0, 1)))), 1))
	}
	return loss, nil
}

// TestNoTargets holds targets that are the examples, of each type, and none at all.
func TestNoTargets(t *testing.T) {
	t.Parallel()
	s := open(t)
	auto := models.Net{Name: "auto", Input: []int{4}, Layers: []models.Layer{models.Dense{Name: "code", Units: 2}, models.Dense{Name: "out", Units: 4}}}
	copies := models.Net{Name: "copies", Input: []int{4}, Layers: []models.Layer{models.Embedding{Name: "in", Vocab: 5, Units: 6}, models.Dense{Name: "out", Units: 5}}}
	floats, bytes, ids := make([]float32, 80), make([]byte, 80), make([]int, 80)
	for i := range floats {
		floats[i], bytes[i], ids[i] = float32(i%5)/5, byte(51*(i%5)), i%5
	}
	for _, tt := range []struct {
		name   string
		net    models.Net
		config Config
		d      Data
		want   string // an error
	}{
		{"floats", auto, Config{Loss: losses.MSE{}}, Data{X: floats, Y: SameX}, ""},
		{"by default", auto, Config{}, Data{X: floats, Y: SameX}, ""},
		{"bytes", auto, Config{Loss: losses.BinaryCrossEntropy{}}, Data{X: bytes, Y: SameX}, ""},
		{"ids", copies, Config{Loss: losses.CrossEntropy{}}, Data{X: ids, Y: SameX}, ""},
		{"no targets", auto, Config{Loss: gap{}}, Data{X: floats}, ""},
		{"targets of another width", auto, Config{Loss: gap{2}}, Data{X: floats, Y: make([]float32, 40)}, ""},
		{"no targets for MSE", auto, Config{Loss: losses.MSE{}}, Data{X: floats}, "Data has no Y"},
		{"numbers as classes", auto, Config{Loss: losses.CrossEntropy{}}, Data{X: floats, Y: SameX}, "got numbers as targets, want labels"},
		{"metrics without targets", auto, Config{Loss: gap{}, Metrics: []metrics.Metric{metrics.MAE{}}}, Data{X: floats}, "which has no targets"},
		{"metrics of another width", auto, Config{Loss: gap{2}, Metrics: []metrics.Metric{metrics.MAE{}}}, Data{X: floats, Y: make([]float32, 40)}, "2 an example, and the net returns [4]"},
		{"metrics", auto, Config{Loss: losses.MSE{}, Metrics: []metrics.Metric{metrics.MAE{}}}, Data{X: floats, Y: SameX}, ""},
		{"another width", linear(2), Config{Loss: losses.MSE{}}, Data{X: floats, Y: SameX}, ""},
		{"wider", linear(3), Config{Loss: losses.MSE{}}, Data{X: floats, Y: SameX}, "got 2 numbers an example, want 3"},
		{"no probabilities", auto, Config{Loss: losses.BinaryCrossEntropy{}}, Data{X: slices.Repeat([]float32{2}, 80), Y: SameX}, "want a probability"},
		{"weights", auto, Config{Loss: losses.MSE{}}, Data{X: floats, Y: SameX, V: floats}, "got 80 weights in V"},
		{"inputs", table(), Config{}, Data{X: tableData(4).X, Y: SameX}, "got the 3 inputs of table: want one of them as Y"},
	} {
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), tt.net, tt.config)
		set, err := n.Upload("auto/"+n.name, tt.d)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		h, err := n.Fit(set, Train{Epochs: 60, Batch: 10, LearningRate: 0.02})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if first, last := h.Epochs[0].Train.Loss, h.Last().Train.Loss; !(last < 0.95*first) {
			t.Errorf("%s: the loss went from %g to %g, want less", tt.name, first, last)
		}
		found, err := attach(t, s, "reader", tt.net, tt.config).Data(set.Name)
		if err != nil || found.key() != set.key() {
			t.Errorf("%s: found %v, %v, want %s", tt.name, found, err, set.key())
			continue
		}
		a, err1 := n.Evaluate(set)
		b, err2 := n.Evaluate(found)
		if err1 != nil || err2 != nil || a.Loss != b.Loss {
			t.Errorf("%s: got %v, %v and %v, %v of the same set", tt.name, a, err1, b, err2)
		}
		attach(t, s, "reader", tt.net, tt.config).Reset()
	}
	plain := attach(t, s, "plain", auto, Config{Loss: losses.MSE{}})
	none, err := plain.Data("auto/no-targets")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Evaluate(none); err == nil || !strings.Contains(err.Error(), "got no targets, want numbers") {
		t.Errorf("a set without targets: got %v", err)
	}
}

// TestSeveralOutputs holds a net with two results and a loss for each.
func TestSeveralOutputs(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "two", Input: []int{3}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Dense{Name: "body", Units: 12, Act: models.ReLU}, in["x"])
		return Concatenate([]*Node{models.Call(scope, models.Dense{Name: "class", Units: 3}, x), models.Call(scope, models.Dense{Name: "size", Units: 1}, x)}, -1)
	}}
	n := attach(t, s, "net", net, Config{Seed: 1, Loss: losses.Joint{{Name: "class", Size: 3, Loss: losses.CrossEntropy{}}, {Name: "size", Size: 1, Loss: losses.MSE{}, Weight: 2}},
		Metrics: []metrics.Metric{metrics.Of{Part: "class", Metric: metrics.Accuracy{}}, metrics.Of{Part: "size", Metric: metrics.MAE{}}}})
	x, y := make([]float32, 180), make([]float32, 120)
	for i := range 60 {
		x[3*i+i%3] = 1
		y[2*i], y[2*i+1] = float32(i%3), float32(i%3)-1
	}
	set := load(t, n, "d", Data{X: x, Y: y})
	h, err := n.Fit(set, Train{Epochs: 60, Batch: 10, LearningRate: 0.02, Validation: set, Monitor: "class_accuracy", Patience: 100})
	if err != nil {
		t.Fatal(err)
	}
	score := h.Last().Validation
	p, err := n.Predict(x[:9])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		row := p.Output[4*i : 4*i+4]
		if class := slices.Index(row[:3], slices.Max(row[:3])); class != i || math.Abs(float64(row[3])-float64(i-1)) > 0.1 {
			t.Errorf("example %d: got %v, want class %d and %d", i, row, i, i-1)
		}
	}
	if class, size := score.Metric("class_accuracy"), score.Metric("size_mae"); class != 1 || !(0 < size && size < 0.1) {
		t.Errorf("class_accuracy is %g and size_mae %g, want 1 and a little more than 0", class, size)
	}
	for want, m := range map[string]metrics.Metric{`of part "color": want one of class`: metrics.Of{Part: "color", Metric: metrics.MAE{}}, "want metrics.Of{Part:": metrics.MAE{}} {
		if _, err := attach(t, s, "wrong", net, Config{Loss: n.Config().Loss, Metrics: []metrics.Metric{m}}).Upload("d", Data{X: x, Y: y}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// A size that is not known has weight 0: the score is the mean of those that are, also
	// where the last batch is a part of one.
	y[1], y[5] = float32(math.NaN()), float32(math.NaN())
	v := slices.Repeat([]float32{1}, 120)
	v[1], v[5] = 0, 0
	some := load(t, n, "some", Data{X: x, Y: y, V: v})
	if _, err := n.Fit(some, Train{Epochs: 1, Batch: 7, Validation: some}); err != nil {
		t.Error(err)
	}
	if _, err := n.Fit(some, Train{Batch: 10, Accumulate: 2}); err == nil || !strings.Contains(err.Error(), "loss of a whole batch") {
		t.Errorf("weights and Accumulate: got %v", err)
	}
	if p, err = n.Predict(x); err != nil {
		t.Fatal(err)
	}
	var square, absolute, cross float64
	for i := range 60 {
		row := p.Output[4*i : 4*i+4]
		cross += math.Log(math.Exp(float64(row[0]))+math.Exp(float64(row[1]))+math.Exp(float64(row[2]))) - float64(row[i%3])
		if v[2*i+1] != 0 {
			d := float64(row[3] - y[2*i+1])
			square, absolute = square+d*d, absolute+math.Abs(d)
		}
	}
	if score, err = n.Evaluate(some); err != nil || math.Abs(score.Loss-cross/60-2*square/58) > 1e-5 || math.Abs(score.Metric("size_mae")-absolute/58) > 1e-5 {
		t.Errorf("with weights: got %v, %v, want loss %g and size_mae %g", score, err, cross/60+2*square/58, absolute/58)
	}
	for want, y := range map[string][]float32{"target 0 of example 0 is 3: want a label, 0 to 2, in part class": {3, 0}, "is NaN: want a finite number, or weight 0": {0, float32(math.NaN())}, "1 target numbers for 1 examples": {3}} {
		if _, err := n.Upload("e", Data{X: x[:3], Y: y}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := attach(t, s, "none", net, Config{}).Upload("e", Data{X: x, Y: SameX}); err == nil {
		t.Error("want an error for targets of another size")
	}
	if err := New("bad", net, Config{Loss: losses.Joint{}, Session: s}).Reset(); err != nil {
		t.Error(err)
	} else if _, err := New("bad", net, Config{Loss: losses.Joint{}, Session: s}).Weights(); err == nil || !strings.Contains(err.Error(), "no parts") {
		t.Errorf("got %v, want no parts", err)
	}
}
