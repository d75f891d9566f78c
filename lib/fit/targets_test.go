package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestTargets holds which targets each loss takes, as what, and that others are refused at
// Load with what was got and what is wanted.
func TestTargets(t *testing.T) {
	t.Parallel()
	s := open(t)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	type class int16
	type own struct{ losses.MSE } // a loss of your own
	x := make([]float32, 4)       // two examples
	type row struct {
		name  string
		units int
		loss  losses.Loss
		y     any
		v     []float32
		want  any // []int32: labels; []float32: numbers; string: an error
	}
	tests := []row{
		{"floats", 3, nil, []float32{1, 0, 0, 0, 1, 0}, nil, []float32{1, 0, 0, 0, 1, 0}},
		{"one-hot", 3, losses.CrossEntropy{}, []float32{1, 0, 0, 0, 0, 1}, nil, []int32{0, 2}},
		{"one-hot in float64", 3, losses.CrossEntropy{}, []float64{0, 1, 0, 0, 0, 1}, nil, []int32{1, 2}},
		{"one-hot in integers", 3, losses.CrossEntropy{}, []uint8{0, 1, 0, 1, 0, 0}, nil, []int32{1, 0}},
		{"labels as floats", 3, losses.CrossEntropy{}, []float32{2, 0}, nil, []int32{2, 0}},
		{"labels of one unit", 1, losses.CrossEntropy{}, []int32{0, 0}, nil, "one class: want a unit for each class, or numbers as []float32 with losses.BinaryCrossEntropy"},
		{"labels of one unit, without a loss", 1, nil, []int32{0, 0}, nil, "one class: want a unit for each class"},
		{"float labels of one unit", 1, losses.CrossEntropy{}, []float32{0, 0}, nil, "one class: want a unit for each class"},
		{"labels as floats, without a loss", 3, nil, []float32{2, 0}, nil, "got 1 number an example, want 3: layer out of linear returns [3]; for labels of classes, want integers, such as []int32"},
		{"ignored labels as floats", 3, losses.CrossEntropy{IgnoreNegative: true}, []float64{-1, 2}, nil, []int32{-1, 2}},
		{"labels of parts", 4, losses.Joint{{Name: "a", Size: 2, Loss: losses.CrossEntropy{}}, {Name: "b", Size: 2, Loss: losses.CrossEntropy{}}}, []int{1, 0, 0, 1}, nil, []float32{1, 0, 0, 1}},
		{"too few labels of parts", 4, losses.Joint{{Name: "a", Size: 2, Loss: losses.CrossEntropy{}}, {Name: "b", Size: 2, Loss: losses.CrossEntropy{}}}, []int{1, 0}, nil, "2 target numbers for 2 examples: the parts of losses.Joint want 2 for each"},
		{"no label", 3, losses.CrossEntropy{}, []float32{2, 0.5}, nil, "target 1 is 0.5: cross entropy wants labels, 0 to 2"},
		{"no number", 3, losses.CrossEntropy{}, []float32{2, nan}, nil, "target 1 is NaN"},
		{"probabilities", 3, losses.CrossEntropy{}, []float32{0.5, 0.5, 0, 0, 1, 0}, nil, "targets of example 0 are 0.5 0.5 0: cross entropy wants one label an example, as []int32, or rows with one 1 and zeros; for probabilities want losses.KLDivergence"},
		{"two ones", 3, losses.CrossEntropy{}, []float32{1, 0, 0, 1, 0, 1}, nil, "targets of example 1 are 1 0 1"},
		{"no one", 3, losses.CrossEntropy{}, []float32{1, 0, 0, 0, 0, 0}, nil, "targets of example 1 are all 0"},
		{"another width", 3, losses.CrossEntropy{}, []float32{1, 0, 0, 0}, nil, "4 target numbers for 2 examples: cross entropy wants one label an example, as []int32, or one-hot rows of 3"},
		{"labels of MSE", 3, losses.MSE{}, []int32{0, 0}, nil, "targets are a []int32 of 2 numbers for 2 examples, such as labels are: mean squared error wants 3 numbers an example; for labels want losses.CrossEntropy"},
		{"integers of MSE", 1, losses.MSE{}, []int{3, -4}, nil, []float32{3, -4}},
		{"integers of visibility", 1, losses.Visibility{}, []uint16{3, 4}, nil, []float32{3, 4}},
		{"integers that float32 rounds", 1, losses.MSE{}, []int64{1 << 24, 1<<24 + 1}, nil, "target 1 is 16777217, which float32 rounds"},
		{"integers beyond", 1, losses.MSE{}, []uint64{1, math.MaxUint64}, nil, "target 1 is 18446744073709551615"},
		{"too few numbers", 3, losses.MSE{}, []float32{1, 2}, nil, "targets of d: got 1 number an example, want 3"},
		{"NaN", 1, nil, []float32{1, nan}, nil, "target 0 of example 1 is NaN: want a finite number"},
		{"Inf", 1, losses.MSE{}, []float32{-inf, 1}, nil, "target 0 of example 0 is -Inf"},
		{"beyond float32", 1, losses.MSE{}, []float64{1, -1e39}, nil, "number 1 of the targets is -1e+39"},
		{"NaN that counts", 1, losses.Visibility{}, []float32{nan, 1}, []float32{1, 0}, "target 0 of example 0 is NaN"},
		{"NaN that does not", 1, losses.Visibility{}, []float32{nan, 1}, []float32{0, 1}, []float32{nan, 1}},
		{"NaN for the blind", 1, losses.Visibility{Blind: true}, []float32{nan, 1}, []float32{0, 1}, "target 0 of example 0 is NaN: want a finite number, for Blind counts all"},
		{"all ignored", 3, losses.CrossEntropy{IgnoreNegative: true}, []int32{-100, -1}, nil, "every label is below 0 or has weight 0"},
		{"some ignored, others without weight", 3, losses.CrossEntropy{IgnoreNegative: true}, []int32{-100, 1}, []float32{1, 0}, "every label is below 0 or has weight 0"},
		{"nothing counts", 1, losses.Visibility{}, []float32{1, 1}, []float32{0, 0}, "every weight in V is 0"},
		{"negative weight", 1, losses.Visibility{}, []float32{1, 1}, []float32{1, -1}, "weight 0 of example 1 is -1: want 0 or more"},
		{"weight that is no number", 1, losses.Visibility{}, []float32{1, 1}, []float32{nan, 1}, "weight 0 of example 0 is NaN"},
		{"endless weight", 1, losses.Visibility{}, []float32{1, 1}, []float32{inf, 1}, "weight 0 of example 0 is +Inf"},
		{"too few weights", 1, losses.Visibility{}, []float32{1, 1}, []float32{1}, "1 weights in V for 2 target numbers"},
		{"weights of MSE", 1, losses.MSE{}, []float32{nan, 1}, []float32{0, 1}, []float32{nan, 1}},
		{"weights of examples", 3, nil, []float32{1, 1, 1, nan, 1, 1}, []float32{1, 0}, []float32{1, 1, 1, nan, 1, 1}},
		{"hinge", 1, losses.Hinge{}, []float32{1, 0}, nil, "target 0 of example 1 is 0: want -1 or 1, for hinge loss"},
		{"Poisson", 1, losses.Poisson{}, []float32{1, -2}, nil, "target 0 of example 1 is -2: want a count, 0 or more, for Poisson loss"},
		{"contrastive", 3, losses.Contrastive{}, []int{1000, -7}, nil, []int32(nil)},
		{"contrastive numbers", 3, losses.Contrastive{}, []float32{1, 2}, nil, "got numbers as targets, want one label an example"},
		{"CTC", 3, losses.CTC{}, []int{1, 2}, nil, "got a net that returns [3], want one that returns [steps classes]"},
		{"weights of your own", 1, own{}, []float32{1, 1}, []float32{1, 0}, []float32{1, 1}},
		{"weights of labels", 3, nil, []int32{1, 1}, []float32{1, 1, 1}, "3 weights in V for 2 labels of 2 examples: want one for each target or example"},
		{"strings", 1, nil, []string{"a", "b"}, nil, "targets are a []string: want labels as []int32"},
		{"booleans", 2, losses.CrossEntropy{}, []bool{true, false}, nil, []int32{1, 0}},
		{"booleans as numbers", 1, losses.MSE{}, []bool{true, false}, nil, []float32{1, 0}},
		{"one number", 1, nil, 7, nil, "targets are a int"},
		{"nothing", 1, nil, nil, nil, "Data has no Y"},
		{"empty", 1, nil, []float32{}, nil, "2 examples but 0 target numbers"},
	}
	for _, y := range []any{[]int{2, 1}, []int8{2, 1}, []int16{2, 1}, []int32{2, 1}, []int64{2, 1}, []uint{2, 1}, []uint8{2, 1}, []uint16{2, 1}, []uint32{2, 1}, []uint64{2, 1}, []class{2, 1}} {
		tests = append(tests, row{"labels", 3, nil, y, nil, []int32{2, 1}}, row{"labels of cross entropy", 3, losses.CrossEntropy{}, y, nil, []int32{2, 1}},
			row{"labels that are too large", 2, nil, y, nil, "label 0 is 2: layer out of linear has 2 classes"})
	}
	tests = append(tests, row{"negative label", 3, nil, []int64{0, -1}, nil, "label 1 is -1"}, row{"large label", 3, nil, []uint64{0, 1 << 63}, nil, "label 1 is 9223372036854775808"})
	for _, tt := range tests {
		n := attach(t, s, "net"+itoa(tt.units), linear(tt.units), Config{Loss: tt.loss, FirstLook: true})
		set, err := n.Upload("d", Data{X: x, Y: tt.y, V: tt.v})
		if want, is := tt.want.(string); is {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %T: got %v, want %q", tt.name, tt.y, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %T: %v", tt.name, tt.y, err)
			continue
		}
		if want, is := tt.want.([]int32); is {
			if !slices.Equal(set.Labels, want) {
				t.Errorf("%s %T: got labels %v, want %v", tt.name, tt.y, set.Labels, want)
			}
			continue
		}
		want := tt.want.([]float32)
		got := make([]float32, len(want))
		if err := set.array("y").Values(got); err != nil || !slices.EqualFunc(got, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s %T: got %v, %v, want %v", tt.name, tt.y, got, err, want)
		}
	}
}

