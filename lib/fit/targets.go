package fit

import (
	"cmp"
	"fmt"
	"math"
	"reflect"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/losses"

	"gaiden/lib/fit/result"
)

// What the targets of a data set are, and for which losses they are right.

// targets is Data.Y as programs take it: labels as []int32, or numbers as []float32. What a
// loss takes is made of what says the same without a doubt: labels of one-hot rows, and
// numbers of integers.
func (n *Net) targets(name string, y any, examples int) (any, error) {
	v := reflect.ValueOf(y)
	if !v.IsValid() {
		return nil, fmt.Errorf("fit: %s: Data has no Y: want labels, as []int32 or other integers, or numbers, as []float32 or []float64", name)
	}
	kind := reflect.Invalid
	if v.Kind() == reflect.Slice {
		kind = v.Type().Elem().Kind()
	}
	integers, floats := kind >= reflect.Int && kind <= reflect.Uint64 || kind == reflect.Bool, kind == reflect.Float32 || kind == reflect.Float64
	if !integers && !floats {
		return nil, fmt.Errorf("fit: %s: targets are a %T: want labels as []int32 or other integers, or numbers as []float32 or []float64", name, y)
	}
	width := shapes.Make(dtypes.Float32, n.output...).Size() // numbers that the net returns for an example
	switch n.config.Loss.(type) {
	case losses.CrossEntropy:
		if len(n.output) == 0 {
			return nil, fmt.Errorf("fit: %s: cross entropy of %s, whose layer %s returns %v: want a net that returns one number a class", name, n.model.Name, last(n.model.Names()), n.output)
		}
		if n.classes() == 1 {
			return nil, n.oneClass(name)
		}
		if v.Len() == examples*width {
			return oneHot(name, v, n.classes())
		}
		if floats {
			return n.wholeLabels(name, v, examples, width/n.classes())
		}
	case losses.Joint:
		if integers {
			return exactFloats(name, v)
		}
	case nil:
		if integers && (len(n.output) == 0 || v.Len() != examples*width/n.classes()) && len(n.output) != 1 {
			return nil, fmt.Errorf("fit: %s: targets are a %T, and layer %s of %s returns %v: want []float32, as many numbers an example, or one label for each of its positions, or a net that returns one number a class", name, y, last(n.model.Names()), n.model.Name, n.output)
		}
	default:
		if integers && !n.ownLoss() {
			if v.Len() != examples*width {
				return nil, fmt.Errorf("fit: %s: targets are a %T of %d numbers for %d examples, such as labels are: %s wants %d numbers an example; for labels want losses.CrossEntropy", name, y, v.Len(), examples, n.config.Loss.Title(), width)
			}
			return exactFloats(name, v)
		}
	}
	if floats {
		return float32s(name, "targets", y)
	}
	return n.labels(name, v, examples)
}

// oneClass is the error of labels for a net that has one class: whatever it returns is right.
func (n *Net) oneClass(name string) error {
	return fmt.Errorf("fit: %s: labels for layer %s of %s, which returns %v, one class: want a unit for each class, or numbers as []float32 with losses.BinaryCrossEntropy or another loss of numbers", name, last(n.model.Names()), n.model.Name, n.output)
}

// integerAt is element i of integers of any type.
func integerAt(v reflect.Value, i int) (x int64, text string) {
	switch e := v.Index(i); {
	case e.Kind() == reflect.Bool:
		return int64(numberAt(v, i)), fmt.Sprint(e.Bool())
	case e.CanInt():
		return e.Int(), fmt.Sprint(e.Int())
	default:
		return int64(min(e.Uint(), math.MaxInt64)), fmt.Sprint(e.Uint())
	}
}

// labels are integers as labels of the net's classes.
func (n *Net) labels(name string, v reflect.Value, examples int) ([]int32, error) {
	if n.classes() == 1 && !n.ownLoss() && !n.freeLabels() {
		return nil, n.oneClass(name)
	}
	positions := shapes.Make(dtypes.Int32, n.positions()...).Size()
	switch {
	case v.Len() == examples*positions:
	case positions > 1:
		return nil, fmt.Errorf("fit: %s: %d examples but %d labels: want %d for each, one for each of the positions %v", name, examples, v.Len(), positions, n.positions())
	default:
		return nil, fmt.Errorf("fit: %s: %d examples but %d labels: want one for each", name, examples, v.Len())
	}
	l := make([]int32, v.Len())
	for i := range l {
		x, text := integerAt(v, i)
		if x < 0 && n.ignores() {
			l[i] = -1
			continue
		}
		if x < 0 || x >= int64(n.classes()) {
			return nil, fmt.Errorf("fit: %s: label %d is %s: %s", name, i, text, n.wantLabels())
		}
		l[i] = int32(x)
	}
	return l, nil
}

