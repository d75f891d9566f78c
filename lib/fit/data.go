package fit

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/losses"
	"gaiden/lib/session"
)

// Data is a set of examples on the host.
type Data struct {
	// X is the examples, flat or nested: []byte, which become 0 to 1, floats, bools, or for
	// a net of ids integers; Inputs for a net that has several.
	X any
	// Y is the targets: labels from 0 as []int32 or other integers, one an example or
	// position, or floats, as many an example as the net returns. CrossEntropy takes one-hot
	// rows too, other losses integers. SameX: the examples. nil: for losses of one's own.
	Y any
	// V is weights, 0 or more, of examples or of each label or number of Y: the loss is the
	// weighted mean.
	V []float32
}

// Inputs are the examples of a net with several inputs, each in the form of Data.X.
type Inputs map[string]any

// SameX as Data.Y makes the examples the targets, as an autoencoder has.
const SameX sameX = 1

type sameX int

// Set is examples in the session: data/<name>/x (or x/<input>), y, v, sum.
type Set struct {
	Name   string
	N      int     // examples
	Fresh  bool    // uploaded just now, not found
	Labels []int32 // what was uploaded; nil for a set that was found

	arrays  []setArray // x or one for each input, by name, then y and v where they are
	size    int        // numbers an example, of all inputs
	targets int        // numbers of Y an example; 0 for labels

	positions int   // labels an example; 0 where Y is no labels
	counted   int   // of all of them, those that count
	low, high int32 // the least label and the greatest

	rounding *seenIntegers
	epochs   uint64 // of Batches
}

// setArray is one of a set's arrays.
type setArray struct {
	name  string // "x", "x/ids", "y", "v"
	shape shapes.Shape
	flat  any // what is to be uploaded
	*session.Array
}

// seenIntegers is what has been seen of integers, once.
type seenIntegers struct {
	mu    sync.Mutex
	done  bool
	found rounding
}

// rounding is the errors of integers that bfloat16 would round.
type rounding struct{ all, some error }

func (s *Set) String() string {
	how := "found in the session"
	if s.Fresh {
		how = "uploaded"
	}
	return fmt.Sprintf("%s: %d examples of %d numbers, %s", s.Name, s.N, s.size, how)
}

// Upload uploads data under a name, unless the session has the same there.
func (n *Net) Upload(name string, d Data) (*Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.infer(d.X)
	if err := n.open(); err != nil {
		return nil, err
	}
	s, err := n.check(name, d)
	if err != nil {
		return nil, err
	}
	sum := s.fingerprint()
	if old, err := n.find(name); err == nil && old.key() == s.key() && old.N == s.N {
		var there [sha256.Size]byte
		a, err := n.session.Array("data/" + name + "/sum")
		if err == nil && a.Values(there[:]) == nil && there == sum {
			old.Labels, old.counted, old.low, old.high = s.Labels, s.counted, s.low, s.high
			return n.remember(old), nil
		}
	}
	if err := n.put(s, sum); err != nil {
		return nil, err
	}
	clear(n.deviceCopies)
	s.Fresh = true
	return n.remember(s), nil
}

// put uploads a set's arrays and gives them their names, in place of those that had them.
func (n *Net) put(s *Set, sum [sha256.Size]byte) error {
	var names, remove []string
	var arrays []*session.Array
	prefix := "data/" + s.Name + "/"
	there, err := n.session.List(prefix)
	if err != nil {
		return err
	}
	all := append(slices.Clone(s.arrays), setArray{"sum", shapes.Make(dtypes.Uint8, len(sum)), sum[:], nil})
	for i := range all {
		a := &all[i]
		if a.flat == nil { // SameX
			a.Array = all[0].Array
		} else if a.Array, err = n.session.Put(a.flat, a.shape, 0); err != nil {
			return err
		}
		names, arrays = append(names, prefix+a.name), append(arrays, a.Array)
		a.flat = nil
	}
	s.arrays = all[:len(s.arrays)]
	for _, a := range there { // of other data
		if !slices.Contains(names, a.Name) {
			remove = append(remove, a.Name)
		}
	}
	return n.session.Replace(names, arrays, remove...)
}

// Data returns a set that is in the session.
func (n *Net) Data(name string) (*Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	if s := n.sets[name]; s != nil {
		return s, nil
	}
	s, err := n.find(name)
	if err != nil {
		return nil, err
	}
	if s.labelled() {
		labels := make([]int32, s.N*s.positions)
		if err := s.array("y").Values(labels); err != nil {
			return nil, fmt.Errorf("fit: %s: labels of %s: %w", n.name, name, err)
		}
		s.sees(labels)
	}
	return n.remember(s), nil
}