// TestTargetsOfOthers holds that a set that was loaded for another loss is refused by each
// use that would measure it.
func TestTargetsOfOthers(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	of := func(l losses.Loss) *Net { return attach(t, s, "net", linear(2), Config{Loss: l, FirstLook: true}) }
	x := make([]float32, 4)
	labels := load(t, of(nil), "labels", Data{X: x, Y: []int32{0, 1}})
	numbers := load(t, of(nil), "numbers", Data{X: x, Y: make([]float32, 4)})
	deep := attach(t, s, "deep", models.Net{Name: "deep", Input: []int{2, 1}, Layers: []models.Layer{models.Dense{Name: "out", Units: 2}}}, Config{FirstLook: true})
	for _, tt := range []struct {
		name string
		net  *Net
		set  *Set
		want string
	}{
		{"numbers", of(losses.CrossEntropy{}), numbers, "cross entropy of numbers: got numbers as targets, want labels"},
		{"labels", of(losses.MSE{}), labels, "mean squared error of labels: got labels, want numbers"},
		{"labels", of(losses.Visibility{}), labels, "visibility of labels: got labels, want numbers"},
		{"numbers", of(losses.Contrastive{}), numbers, "contrastive loss of numbers: got numbers as targets, want one label an example"},
		{"classes at each position", deep, labels, "targets of labels: got 1 labels an example, want 2: layer out of deep returns [2 2]"},
	} {
		_, trained := tt.net.WithContext(ctx).Fit(tt.set, Train{})
		_, tested := tt.net.WithContext(ctx).Evaluate(tt.set)
		_, phases := tt.net.WithContext(ctx).Phases(tt.set, 1)
		_, job := tt.net.FitJob(tt.set, Train{})
		for k, err := range []error{trained, tested, phases, job} {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, use %d: got %v, want %q", tt.name, k, err, tt.want)
			}
		}
	}
}

