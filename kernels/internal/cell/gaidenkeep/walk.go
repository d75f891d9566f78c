package gaidenkeep

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A refusal is the reason why something cannot be kept.
type refusal string

func (r refusal) Error() string { return string(r) }

// atWork is the reason why something cannot be kept while main continues.
type atWork struct{ refusal }

func refuse(format string, args ...any) { panic(refusal(fmt.Sprintf(format, args...))) }

// A region is a piece of memory: count values of one type.
type region struct {
	ptr   unsafe.Pointer
	typ   reflect.Type
	count int
	owner int // index of a variable that reaches it
}

func (r region) start() uintptr { return uintptr(r.ptr) }
func (r region) size() uintptr  { return r.typ.Size() * uintptr(r.count) }
func (r region) end() uintptr   { return r.start() + r.size() }

// A mapping is a map that a variable reaches.
type mapping struct {
	ptr   unsafe.Pointer // what all copies of the map share
	value reflect.Value
	owner int
}

// A group is variables that share memory; most variables are groups of their own.
type group struct {
	vars    []Var
	regions []region // by address
	maps    []mapping
	types   []reflect.Type // of values in interfaces
	dynamic []string       // the same as source, where it has to be told
}

// A walker finds all that one variable reaches.
type walker struct {
	owner   int
	seen    map[spot]int // how many values there have been found
	maps    map[unsafe.Pointer]bool
	regions []region
	found   []mapping
	types   []reflect.Type
	todo    []region // found and not yet walked
	more    []reflect.Value
}

type spot struct {
	ptr unsafe.Pointer
	typ reflect.Type
}

// walk returns what a variable reaches, or why it cannot be kept.
func walk(v Var, owner int) (w *walker, err error) {
	defer guard(&err)
	w = &walker{owner: owner, seen: map[spot]int{}, maps: map[unsafe.Pointer]bool{}}
	if v.lost != "" {
		refuse("%s", v.lost)
	}
	if namesDescriptor(v.name, v.typ) && isOpen(reflect.NewAt(v.typ, v.ptr).Elem()) {
		refuse("it is the number of an open file")
	}
	w.visit(v.ptr, v.typ, 1)
	for len(w.todo) > 0 || len(w.more) > 0 {
		if n := len(w.todo); n > 0 {
			r := w.todo[n-1]
			w.todo = w.todo[:n-1]
			for i := range r.count {
				w.value(unsafe.Add(r.ptr, uintptr(i)*r.typ.Size()), r.typ)
			}
			continue
		}
		n := len(w.more) - 1
		m := w.more[n]
		w.more = w.more[:n]
		w.entries(m)
	}
	return w, nil
}

// visit notes count values of type t at p.
func (w *walker) visit(p unsafe.Pointer, t reflect.Type, count int) {
	if t.Size() == 0 || count == 0 {
		return
	}
	at := spot{p, t}
	if w.seen[at] >= count {
		return
	}
	w.seen[at] = count
	r := region{p, t, count, w.owner}
	w.regions = append(w.regions, r)
	if classOf(t) != plain {
		w.todo = append(w.todo, r)
	}
}

// entries walks the keys and values of a map.
func (w *walker) entries(m reflect.Value) {
	k, e := m.Type().Key(), m.Type().Elem()
	if classOf(k) == plain && classOf(e) == plain {
		return
	}
	for it := m.MapRange(); it.Next(); {
		w.value(copied(it.Key(), k), k)
		w.value(copied(it.Value(), e), e)
	}
}

// copied puts a value into memory of its own.
func copied(v reflect.Value, t reflect.Type) unsafe.Pointer {
	p := reflect.New(t)
	p.Elem().Set(v)
	return p.UnsafePointer()
}

// value walks the value of type t at p.
func (w *walker) value(p unsafe.Pointer, t reflect.Type) {
	switch classOf(t) {
	case plain, marshaled, timeClass, locationClass, unlocked:
		return
	case refused:
		if !zero(p, t.Size()) {
			refuse("it holds %s", article(t))
		}
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if q := *(*unsafe.Pointer)(p); q != nil {
			if live && handle(t.Elem()) && classOf(t.Elem()) != marshaled { // that knows what it may read
				panic(atWork{refusal("it holds " + article(t))})
			}
			w.visit(q, t.Elem(), 1)
		}
	case reflect.Slice:
		if s := (*slice)(p); s.ptr != nil {
			w.visit(s.ptr, t.Elem(), s.extent(t.Elem()))
		}
	case reflect.Array:
		for i := range t.Len() {
			w.value(unsafe.Add(p, uintptr(i)*t.Elem().Size()), t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			at := unsafe.Add(p, f.Offset)
			if namesDescriptor(f.Name, f.Type) && isOpen(reflect.NewAt(f.Type, at).Elem()) {
				refuse("it holds %s, the number of an open file", f.Name)
			}
			w.value(at, f.Type)
		}
	case reflect.Map:
		q := *(*unsafe.Pointer)(p)
		if q == nil || w.maps[q] {
			return
		}
		w.maps[q] = true
		m := reflect.NewAt(t, p).Elem()
		w.found = append(w.found, mapping{q, m, w.owner})
		w.more = append(w.more, m)
	case reflect.Interface:
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			return
		}
		d := v.Elem().Type()
		if source(d) == "" {
			refuse("it holds %s in an interface, which only its own package can make", article(d))
		}
		w.types = append(w.types, d)
		w.value(copied(v.Elem(), d), d)
	}
}

// slice is how a slice lies in memory.
type slice struct {
	ptr      unsafe.Pointer
	len, cap int
}

// maxSpare is how many bytes behind a slice's length are kept with it. A slice with
// more loses them: an append to it takes other memory.
const maxSpare = 16 << 20

