package device

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/wire"
)

// side is the arrays of one moment, for a comparison.
type side struct {
	types map[string]wire.Type
	where map[string]place // of those on disk
	read  func(name string) ([]byte, error)
	close func()
}

// diff compares two snapshots of a space, or one with now.
func (w *Worker) diff(s *space, words []string, prefix string) (*wire.AnswerBody, error) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	from, err := w.then(s, first(words))
	if err != nil {
		return nil, err
	}
	defer from.close()
	var to *side
	if len(words) > 1 {
		to, err = w.then(s, words[1])
	} else {
		to = w.now(s)
	}
	if err != nil {
		return nil, err
	}
	defer to.close()
	ans := &wire.AnswerBody{}
	for n, t := range to.types {
		if _, is := from.types[n]; !is && strings.HasPrefix(n, prefix) {
			ans.Differences = append(ans.Differences, wire.Difference{Name: n, Change: "added", Type: t})
		}
	}
	for n, t := range from.types {
		if !strings.HasPrefix(n, prefix) {
			continue
		}
		u, is := to.types[n]
		d := wire.Difference{Name: n, Type: u}
		switch {
		case !is:
			d.Change, d.Type = "removed", t
		case !t.Equal(u):
			d.Change = "retyped"
		case from.where[n].archive != nil && from.where[n] == to.where[n]:
			continue // one and the same data
		default:
			a, err := from.read(n)
			if err != nil {
				return nil, err
			}
			b, err := to.read(n)
			if err != nil {
				return nil, err
			}
			if !compare(&d, a, b) {
				continue
			}
		}
		ans.Differences = append(ans.Differences, d)
	}
	sort.Slice(ans.Differences, func(i, j int) bool { return ans.Differences[i].Name < ans.Differences[j].Name })
	return ans, nil
}

// then is the arrays as they were at a snapshot. The caller holds the archive's
// mutex.
func (w *Worker) then(s *space, word string) (*side, error) {
	r, why := s.archive.find(word)
	if why != nil {
		return nil, why
	}
	l, closeAll, err := s.archive.sources(r, "", nil)
	if err != nil {
		closeAll()
		return nil, w.asDamaged(s, r, err)
	}
	x := &side{types: map[string]wire.Type{}, where: map[string]place{}, close: closeAll}
	by := map[string]source{}
	for _, src := range l {
		by[src.name], x.types[src.name], x.where[src.name] = src, src.typ, *src.place
	}
	x.read = func(n string) ([]byte, error) {
		src := by[n]
		b := make([]byte, src.file.Tensors[src.tensor].Size())
		if err := src.read(b); err != nil {
			return nil, w.asDamaged(s, r, err)
		}
		return b, nil
	}
	return x, nil
}

func (w *Worker) now(s *space) *side {
	w.mu.Lock()
	m := w.freeze(s)
	x := &side{types: map[string]wire.Type{}, where: map[string]place{}, close: func() { w.thaw(m) }}
	by := map[string]*array{}
	for i, a := range m.arrays {
		by[m.names[i]], x.types[m.names[i]] = a, a.typ
		if a.saved != nil {
			x.where[m.names[i]] = *a.saved
		}
	}
	w.mu.Unlock()
	x.read = func(n string) ([]byte, error) {
		a := by[n]
		b := make([]byte, a.bytes)
		if err := w.client.Download(a.buf, b); err != nil {
			return nil, fmt.Errorf("array %s: %w", n, err)
		}
		return b, nil
	}
	return x
}

// compare fills d with how b differs from a, two arrays of the type d.Type, and
// says whether it does.
func compare(d *wire.Difference, a, b []byte) bool {
	d.Change = "changed"
	size, number := elementOf(d.Type.DType)
	var norm, old float64
	for at := 0; at+size <= len(a); at += size {
		d.Elements++
		x, y := number(a[at:]), number(b[at:])
		old += x * x
		if string(a[at:at+size]) == string(b[at:at+size]) {
			continue
		}
		d.Changed++
		if delta := math.Abs(y - x); delta <= math.MaxFloat64 { // not NaN
			d.Largest = max(d.Largest, delta)
			norm += delta * delta
		}
	}
	if d.Relative = -1; old > 0 && old <= math.MaxFloat64 && norm <= math.MaxFloat64 {
		d.Relative = math.Sqrt(norm / old)
	}
	return d.Changed > 0
}

// elementOf is the size of an element in bytes and what reads one; complex numbers are two.
func elementOf(t wire.DType) (size int, number func(b []byte) float64) {
	x, isComplex, err := tensorOf("", wire.Type{DType: t})
	if size = t.Size(); isComplex {
		size /= 2
	}
	if number = safetensors.Element(x.DType); err != nil || number == nil {
		number = func([]byte) float64 { return 0 }
	}
	return size, number
}