// TestUnseen holds that what has weight 0 counts nothing: not a target that is no number,
// nor a batch in which nothing has a weight, in Test, Train, a job and phases.
func TestUnseen(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	nan := float32(math.NaN())
	for _, loss := range []losses.Loss{losses.Visibility{}, losses.Visibility{Explicit: true}} {
		n := attach(t, s, "net", linear(2), Config{Loss: loss, Optimizer: optim.SGD{LearningRate: 0.125}, FirstLook: true})
		first := []Tensor{{Name: "out/weights", Dims: []int{2, 2}, Data: []float32{1, 0, 0, 1}}, {Name: "out/biases", Dims: []int{2}, Data: []float32{0, 0}}}
		// out is x: (1, 2), (3, 4), (5, 6)
		x, v := []float32{1, 2, 3, 4, 5, 6}, []float32{1, 0, 0, 0, 1, 1}
		torn := load(t, n, "torn", Data{X: x, Y: []float32{0, nan, nan, nan, 5, 5}, V: v})
		zero := load(t, n, "zero", Data{X: x, Y: []float32{0, 0, 0, 0, 5, 5}, V: v})
		var last []float32
		for _, set := range []*Set{zero, torn} {
			if err := n.SetWeights(first); err != nil {
				t.Fatal(err)
			}
			score, err := n.WithContext(ctx).Evaluate(set)
			if err != nil {
				t.Fatal(err)
			}
			if want := (1.0 + 1) / 1.5; math.Abs(score.Loss-want) > 1e-6 { // squares of 1 and 1, 1½ joints
				t.Errorf("%+v: test of %s: got %v, want %v", loss, set.Name, score.Loss, want)
			}
			h, err := n.WithContext(ctx).Fit(set, Train{Batch: 1, InOrder: true, Epochs: 2})
			if err != nil {
				t.Fatalf("%+v: %s: %v", loss, set.Name, err)
			}
			if h.Losses[0] != 2 || h.Losses[1] != 0 || h.Losses[4] != 0 { // 1² of half a joint, nothing
				t.Errorf("%+v: losses of %s: got %v, want 2, 0, …, 0", loss, set.Name, h.Losses)
			}
			got := flatWeights(t, n)
			for _, w := range got {
				if w != w {
					t.Fatalf("%+v: weights after %s: got %v", loss, set.Name, got)
				}
			}
			if last != nil && !slices.Equal(got, last) {
				t.Errorf("%+v: weights: got %v, want %v as with zeros in place of NaN", loss, got, last)
			}
			last = got
		}
		value, gradients := oneStep(t, n, Data{X: []float32{3, 4, 1, 1}, Y: []float32{nan, nan, 1, nan}, V: []float32{0, 0, 1, 0}}, 1)
		_ = value
		for name, g := range gradients {
			for _, x := range g {
				if x != x {
					t.Errorf("%+v: gradient of %s is %v", loss, name, g)
				}
			}
		}
		if err := n.SetWeights(first); err != nil {
			t.Fatal(err)
		}
		j, err := n.FitJob(torn, Train{Batch: 1, InOrder: true, Epochs: 2, Validation: torn})
		if err != nil {
			t.Fatal(err)
		}
		h, err := j.Follow(ctx, nil)
		if err != nil || h.Losses[1] != 0 || h.Losses[4] != 0 || math.IsNaN(h.Last().Validation.Loss) || math.IsNaN(h.Last().Train.Loss) {
			t.Errorf("%+v: job: got %v, %v", loss, h, err)
		}
		if got := flatWeights(t, n); !slices.Equal(got, last) {
			t.Errorf("%+v: weights after a job: got %v, want %v", loss, got, last)
		}
	}
}