// numberAt is element i of numbers of any type.
func numberAt(v reflect.Value, i int) float64 {
	e := v.Index(i)
	switch {
	case e.Kind() == reflect.Bool:
		if e.Bool() {
			return 1
		}
		return 0
	case e.CanInt():
		return float64(e.Int())
	case e.CanUint():
		return float64(e.Uint())
	}
	return e.Float()
}

// oneHot is the labels of rows that have one 1 each, and zeros.
func oneHot(name string, v reflect.Value, classes int) ([]int32, error) {
	l := make([]int32, v.Len()/classes)
	for i := range l {
		l[i] = -1
		for k := range classes {
			switch x := numberAt(v, i*classes+k); {
			case x == 1 && l[i] < 0:
				l[i] = int32(k)
			case x != 0:
				return nil, fmt.Errorf("fit: %s: targets of example %d are %s: cross entropy wants one label an example, as []int32, or rows with one 1 and zeros; for probabilities want losses.KLDivergence", name, i, rowOf(v, i, classes))
			}
		}
		if l[i] < 0 {
			return nil, fmt.Errorf("fit: %s: targets of example %d are all 0: cross entropy wants one label an example, as []int32, or rows with one 1 and zeros", name, i)
		}
	}
	return l, nil
}

func rowOf(v reflect.Value, i, width int) string {
	var l []float64
	for k := range width {
		l = append(l, numberAt(v, i*width+k))
	}
	return result.Brief(l, 8)
}

// wholeLabels are floats that are labels, one for each position of an example.
func (n *Net) wholeLabels(name string, v reflect.Value, examples, positions int) ([]int32, error) {
	classes := n.classes()
	if v.Len() != examples*positions {
		want := "one label an example"
		if positions > 1 {
			want = fmt.Sprintf("%d labels an example", positions)
		}
		return nil, fmt.Errorf("fit: %s: %d target numbers for %d examples: cross entropy wants %s, as []int32, or one-hot rows of %d", name, v.Len(), examples, want, classes)
	}
	l := make([]int32, v.Len())
	for i := range l {
		x := numberAt(v, i)
		if x < 0 && n.ignores() {
			l[i] = -1
			continue
		}
		if !(x >= 0 && x < float64(classes)) || x != math.Trunc(x) {
			return nil, fmt.Errorf("fit: %s: target %d is %g: cross entropy wants labels, 0 to %d", name, i, x, classes-1)
		}
		l[i] = int32(x)
	}
	return l, nil
}

// exactFloats is integers as float32, which must have them.
func exactFloats(name string, v reflect.Value) ([]float32, error) {
	l := make([]float32, v.Len())
	for i := range l {
		x, text := integerAt(v, i)
		if l[i] = float32(x); int64(l[i]) != x || x == math.MaxInt64 {
			return nil, fmt.Errorf("fit: %s: target %d is %s, which float32 rounds: want []float32, scaled to about 1", name, i, text)
		}
	}
	return l, nil
}

// float32s is numbers as []float32. A float64 is rounded; one beyond float32 is an error.
func float32s(name, what string, flat any) ([]float32, error) {
	if l, is := flat.([]float32); is {
		return l, nil
	}
	v := reflect.ValueOf(flat)
	l := make([]float32, v.Len())
	for i := range l {
		x := v.Index(i).Float()
		if l[i] = float32(x); math.IsInf(float64(l[i]), 0) && !math.IsInf(x, 0) {
			return nil, fmt.Errorf("fit: %s: number %d of the %s is %g: want numbers within the range of float32", name, i, what, x)
		}
	}
	return l, nil
}

// leastWeight is the smallest float32 whose square is one that devices do not take for 0.
const leastWeight = 1.1e-19

// addWeights adds weights of the examples of a set or of its targets, after these.
func (n *Net) addWeights(s *Set, v []float32) error {
	if v == nil {
		return nil
	}
	name, y := s.Name, s.shapeOf("y")
	shape := shapes.Make(dtypes.Float32, y.Dimensions...)
	switch {
	case y.Ok() && len(v) == y.Size():
	case len(v) == s.N:
		shape = shapes.Make(dtypes.Float32, s.N)
	case !y.Ok() && len(v) > 0 && len(v)%s.N == 0:
		shape = shapes.Make(dtypes.Float32, s.N, len(v)/s.N)
	default:
		what := "target numbers"
		if s.labelled() {
			what = "labels"
		}
		return fmt.Errorf("fit: %s: %d weights in V for %d %s of %d examples: want one for each target or example", name, len(v), y.Size(), what, s.N)
	}
	width := len(v) / s.N
	for i, w := range v {
		if n.config.Step != nil && math.Abs(float64(w)) <= math.MaxFloat32 {
			continue // numbers of the user's own, such as advantages
		}
		if !(w >= 0 && w <= math.MaxFloat32) {
			return fmt.Errorf("fit: %s: weight %d of example %d is %g: want 0 or more", name, i%width, i/width, w)
		}
		if w > 0 && w < leastWeight {
			return fmt.Errorf("fit: %s: weight %d of example %d is %g, which devices take for 0: want 0, or %g or more", name, i%width, i/width, w, leastWeight)
		}
	}
	s.arrays = append(s.arrays, setArray{"v", shape, v, nil})
	return nil
}

