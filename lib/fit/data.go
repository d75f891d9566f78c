package fit

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/losses"
	"gaiden/lib/session"
)

// Data is a set of examples on the host.
type Data struct {
	// X is the examples: []byte, which become 0 to 1, floats, or for a net of ids integers.
	X any
	// Y is the targets: labels from 0 as []int32 or other integers, one an example or
	// position, or floats, as many an example as the net returns. CrossEntropy takes one-hot
	// rows too, other losses integers.
	Y any
	// V is the weight of each number of Y, 0 or more, for losses such as Visibility.
	V []float32
}

// Set is a set of examples in the session, as data/<name>/x, y, v and sum.
type Set struct {
	Name   string
	N      int     // examples
	Fresh  bool    // uploaded just now, not found
	Labels []int32 // what was uploaded; nil for a set that was found

	x, y, v *session.Array
	size    int // numbers an example
	targets int // numbers of Y an example; 0 for labels

	positions int   // labels an example
	counted   int   // of all of them, those that count
	low, high int32 // the least label and the greatest

	rounding *seenIntegers
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
	if err := n.open(); err != nil {
		return nil, err
	}
	s, xShape, yShape, err := n.check(name, &d)
	if err != nil {
		return nil, err
	}
	sum := fingerprint(d)
	if old, err := n.find(name); err == nil && old.size == s.size && old.N == s.N && old.targets == s.targets && old.positions == s.positions {
		var there [sha256.Size]byte
		a, err := n.session.Array("data/" + name + "/sum")
		if err == nil && a.Values(there[:]) == nil && there == sum {
			old.Labels, old.counted, old.low, old.high = s.Labels, s.counted, s.low, s.high
			return n.remember(old), nil
		}
	}
	names := []string{"x", "y", "sum"}
	flats := []any{d.X, d.Y, sum[:]}
	forms := []shapes.Shape{xShape, yShape, shapes.Make(dtypes.Uint8, len(sum))}
	if d.V != nil {
		names, flats, forms = append(names, "v"), append(flats, d.V), append(forms, yShape)
	}
	arrays := make([]*session.Array, len(names))
	for i := range names {
		if arrays[i], err = n.session.Put(flats[i], forms[i], 0); err != nil {
			return nil, err
		}
		names[i] = "data/" + name + "/" + names[i]
	}
	if err := n.session.Replace(names, arrays, "data/"+name+"/v"); err != nil { // of data that had one
		return nil, err
	}
	clear(n.deviceCopies)
	s.x, s.y, s.Fresh = arrays[0], arrays[1], true
	if d.V != nil {
		s.v = arrays[3]
	}
	return n.remember(s), nil
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
	if s.targets == 0 {
		labels := make([]int32, s.N*s.positions)
		if err := s.y.Values(labels); err != nil {
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
		d := a.Type.Dims
		switch strings.TrimPrefix(a.Name, prefix) {
		case "x":
			s.x, s.N, s.size = b, d[0], d[1]
		case "y":
			s.y = b
			shape, err := b.Shape()
			if err != nil {
				return nil, err
			}
			if shape.DType == dtypes.Int32 {
				s.positions = shape.Size() / d[0]
			} else {
				s.targets = d[1]
			}
		case "v":
			s.v = b
		}
	}
	if s.x == nil || s.y == nil {
		return nil, n.noSet(name)
	}
	return s, nil
}

// noSet says that there is no data set of this name, and which there are.
func (n *Net) noSet(name string) error {
	var there []string
	if list, err := n.session.List("data/"); err == nil { // else the error does without them
		for _, a := range list {
			if set, is := strings.CutSuffix(strings.TrimPrefix(a.Name, "data/"), "/x"); is {
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
func (n *Net) check(name string, d *Data) (s *Set, x, y shapes.Shape, err error) {
	if name == "" || strings.ContainsAny(name, "* ") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return nil, x, y, fmt.Errorf("fit: name of a data set is %q: want one like mnist/train", name)
	}
	size := shapes.Make(dtypes.Float32, n.model.Input...).Size()
	if d.X == nil {
		return nil, x, y, fmt.Errorf("fit: %s: Data has no X: want the examples, as %s", name, n.wantExamples())
	}
	if d.X, err = n.examples(name, d.X); err != nil {
		return nil, x, y, err
	}
	count, kind := length(d.X)
	if count == 0 {
		return nil, x, y, fmt.Errorf("fit: %s: no examples: want at least one", name)
	}
	if count%size != 0 {
		return nil, x, y, n.shapeError(name, "examples", fmt.Sprintf("%d numbers", count),
			fmt.Sprintf("a multiple of %d: layer %s of %s takes %v", size, n.model.Names()[0], n.model.Name, n.model.Input))
	}
	s = &Set{Name: name, N: count / size, size: size, rounding: &seenIntegers{done: true, found: roundedIntegers(name, d.X, size)}}
	if err := n.fitsBF16(s.rounding.found); err != nil {
		return nil, x, y, err
	}
	x = shapes.Make(kind, s.N, size)
	if n.config.Step != nil {
		y, err = n.stepTargets(name, d, s)
		return s, x, y, err
	}
	if d.Y, err = n.targets(name, d.Y, s.N); err != nil {
		return nil, x, y, err
	}
	if t, is := d.Y.([]int32); is {
		if d.V != nil {
			return nil, x, y, fmt.Errorf("fit: %s: %d weights in V for labels: want none; V is for targets that are numbers", name, len(d.V))
		}
		s.Labels, s.positions, y = t, len(t)/s.N, shapes.Make(dtypes.Int32, s.N)
		if len(n.positions()) > 0 {
			y = shapes.Make(dtypes.Int32, s.N, s.positions)
		}
		s.sees(t)
		return s, x, y, nil
	}
	t := d.Y.([]float32)
	if len(t) == 0 || len(t)%s.N != 0 {
		return nil, x, y, fmt.Errorf("fit: %s: %d examples but %d target numbers: want the same number for each", name, s.N, len(t))
	}
	s.targets = len(t) / s.N
	if want := shapes.Make(dtypes.Float32, n.output...).Size(); s.targets != want {
		return nil, x, y, n.shapeError(name, "targets", fmt.Sprintf("%d numbers an example", s.targets),
			fmt.Sprintf("%d: layer %s of %s returns %v", want, last(n.model.Names()), n.model.Name, n.output))
	}
	y = shapes.Make(dtypes.Float32, s.N, s.targets)
	if d.V != nil && len(d.V) != len(t) {
		return nil, x, y, fmt.Errorf("fit: %s: %d weights in V for %d target numbers: want one for each", name, len(d.V), len(t))
	}
	if loss := n.lossOf(s); d.V != nil && !takesWeights(loss) {
		return nil, x, y, fmt.Errorf("fit: %s: V has weights of the targets, and %s does not take them: want none, or losses.Visibility", name, loss.Title())
	}
	return s, x, y, n.checkNumbers(name, t, d.V)
}

// roundedIntegers says which example bfloat16 would change: where all numbers are
// integers, and where some are.
func roundedIntegers(name string, flat any, size int) (r rounding) {
	x, _ := flat.([]float32) // bytes become 0 to 1
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
		return r
	}
	r.some = fmt.Errorf("fit: %s: example %d has the integer %.0f, which Config.BF16 would round: want integers of up to 256, or scaled to about 1, or BF16 left out, and what is to be bfloat16 converted inside of the net", name, at/size, x[at])
	if whole {
		r.all = r.some
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
	if shape, _ := s.x.Shape(); !r.done && shape.DType == dtypes.Float32 {
		x := make([]float32, s.N*s.size)
		if err := s.x.Values(x); err != nil {
			return rounding{}, err
		}
		r.found = roundedIntegers(s.Name, x, s.size)
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
	if size := shapes.Make(dtypes.Float32, n.model.Input...).Size(); s.size != size {
		return n.shapeError(s.Name, "examples", fmt.Sprintf("%d numbers each", s.size),
			fmt.Sprintf("%d: layer %s of %s takes %v", size, n.model.Names()[0], n.model.Name, n.model.Input))
	}
	if x, err := s.x.Shape(); err == nil && (x.DType == dtypes.Int32) != n.model.TakesIntegers() {
		return n.shapeError(s.Name, "examples", fmt.Sprintf("numbers of type %s", x.DType), fmt.Sprintf("%s: layer %s of %s takes them", n.wantExamples(), n.model.Names()[0], n.model.Name))
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
	if want := shapes.Make(dtypes.Float32, n.output...).Size(); n.config.Step == nil && s.targets > 0 && s.targets != want {
		return n.shapeError(s.Name, "targets", fmt.Sprintf("%d numbers each", s.targets),
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
	if err := n.lossFits(s); err != nil || s.targets > 0 {
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

// labeled says whether a set's targets are labels of what the net returns.
func (n *Net) labeled(s *Set) bool { return s.targets == 0 && n.config.Step == nil }

// arrays are the set's, in the order in which programs take them.
func (s *Set) arrays() []*session.Array {
	if s.v == nil {
		return []*session.Array{s.x, s.y}
	}
	return []*session.Array{s.x, s.y, s.v}
}

// key tells sets apart for which programs differ.
func (s *Set) key() string {
	x, _ := s.x.Shape()
	return fmt.Sprintf("%s/%d/%d/%t", x, s.targets, s.positions, s.v != nil)
}

// answers is how many labels that count an example has, in the mean; without labels it is 1.
func (s *Set) answers() float64 { return float64(s.allAnswers()) / float64(s.N) }

// allAnswers is how many labels of the set count; without labels it is its examples.
func (s *Set) allAnswers() int {
	if s.targets > 0 {
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
func fingerprint(d Data) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, flat := range []any{d.X, d.Y, d.V} {
		b := dtypes.UnsafeByteSliceFromAny(flat)
		fmt.Fprintf(h, "%T %d\n", flat, len(b))
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum
}

// length is the number of elements of examples.
func length(x any) (int, dtypes.DType) {
	switch x := x.(type) {
	case []byte:
		return len(x), dtypes.Uint8
	case []int32:
		return len(x), dtypes.Int32
	}
	return len(x.([]float32)), dtypes.Float32
}

func last(l []string) string { return l[len(l)-1] }