func (n *Net) remember(s *Set) *Set {
	n.sets[s.Name] = s
	return s
}

func (n *Net) find(name string) (*Set, error) {
	prefix := "data/" + name + "/"
	list, err := n.session.List(prefix)
	if err != nil {
		return nil, err
	}
	s := &Set{Name: name, rounding: &seenIntegers{}}
	for _, a := range list {
		b, err := n.session.Array(a.Name)
		if err != nil {
			return nil, err
		}
		shape, err := b.Shape()
		if err != nil {
			return nil, err
		}
		d, part := a.Type.Dims, setArray{strings.TrimPrefix(a.Name, prefix), shape, nil, b}
		switch {
		case part.isInput():
			s.N, s.size = d[0], s.size+d[1]
		case part.name == "y" && shape.DType == dtypes.Int32:
			s.positions = shape.Size() / d[0]
		case part.name == "y":
			s.targets = d[1]
		case part.name != "v":
			continue
		}
		s.arrays = append(s.arrays, part)
	}
	if s.N == 0 {
		return nil, n.noSet(name)
	}
	slices.SortFunc(s.arrays, bySetOrder)
	return s, nil
}

func (a setArray) isInput() bool { return a.name == "x" || strings.HasPrefix(a.name, "x/") }

// input is the name of the input whose examples an array is.
func (a setArray) input() string { return strings.TrimPrefix(a.name, "x/") }

// bySetOrder orders arrays as programs take them.
func bySetOrder(a, b setArray) int {
	order := func(a setArray) string {
		if a.isInput() {
			return "0" + a.name
		}
		return map[string]string{"y": "1", "v": "2"}[a.name]
	}
	return strings.Compare(order(a), order(b))
}

// inputs are the arrays of the examples.
func (s *Set) inputs() []setArray {
	k := slices.IndexFunc(s.arrays, func(a setArray) bool { return !a.isInput() })
	if k < 0 {
		k = len(s.arrays)
	}
	return s.arrays[:k]
}

// array is the one of a name, nil where there is none.
// shapeOf is that of one of the set's arrays; no shape where there is none.
func (s *Set) shapeOf(name string) shapes.Shape {
	for _, a := range s.arrays {
		if a.name == name {
			return a.shape
		}
	}
	return shapes.Shape{}
}

func (s *Set) array(name string) *session.Array {
	for _, a := range s.arrays {
		if a.name == name {
			return a.Array
		}
	}
	return nil
}

// all are the set's arrays, in the order in which programs take them.
func (s *Set) all() (l []*session.Array) {
	for _, a := range s.arrays {
		l = append(l, a.Array)
	}
	return l
}

// labelled says whether the targets are labels.
func (s *Set) labelled() bool { return s.positions > 0 }

// noSet says that there is no data set of this name, and which there are.
func (n *Net) noSet(name string) error {
	var there []string
	if list, err := n.session.List("data/"); err == nil { // else the error does without them
		for _, a := range list {
			if set, is := strings.CutSuffix(strings.TrimPrefix(a.Name, "data/"), "/sum"); is {
				there = append(there, set)
			}
		}
	}
	if len(there) == 0 {
		return fmt.Errorf("fit: no data set %q in the session: load it first", name)
	}
	return fmt.Errorf("fit: no data set %q in the session, there are %s: load it first", name, strings.Join(there, ", "))
}

