package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/data"
	"gaiden/lib/losses"
	"gaiden/lib/timing/units"
)

// Which data sets a net can use.

// seenIntegers is what has been seen of integers, once.
type seenIntegers struct {
	mu    sync.Mutex
	done  bool
	found rounding
	ids   map[string][2]int32 // the least and the greatest number of arrays of integers
}

// rounding is the errors of integers that bfloat16 would round.
type rounding struct{ all, some error }

// check proves that data fit the net, and each other, and gives them the form that
// programs take.
func (n *Net) check(name string, d Data) (*Set, error) {
	if name == "" || strings.ContainsAny(name, "* ") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("fit: name of a data set is %q: want one like mnist/train, without a space or *", name)
	}
	if d.X == nil {
		return nil, fmt.Errorf("fit: %s: Data has no X: want the examples, as %s", name, n.wantExamples())
	}
	s, err := n.examples(name, d.X)
	if err != nil {
		return nil, err
	}
	if d.N != 0 && d.N != s.N {
		return nil, fmt.Errorf("fit: %s: Data.N is %d, and X has %d examples of %d numbers: want the same, or N left out", name, d.N, s.N, s.size)
	}
	if err := n.fitsBF16(s.rounding.found); err != nil {
		return nil, err
	}
	if _, is := d.Y.(data.Same); is {
		return s, n.sameTargets(s, d.V)
	}
	if d.Y == nil && d.V == nil && n.config.Step != nil {
		return s, nil
	}
	if d.Y == nil && d.V == nil && n.ownLoss() {
		return s, n.metricsFit(s)
	}
	if d.Y, _, err = flatten(name, "targets", d.Y); err != nil {
		return nil, err
	}
	if n.config.Step != nil || n.freeLabels() {
		return s, cmp.Or(n.stepTargets(d, s), n.freeLabelsFit(s))
	}
	if d.Y, err = n.targets(name, d.Y, s.N); err != nil {
		return nil, err
	}
	add := func(part string, flat any, shape shapes.Shape) {
		s.arrays = append(s.arrays, setArray{part, shape, flat, nil})
	}
	if t, is := d.Y.([]int32); is {
		s.Labels, s.positions = t, len(t)/s.N
		if len(n.positions()) > 0 {
			add("y", t, shapes.Make(dtypes.Int32, s.N, s.positions))
		} else {
			add("y", t, shapes.Make(dtypes.Int32, s.N))
		}
		s.sees(t, d.V)
		return s, cmp.Or(n.addWeights(s, d.V), n.metricsFit(s))
	}
	t := d.Y.([]float32)
	if len(t) == 0 || len(t)%s.N != 0 {
		return nil, fmt.Errorf("fit: %s: %d examples but %d target numbers: want the same number for each", name, s.N, len(t))
	}
	s.targets = len(t) / s.N
	if err := cmp.Or(n.fitsTargets(s), n.metricsFit(s)); err != nil {
		return nil, err
	}
	if l, is := n.config.Loss.(losses.Joint); is {
		if err := l.CheckTargets(len(t), s.N, shapes.Make(dtypes.Float32, n.output...).Size()); err != nil {
			return nil, fmt.Errorf("fit: %s: %w", name, err)
		}
	}
	add("y", t, shapes.Make(dtypes.Float32, s.N, s.targets))
	if err := n.addWeights(s, d.V); err != nil {
		return nil, err
	}
	return s, n.checkNumbers(s, t, d.V)
}

// roundedIntegers says which example bfloat16 would change: where all numbers of an array
// are integers, and where some are.
func roundedIntegers(name string, arrays []setArray, examples int) (r rounding) {
	for _, a := range arrays {
		x, _ := a.flat.([]float32) // bytes become 0 to 1
		at, whole := -1, true
		for i, v := range x {
			if v != float32(math.Trunc(float64(v))) {
				whole = false
			} else if at < 0 && math.Float32bits(v)&0xffff != 0 { // the bits that bfloat16 does not have
				at = i
			}
			if at >= 0 && !whole {
				break
			}
		}
		if at < 0 {
			continue
		}
		err := fmt.Errorf("fit: %s: example %d has the integer %.0f, which Config.BF16 or F16 would round: want integers of up to 256, or scaled to about 1, or it left out, and what is to be rounded converted inside of the net", name, at/(len(x)/examples), x[at])
		r.some = cmp.Or(r.some, err)
		if whole {
			r.all = cmp.Or(r.all, err)
		}
	}
	return r
}

// fitsBF16 refuses integers that the net would round.
func (n *Net) fitsBF16(r rounding) error {
	switch {
	case !n.config.narrows():
		return nil
	case !isKind(n.model.Layers[0]): // such a first layer may take integers as ids
		return r.some
	}
	return r.all
}

// integers is roundedIntegers of a set from anywhere, looked for once.
func (s *Set) integers() (rounding, error) {
	if s.rounding == nil { // of no name
		return rounding{}, nil
	}
	r := s.rounding
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		var there []setArray
		for _, a := range s.inputs() {
			if a.shape.DType == dtypes.Float32 {
				x := make([]float32, a.shape.Size())
				if err := a.Values(x); err != nil {
					return rounding{}, err
				}
				there = append(there, setArray{flat: x})
			}
		}
		r.found = roundedIntegers(s.Name, there, s.N)
	}
	r.done = true
	return r.found, nil
}