// TestNaNValidation holds that a run that ends by a validation's loss that is no number
// says so.
func TestNaNValidation(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	n := attach(t, s, "net", linear(2), Config{Seed: 1, FirstLook: true})
	data := load(t, n, "d", Data{X: []float32{1, 2, 3, 4}, Y: []int32{0, 1}})
	torn := load(t, n, "torn", Data{X: []float32{1, float32(math.Inf(1)), 3, 4}, Y: []int32{0, 1}})
	run := Train{Epochs: 5, Validation: torn, Patience: 2}
	h, err := n.WithContext(ctx).Fit(data, run)
	if want := "loss of the validation is NaN, and was no finite number for 2 epochs"; err != nil || h.Stopped != want || len(h.Epochs) != 2 {
		t.Errorf("got %q after %d epochs, %v, want %q after 2", h.Stopped, len(h.Epochs), err, want)
	}
	j, err := n.FitJob(data, run)
	if err != nil {
		t.Fatal(err)
	}
	h, err = j.Follow(ctx, nil)
	if want := "validation is NaN, and was no finite number for 2 periods"; err != nil || h.Stopped != want || len(h.Epochs) != 2 {
		t.Errorf("job: got %q after %d epochs, %v, want %q after 2", h.Stopped, len(h.Epochs), err, want)
	}
	for _, tt := range []struct {
		loss, best float64
		want       string
	}{
		{math.NaN(), math.Inf(1), "loss is NaN, and was no finite number for 3 epochs"},
		{math.Inf(1), math.Inf(1), "loss is +Inf, and was no finite number for 3 epochs"},
		{math.NaN(), 0.5, "loss is NaN, and has not become smaller than 0.5 for 3 epochs"},
		{0.6, 0.5, "loss has not become smaller than 0.5 for 3 epochs"},
	} {
		if got := notBetter("loss", tt.loss, tt.best, 3, "smaller"); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