// checkNumbers refuses targets that mean nothing to the net's loss; v are their weights.
func (n *Net) checkNumbers(s *Set, y []float32, v []float32) error {
	width := len(y) / s.N
	l, blind := n.config.Loss.(losses.Visibility)
	blind = blind && l.Blind
	for i, t := range y {
		if len(v) > 0 && v[i/(len(y)/len(v))] == 0 && !blind {
			continue
		}
		want := losses.Wants(n.config.Loss, i%width, t)
		if f := float64(t); math.IsNaN(f) || math.IsInf(f, 0) {
			if want = "a finite number, or weight 0 in V"; blind {
				want = "a finite number, for Blind counts all"
			}
		}
		if want != "" {
			return fmt.Errorf("fit: %s: target %d of example %d is %g: want %s", s.Name, i%width, i/width, t, want)
		}
	}
	return nil
}

// sameTargets makes the examples of a set its targets.
func (n *Net) sameTargets(s *Set, v []float32) error {
	wrong := func(got, want string) error {
		return fmt.Errorf("fit: %s: targets are SameX, the examples, and got %s: want %s", s.Name, got, want)
	}
	if len(s.arrays) > 1 {
		return wrong(fmt.Sprintf("the %d inputs of %s", len(s.arrays), n.model.Name), "one of them as Y")
	}
	if v != nil {
		return wrong(fmt.Sprintf("%d weights in V", len(v)), "none")
	}
	x := s.arrays[0]
	s.arrays = append(s.arrays, setArray{name: "y", shape: x.shape})
	if ids, is := x.flat.([]int32); is {
		labels, err := n.targets(s.Name, ids, s.N)
		if err != nil {
			return err
		}
		if same, is := labels.([]int32); !is || len(same) != len(ids) {
			return wrong("integers as examples", "them copied to Y as numbers")
		}
		s.Labels, s.positions = ids, len(ids)/s.N
		s.sees(ids, nil)
		return cmp.Or(n.lossFits(s), n.metricsFit(s))
	}
	s.targets = s.size
	if err := cmp.Or(n.lossFits(s), n.fitsTargets(s), n.metricsFit(s)); err != nil {
		return err
	}
	numbers, _ := x.flat.([]float32) // bytes become 0 to 1
	return n.checkNumbers(s, numbers, nil)
}

// ownLoss says whether the net's loss is none of package losses.
func (n *Net) ownLoss() bool { return n.config.Loss != nil && !isKind(n.config.Loss) }

// freeLabels says whether the loss takes labels that are not classes of the output's positions.
func (n *Net) freeLabels() bool {
	switch n.config.Loss.(type) {
	case losses.CTC, losses.Contrastive:
		return true
	}
	return false
}

// freeLabelsFit proves that a set's labels are some that such a loss takes.
func (n *Net) freeLabelsFit(s *Set) error {
	wrong := func(got, want string) error {
		return fmt.Errorf("fit: %s: %s of %s: got %s, want %s", n.name, n.config.Loss.Title(), s.Name, got, want)
	}
	if n.config.Metrics != nil {
		return fmt.Errorf("fit: %s: Config.Metrics with %s, whose labels are not those of the output: want none", n.name, n.config.Loss.Title())
	}
	switch n.config.Loss.(type) {
	case losses.Contrastive:
		if s.positions != 1 {
			return wrong(s.kind(), "one label an example")
		}
	case losses.CTC:
		if len(n.output) != 2 {
			return wrong(fmt.Sprintf("a net that returns %v", n.output), "one that returns [steps classes]")
		}
		if s.positions == 0 || s.shapeOf("y").Rank() != 2 {
			return wrong(s.kind(), "sequences of 2 or more labels an example, ended by -1 where they are shorter")
		}
		if int(s.high) >= n.classes() {
			return wrong(fmt.Sprintf("label %d", s.high), fmt.Sprintf("labels below %d, the classes of the net", n.classes()))
		}
	}
	return nil
}

// lossFits proves that the net's loss is one for a set's targets: it may have been loaded
// for another net.
func (n *Net) lossFits(s *Set) error {
	loss := n.lossOf(s)
	wrong := func(got, want string) error {
		return fmt.Errorf("fit: %s: %s of %s: got %s, want %s; load it for this net", n.name, loss.Title(), s.Name, got, want)
	}
	if n.freeLabels() {
		return n.freeLabelsFit(s)
	}
	switch loss.(type) {
	case losses.CrossEntropy:
		if !s.labelled() {
			return wrong(s.kind(), "labels")
		}
		if len(n.output) == 0 {
			return wrong(fmt.Sprintf("a net that returns %v", n.output), "one that returns one number a class")
		}
	default:
		if s.targets == 0 && !n.ownLoss() {
			return wrong(s.kind(), "numbers, as many as the net returns")
		}
	}
	return nil
}