// check proves that data fit the net, and each other, and gives them the form that
// programs take.
func (n *Net) check(name string, d Data) (*Set, error) {
	if name == "" || strings.ContainsAny(name, "* ") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("fit: name of a data set is %q: want one like mnist/train", name)
	}
	if d.X == nil {
		return nil, fmt.Errorf("fit: %s: Data has no X: want the examples, as %s", name, n.wantExamples())
	}
	s, err := n.examples(name, d.X)
	if err != nil {
		return nil, err
	}
	if err := n.fitsBF16(s.rounding.found); err != nil {
		return nil, err
	}
	if _, is := d.Y.(sameX); is {
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
	_, labels := d.Y.([]int32)
	if err := n.checkMetrics(labels); err != nil {
		return nil, err
	}
	if t, is := d.Y.([]int32); is {
		s.Labels, s.positions = t, len(t)/s.N
		if len(n.positions()) > 0 {
			add("y", t, shapes.Make(dtypes.Int32, s.N, s.positions))
		} else {
			add("y", t, shapes.Make(dtypes.Int32, s.N))
		}
		s.sees(t)
		return s, n.addWeights(s, d.V)
	}
	t := d.Y.([]float32)
	if len(t) == 0 || len(t)%s.N != 0 {
		return nil, fmt.Errorf("fit: %s: %d examples but %d target numbers: want the same number for each", name, s.N, len(t))
	}
	s.targets = len(t) / s.N
	if err := n.fitsTargets(s); err != nil {
		return nil, err
	}
	add("y", t, shapes.Make(dtypes.Float32, s.N, s.targets))
	if err := n.addWeights(s, d.V); err != nil {
		return nil, err
	}
	return s, n.checkNumbers(name, t, d.V)
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
		err := fmt.Errorf("fit: %s: example %d has the integer %.0f, which Config.BF16 would round: want integers of up to 256, or scaled to about 1, or BF16 left out, and what is to be bfloat16 converted inside of the net", name, at/(len(x)/examples), x[at])
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
	case !n.config.BF16:
		return nil
	case n.takesIDs():
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

// noData is the error of a call without a data set.
func (n *Net) noData() error { return fmt.Errorf("fit: %s: no data set: load one first", n.name) }

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
	if s == nil {
		return n.noData()
	}
	if err := n.fitsInputs(s); err != nil {
		return err
	}
	if n.config.BF16 {
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
	want := n.model.AllInputs()
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
	}
	return nil
}

// fitsTargets proves that numbers as targets are as many as the net returns; a loss of
// one's own may have another use for them.
func (n *Net) fitsTargets(s *Set) error {
	if want := shapes.Make(dtypes.Float32, n.output...).Size(); s.targets > 0 && s.targets != want && !n.ownLoss() && n.config.Step == nil {
		return n.shapeError(s.Name, "targets", fmt.Sprintf("%d numbers an example", s.targets),
			fmt.Sprintf("%d: layer %s of %s returns %v", want, last(n.model.Names()), n.model.Name, n.output))
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
	if s.counted == 0 && n.ignores() {
		return fmt.Errorf("fit: %s: all labels of %s are below 0, which the loss ignores: want some that count", n.name, s.Name)
	}
	if s.low < 0 && !n.ignores() || int(s.high) >= n.classes() {
		return fmt.Errorf("fit: %s: the labels of %s are %d to %d: %s", n.name, s.Name, s.low, s.high, n.wantLabels())
	}
	return nil
}

// labelled says whether a set's targets are labels of what the net returns.
func (n *Net) labelled(s *Set) bool { return s.labelled() && n.config.Step == nil && !n.freeLabels() }

// key tells sets apart for which programs differ.
func (s *Set) key() string {
	x, y := "", ""
	for _, a := range s.arrays {
		switch {
		case a.name == "x":
			x += fmt.Sprint(a.shape)
		case a.isInput():
			x += fmt.Sprint(a.name, a.shape)
		case a.name == "y" && a.shape.DType == dtypes.Uint8:
			y = "bytes"
		}
	}
	v := "false"
	if w := s.shapeOf("v"); w.Ok() {
		if v = "true"; w.Rank() < s.shapeOf("y").Rank() {
			v = "examples"
		}
	}
	return fmt.Sprintf("%s/%d%s/%d/%s", x, s.targets, y, s.positions, v)
}

// answers is how many labels that count an example has, in the mean; without labels it is 1.
func (s *Set) answers() float64 { return float64(s.allAnswers()) / float64(s.N) }

// allAnswers is how many labels of the set count; without labels it is its examples.
func (s *Set) allAnswers() int {
	if !s.labelled() {
		return s.N
	}
	return s.counted
}

// sees notes what labels there are. Those below 0 count only for nets that refuse them.
func (s *Set) sees(labels []int32) {
	s.counted, s.low, s.high = 0, math.MaxInt32, math.MinInt32
	for _, l := range labels {
		if l >= 0 {
			s.counted++
		}
		s.low, s.high = min(s.low, l), max(s.high, l)
	}
}

// fingerprint is a checksum of all the data.
func (s *Set) fingerprint() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, a := range s.arrays {
		if a.flat == nil { // SameX
			fmt.Fprintln(h, a.name)
			continue
		}
		b := dtypes.UnsafeByteSliceFromAny(a.flat)
		fmt.Fprintf(h, "%s %T %d\n", a.name, a.flat, len(b))
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum
}

func last(l []string) string { return l[len(l)-1] }
