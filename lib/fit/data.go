package fit

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/data"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// Set is a set of examples in the session, in arrays such as data/NAME/x.
type Set struct {
	Name    string
	N       int           // examples
	Fresh   bool          // uploaded just now, not found
	Labels  []int32       // targets that are labels; nil for others
	Encoder *data.Encoder // of Data

	arrays []setArray // x or one for each input, by name, then y and v where they are
	size   int        // numbers an example, of all inputs
	dims   []int      // of an example, as it was uploaded; nil: not known, or several inputs
	targetFacts

	rounding *seenIntegers
	stream   *stream // N is then its buffer
	of       *session.Session
	epochs   uint64 // of Batches
}

// targetFacts are what is known of a set's Y.
type targetFacts struct {
	targets   int   // numbers an example; 0 for labels
	positions int   // labels an example; 0 where Y is no labels
	counted   int   // of all of them, those that count
	low, high int32 // the least label and the greatest
}

// setArray is one of a set's arrays.
type setArray struct {
	name  string // "x", "x.ids", "y", "v"
	shape shapes.Shape
	flat  any // what is to be uploaded
	*session.Array
}

func (s *Set) String() string {
	how := "found in the session"
	if s.stream != nil {
		return fmt.Sprintf("%s: a stream of examples of %d numbers, %d at a time", s.Name, s.size, s.N)
	}
	if s.Fresh {
		how = "uploaded"
	}
	return fmt.Sprintf("%s: %d examples of %d numbers, %s", s.Name, s.N, s.size, how)
}