// ids are the least and the greatest number of an input that takes integers, looked for once.
func (s *Set) ids(a setArray) (low, high int32, err error) {
	if a.shape.DType != dtypes.Int32 || s.rounding == nil {
		return 0, 0, nil
	}
	r := s.rounding
	r.mu.Lock()
	defer r.mu.Unlock()
	if ends, is := r.ids[a.name]; is {
		return ends[0], ends[1], nil
	}
	all, is := a.flat.([]int32)
	if !is {
		all = make([]int32, a.shape.Size())
		if err := a.Values(all); err != nil {
			return 0, 0, fmt.Errorf("fit: examples of %s: %w", s.Name, err)
		}
	}
	low, high = slices.Min(all), slices.Max(all)
	if r.ids == nil {
		r.ids = map[string][2]int32{}
	}
	r.ids[a.name] = [2]int32{low, high}
	return low, high, nil
}

// Suits is an error where the net cannot be trained on a set.
func (n *Net) Suits(s *Set) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	return n.fits(s)
}

// fits proves that a set from anywhere fits the net.
func (n *Net) fits(s *Set) error {
	if s == nil || len(s.arrays) == 0 {
		return fmt.Errorf("fit: %s: no data set: want one that Upload, Stream or Data has returned", n.name)
	}
	if err := n.fitsInputs(s); err != nil {
		return err
	}
	if n.config.narrows() {
		r, err := s.integers()
		if err == nil {
			err = n.fitsBF16(r)
		}
		if err != nil {
			return err
		}
	}
	return n.fitsTargets(s)
}

// fitsInputs proves that a set has the net's inputs.
func (n *Net) fitsInputs(s *Set) error {
	got := s.inputs()
	want := n.inputs()
	var names []string
	for _, a := range got {
		names = append(names, a.input())
	}
	for _, i := range want {
		k := slices.Index(names, i.Name)
		if k < 0 || len(got) != len(want) {
			return n.shapeError(s.Name, "examples", fmt.Sprintf("the inputs %s", strings.Join(names, ", ")), n.wantExamples())
		}
		size, title := shapes.Make(dtypes.Float32, i.Dims...).Size(), n.titleOf(i)
		if a := got[k].shape; a.Dimensions[1] != size {
			return n.shapeError(s.Name, "examples", fmt.Sprintf("%d numbers each", a.Dimensions[1]), fmt.Sprintf("%d: %s takes %v", size, title, i.Dims))
		} else if (a.DType == dtypes.Int32) != i.Integers {
			return n.shapeError(s.Name, "examples", fmt.Sprintf("numbers of type %s", a.DType), fmt.Sprintf("%s: %s takes them", wantInput(i), title))
		}
		if i.Vocab == 0 || s.stream != nil { // whose parts are seen one by one
			continue
		}
		if low, high, err := s.ids(got[k]); err != nil {
			return err
		} else if low < 0 || int(high) >= i.Vocab { // it was uploaded for another net
			return fmt.Errorf("fit: %s: the examples of %s are %d to %d: %s", n.name, s.Name, low, high, n.knows(i))
		}
	}
	return nil
}

// fitsTargets proves that numbers as targets are as many as the net returns; a loss of
// one's own may have another use for them.
func (n *Net) fitsTargets(s *Set) error {
	if want := shapes.Make(dtypes.Float32, n.output...).Size(); s.targets > 0 && s.targets != want && !n.ownLoss() && n.config.Step == nil {
		text := fmt.Sprintf("%d: layer %s of %s returns %v", want, last(n.model.Names()), n.model.Name, n.output)
		if n.config.Loss == nil && (s.targets == 1 || s.targets*n.classes() == want) {
			text += "; for labels of classes, want integers, such as []int32"
		}
		return n.shapeError(s.Name, "targets", units.Plural(s.targets, "number")+" an example", text)
	}
	return nil
}

// classes is how many classes the net distinguishes.
func (n *Net) classes() int {
	if len(n.output) == 0 {
		return 1
	}
	return n.output[len(n.output)-1]
}

// positions are the dimensions of an example's labels: those of the output but for the classes.
func (n *Net) positions() []int { return n.output[:max(0, len(n.output)-1)] }

// ignores says whether labels below 0 count nothing.
func (n *Net) ignores() bool {
	l, is := n.config.Loss.(losses.CrossEntropy)
	return is && l.IgnoreNegative
}

func (n *Net) wantLabels() string {
	return fmt.Sprintf("layer %s of %s has %d classes, 0 to %d: give it more, or number the labels from 0", last(n.model.Names()), n.model.Name, n.classes(), n.classes()-1)
}

// canTrain proves that a set from anywhere fits the net and has labels among its classes:
// it may have been loaded for another. A program would take a label that is not as no
// class at all, and learn something.
func (n *Net) canTrain(s *Set) error {
	if err := n.fits(s); err != nil || n.config.Step != nil {
		return err
	}
	if err := n.lossFits(s); err != nil || n.freeLabels() {
		return err
	}
	if err := n.metricsFit(s); err != nil || !s.labelled() {
		return err
	}
	if want := shapes.Make(dtypes.Int32, n.positions()...).Size(); s.positions != want {
		return n.shapeError(s.Name, "targets", fmt.Sprintf("%d labels an example", s.positions), fmt.Sprintf("%d: layer %s of %s returns %v", want, last(n.model.Names()), n.model.Name, n.output))
	}
	if s.counted == 0 && n.ignores() && s.stream == nil {
		return fmt.Errorf("fit: %s: all labels of %s are below 0, which the loss ignores: want some that count", n.name, s.Name)
	}
	if s.low < 0 && !n.ignores() || int(s.high) >= n.classes() {
		return fmt.Errorf("fit: %s: the labels of %s are %d to %d: %s", n.name, s.Name, s.low, s.high, n.wantLabels())
	}
	return nil
}

// labelled says whether a set's targets are labels of what the net returns.
func (n *Net) labelled(s *Set) bool { return s.labelled() && n.config.Step == nil && !n.freeLabels() }