// extent returns how many elements of a slice are kept: those behind its length, too,
// which an append overwrites and a longer slice shows, if all that they may hold can be
// kept.
func (s *slice) extent(elem reflect.Type) int {
	spare := uintptr(s.cap-s.len) * elem.Size()
	if spare == 0 || spare > maxSpare {
		return s.len
	}
	if mayRefuse(elem) && !zero(unsafe.Add(s.ptr, uintptr(s.len)*elem.Size()), spare) {
		return s.len
	}
	return s.cap
}

func zero(p unsafe.Pointer, size uintptr) bool {
	for _, b := range unsafe.Slice((*byte)(p), size) {
		if b != 0 {
			return false
		}
	}
	return true
}

// article returns "a chan int", "an os.File".
func article(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Func:
		return "a function"
	case reflect.Chan:
		return "a channel"
	}
	s := t.String()
	name := strings.TrimLeft(s, "*[]")
	if name != "" && strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + s
	}
	return "a " + s
}

// survey sorts variables into groups, and says which cannot be kept.
func survey(vars []Var) (groups []*group, lost map[string]error) {
	lost = map[string]error{}
	walkers := make([]*walker, len(vars))
	for i, v := range vars {
		w, err := walk(v, i)
		if err != nil {
			lost[v.name] = err
			continue
		}
		walkers[i] = w
	}
	for {
		join := newJoin(len(vars))
		var all []region
		for _, w := range walkers {
			if w != nil {
				all = append(all, w.regions...)
			}
		}
		merged, torn := merge(all, join)
		if torn >= 0 {
			lost[vars[torn].name] = refusal("it sees the same memory as two different types")
			walkers[torn] = nil
			continue
		}
		byMap := map[unsafe.Pointer]int{}
		for _, w := range walkers {
			if w == nil {
				continue
			}
			for _, m := range w.found {
				if other, ok := byMap[m.ptr]; ok {
					join.unite(other, m.owner)
				}
				byMap[m.ptr] = m.owner
			}
		}
		return collect(vars, walkers, merged, join), lost
	}
}

// collect makes the groups.
func collect(vars []Var, walkers []*walker, regions []region, join *join) []*group {
	var groups []*group
	byRoot := map[int]*group{}
	for i, w := range walkers {
		if w == nil {
			continue
		}
		root := join.find(i)
		g := byRoot[root]
		if g == nil {
			g = &group{}
			byRoot[root] = g
			groups = append(groups, g)
		}
		g.vars = append(g.vars, vars[i])
		seen := map[unsafe.Pointer]bool{}
		for _, m := range g.maps {
			seen[m.ptr] = true
		}
		for _, m := range w.found {
			if !seen[m.ptr] {
				g.maps = append(g.maps, m)
			}
		}
		g.types = append(g.types, w.types...)
	}
	for _, r := range regions {
		g := byRoot[join.find(r.owner)]
		g.regions = append(g.regions, r)
	}
	known := map[reflect.Type]bool{}
	for _, t := range basicTypes() {
		known[t] = true
	}
	for _, g := range groups {
		told := map[reflect.Type]bool{}
		for _, t := range g.types {
			if !known[t] && !told[t] {
				told[t] = true
				g.dynamic = append(g.dynamic, source(t))
			}
		}
	}
	return groups
}

// merge joins regions that overlap, so that every byte lies in one region. torn
// is the owner of a region that does not fit into the one it overlaps, or -1.
func merge(all []region, join *join) (merged []region, torn int) {
	slices.SortStableFunc(all, func(a, b region) int {
		return cmp.Or(cmp.Compare(a.start(), b.start()), cmp.Compare(b.size(), a.size()))
	})
	for _, r := range all {
		n := len(merged) - 1
		if n < 0 || r.start() >= merged[n].end() {
			merged = append(merged, r)
			continue
		}
		last := &merged[n]
		join.unite(last.owner, r.owner)
		offset := r.start() - last.start()
		switch {
		case r.end() <= last.end() && nested(last.typ, last.count, offset, r.typ, r.count):
		case offset == 0 && r.size() == last.size() && nested(r.typ, r.count, 0, last.typ, last.count):
			last.typ, last.count = r.typ, r.count
		case r.typ == last.typ && offset%r.typ.Size() == 0:
			last.count = max(last.count, int(offset/r.typ.Size())+r.count)
		default:
			return nil, r.owner
		}
	}
	return merged, -1
}

// nested reports whether n values of type want lie at an offset in count values
// of type t.
func nested(t reflect.Type, count int, offset uintptr, want reflect.Type, n int) bool {
	for {
		i := int(offset / t.Size())
		offset %= t.Size()
		if t == want && offset == 0 {
			return i+n <= count
		}
		switch t.Kind() {
		case reflect.Array:
			t, count = t.Elem(), t.Len()
		case reflect.Struct:
			found := false
			for f := range t.Fields() {
				if f.Offset <= offset && offset < f.Offset+f.Type.Size() {
					t, count, offset, found = f.Type, 1, offset-f.Offset, true
					break
				}
			}
			if !found {
				return false
			}
		default:
			return false
		}
	}
}

// A join says which variables share memory.
type join struct{ parent []int }

func newJoin(n int) *join {
	j := &join{make([]int, n)}
	for i := range j.parent {
		j.parent[i] = i
	}
	return j
}

func (j *join) find(i int) int {
	for j.parent[i] != i {
		j.parent[i] = j.parent[j.parent[i]]
		i = j.parent[i]
	}
	return i
}

func (j *join) unite(a, b int) { j.parent[j.find(a)] = j.find(b) }