// Upload uploads data under a name, unless the session has the same there.
func (n *Net) Upload(name string, d Data) (*Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.infer(d.X); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		return nil, err
	}
	s, err := n.check(name, d)
	if err != nil {
		return nil, err
	}
	if s.Encoder, err = n.encoderOf(d, s); err != nil {
		return nil, err
	}
	if len(d.V) > 0 && n.config.Step == nil && slices.Max(d.V) == 0 { // a part of a stream may be so
		return nil, fmt.Errorf("fit: %s: every weight in V is 0: want some that count", name)
	}
	if n.ignores() && s.labelled() && s.counted == 0 && n.config.Step == nil {
		return nil, fmt.Errorf("fit: %s: every label is below 0 or has weight 0, and the loss ignores it: want some that count", name)
	}
	sum := s.fingerprint()
	if old, err := findSet(n.session, name); err == nil && old.key() == s.key() && old.N == s.N {
		var there [sha256.Size]byte
		a, err := n.session.Array("data/" + name + "/sum")
		if err == nil && a.Values(there[:]) == nil && there == sum {
			old.Labels, old.counted, old.low, old.high, old.rounding = s.Labels, s.counted, s.low, s.high, s.rounding
			there := old.Encoder
			old.Encoder = s.Encoder
			return n.remember(old), cmp.Or(n.keepDims(s), bindEncoder(n.session, "data/"+name+"/"+encoderName, there, s.Encoder))
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
	if len(s.dims) > 1 {
		all = append(all, s.dimsArray())
	}
	if s.Encoder != nil {
		e, err := encoderArray(s.Encoder)
		if err != nil {
			return fmt.Errorf("fit: %s: encoder: %w", s.Name, err)
		}
		all = append(all, e)
	}
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
	for _, a := range there { // of other data, and not of sets whose names begin alike
		part := setArray{name: strings.TrimPrefix(a.Name, prefix)}
		if (part.isInput() || part.name == "y" || part.name == "v" || part.name == dimsName || part.name == encoderName) && !slices.Contains(names, a.Name) {
			remove = append(remove, a.Name)
		}
	}
	return n.session.Replace(names, arrays, remove...)
}

// dimsName is the array of a set with the dimensions of an example, whose rows are flat.
const dimsName = "dims"

func (s *Set) dimsArray() setArray {
	dims := make([]int32, len(s.dims))
	for i, d := range s.dims {
		dims[i] = int32(d)
	}
	return setArray{dimsName, shapes.Make(dtypes.Int32, len(dims)), dims, nil}
}

// keepDims notes the dimensions of an example of a set whose numbers are in the session.
func (n *Net) keepDims(s *Set) error {
	if len(s.dims) < 2 {
		return nil
	}
	name := "data/" + s.Name + "/" + dimsName
	if there, err := readDims(n.session, name); err != nil || slices.Equal(there, s.dims) {
		return err
	}
	dims := s.dimsArray()
	a, err := n.session.Put(dims.flat, dims.shape, 0)
	if err != nil {
		return err
	}
	return n.session.Bind([]string{name}, []*session.Array{a})
}

// present is the array that the session has under a name; nil where it has none.
func present(of *session.Session, name string) (*session.Array, error) {
	a, err := of.Array(name)
	if errors.Is(err, wire.NotFound) {
		return nil, nil
	}
	return a, err
}

// readDims are dimensions that the session has under a name; nil where it has none.
func readDims(of *session.Session, name string) (all []int, err error) {
	a, err := present(of, name)
	if a == nil || err != nil {
		return nil, err
	}
	defer a.Finalize()
	shape, err := a.Shape()
	if err != nil || shape.DType != dtypes.Int32 || shape.Rank() != 1 {
		return nil, err
	}
	dims := make([]int32, shape.Size())
	if err := a.Values(dims); err != nil {
		return nil, err
	}
	for _, d := range dims {
		all = append(all, int(d))
	}
	return all, nil
}

// Data returns a set of the session; a net without an Input takes its shape.
func (n *Net) Data(name string) (*Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(); err != nil {
		return nil, err
	}
	return n.set(name)
}

// set is a set that is in the session.
func (n *Net) set(name string) (*Set, error) {
	s := n.sets[name]
	if s == nil {
		var err error
		if s, err = findSet(n.session, name); err == nil {
			err = s.readLabels()
		}
		if err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(n.infer(s), n.open()); err != nil {
		return nil, err
	}
	return n.remember(s), nil
}

func (n *Net) remember(s *Set) *Set {
	n.sets[s.Name], s.of = s, n.session
	return s
}

// readLabels gets what is known of labels from the device.
func (s *Set) readLabels() error {
	if !s.labelled() {
		return nil
	}
	labels := make([]int32, s.N*s.positions)
	if err := s.array("y").Values(labels); err != nil {
		return fmt.Errorf("fit: labels of %s: %w", s.Name, err)
	}
	var v []float32
	if a := s.array("v"); a != nil {
		v = make([]float32, s.shapeOf("v").Size())
		if err := a.Values(v); err != nil {
			return fmt.Errorf("fit: weights of %s: %w", s.Name, err)
		}
	}
	s.Labels = labels
	s.sees(labels, v)
	return nil
}

// GobEncode keeps a set for later cells, by its name.
func (s *Set) GobEncode() ([]byte, error) {
	shared.Lock()
	defer shared.Unlock()
	switch {
	case s.stream != nil:
		return nil, fmt.Errorf("%s is a stream, whose iterator ends with its cell: want net.Stream in the cell that uses it", s.Name)
	case s.of != shared.s:
		return nil, fmt.Errorf("%s is not in the cell's own session: want net.Data(%q) in the cell that uses it", s.Name, s.Name)
	}
	return []byte(s.Name), nil
}

// GobDecode finds it by that.
func (s *Set) GobDecode(name []byte) error {
	of, err := sharedSession()
	if err != nil {
		return err
	}
	found, err := findSet(of, string(name))
	if err == nil {
		err = found.readLabels()
	}
	if err == nil {
		*s = *found
		s.of = of
	}
	return err
}

func findSet(of *session.Session, name string) (*Set, error) {
	prefix := "data/" + name + "/"
	list, err := of.List(prefix)
	if err != nil {
		return nil, err
	}
	s := &Set{Name: name, rounding: &seenIntegers{}}
	for _, a := range list {
		b, err := of.Array(a.Name)
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
		case part.name == encoderName:
			if s.Encoder, err = encoderIn(b); err != nil {
				return nil, fmt.Errorf("fit: encoder of %s: %w", name, err)
			}
			continue
		case part.name != "v":
			continue
		}
		s.arrays = append(s.arrays, part)
	}
	if s.N == 0 {
		return nil, noSet(of, name)
	}
	slices.SortFunc(s.arrays, bySetOrder)
	return s, nil
}

func (a setArray) isInput() bool {
	return a.name == "x" || strings.HasPrefix(a.name, "x.") && !strings.Contains(a.name, "/")
}

// input is the name of the input whose examples an array is.
func (a setArray) input() string { return strings.TrimPrefix(a.name, "x.") }

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

// shapeOf is that of one of the set's arrays; no shape where there is none.
func (s *Set) shapeOf(name string) shapes.Shape {
	for _, a := range s.arrays {
		if a.name == name {
			return a.shape
		}
	}
	return shapes.Shape{}
}

// array is the one of a name, nil where there is none.
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
func noSet(of *session.Session, name string) error {
	var there []string
	if list, err := of.List("data/"); err == nil { // else the error does without them
		for _, a := range list {
			if set, is := strings.CutSuffix(strings.TrimPrefix(a.Name, "data/"), "/sum"); is {
				there = append(there, set)
			}
		}
	}
	if len(there) == 0 {
		return fmt.Errorf("fit: no data set %q in the session: upload it first", name)
	}
	return fmt.Errorf("fit: no data set %q in the session, there are %s: upload it first", name, strings.Join(there, ", "))
}

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
		switch y := s.shapeOf("y"); {
		case !y.Ok():
			v = fmt.Sprint(w.Dimensions[1:])
		case w.Rank() < y.Rank():
			v = "examples"
		default:
			v = "true"
		}
	}
	return fmt.Sprintf("%s/%d%s/%d/%s", x, s.targets, y, s.positions, v)
}

// answers is how many labels an example has; without labels it is 1.
func (s *Set) answers() int { return max(1, s.positions) }

// sees notes what labels there are, with their weights or those of their examples. Labels
// below 0 count only for nets that refuse them.
func (s *Set) sees(labels []int32, v []float32) {
	s.counted, s.low, s.high = counted(labels, v), math.MaxInt32, math.MinInt32
	for _, l := range labels {
		s.low, s.high = min(s.low, l), max(s.high, l)
	}
}

// counted is how many labels are 0 or more and have no weight of 0.
func counted(labels []int32, v []float32) (n int) {
	for i, l := range labels {
		if l >= 0 && (len(v) == 0 || v[i*len(v)/len(labels)] != 0) {
			n++
		}
	}
	return n
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
