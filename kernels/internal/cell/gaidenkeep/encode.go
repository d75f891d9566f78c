package gaidenkeep

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"reflect"
	"slices"
	"sort"
	"syscall"
	"time"
	"unsafe"
)

// magic begins every file. What follows: the types' keys; the variables, each
// with its name, type and place; the regions, each with its type and count; the
// maps, each with its type and length; then the contents of the regions of plain
// data, of the other regions and of the maps, each in the same order.
const magic = "gaiden keep 2\n"

const (
	large     = 64 << 10 // bytes from which on data is not copied
	alignment = 16       // of plain data in the file
)

// An encoder gathers a file's bytes: small pieces in buf, large ones where they lie.
type encoder struct {
	*group
	chunks [][]byte
	buf    []byte
	size   int
	ids    map[reflect.Type]int
	keys   []byte // of the types, in the order of their ids
	mapID  map[unsafe.Pointer]int
	order  []int // of the regions in the file, which where they lie does not change
	place  []int // of each region in that order
}

func (g *group) encode() *encoder {
	e := &encoder{group: g, ids: map[reflect.Type]int{}, mapID: map[unsafe.Pointer]int{}}
	for i, m := range g.maps {
		e.mapID[m.ptr] = i
	}
	// The types come first in the file, so they are counted first.
	for _, v := range g.vars {
		e.addType(v.typ)
	}
	e.arrange()
	for _, i := range e.order {
		e.addType(g.regions[i].typ)
	}
	for _, m := range g.maps {
		e.addType(m.value.Type())
	}
	for _, t := range g.types {
		e.addType(t)
	}
	e.raw([]byte(magic))
	e.number(len(e.ids))
	e.raw(e.keys)
	e.number(len(g.vars))
	for _, v := range g.vars {
		e.text(v.name)
		e.number(e.typeID(v.typ))
		e.pointer(v.ptr, v.typ)
	}
	e.number(len(g.regions))
	for _, i := range e.order {
		r := g.regions[i]
		e.number(e.typeID(r.typ))
		e.number(r.count)
	}
	e.number(len(g.maps))
	for _, m := range g.maps {
		e.number(e.typeID(m.value.Type()))
		e.number(m.value.Len())
	}
	for _, i := range e.order {
		if r := g.regions[i]; classOf(r.typ) == plain {
			e.align()
			e.raw(unsafe.Slice((*byte)(r.ptr), r.size()))
		}
	}
	for _, i := range e.order {
		if r := g.regions[i]; classOf(r.typ) != plain {
			for i := range r.count {
				e.value(unsafe.Add(r.ptr, uintptr(i)*r.typ.Size()), r.typ)
			}
		}
	}
	for _, m := range g.maps {
		e.entries(m.value)
	}
	e.flush()
	return e
}

// arrange orders the regions by what they are. A file's bytes are compared with those of
// the file that its values came from, and memory lies elsewhere in each process: by
// address, one variable in ten was written again where the heap was crowded.
func (e *encoder) arrange() {
	n := len(e.regions)
	e.order, e.place = make([]int, n), make([]int, n)
	types := make([]uint64, n)
	for i, r := range e.regions {
		e.order[i], types[i] = i, key(r.typ)
	}
	slices.SortStableFunc(e.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(types[a], types[b]), cmp.Compare(e.regions[a].count, e.regions[b].count))
	})
	for at, i := range e.order {
		e.place[i] = at
	}
}

func (e *encoder) addType(t reflect.Type) {
	if _, ok := e.ids[t]; !ok {
		e.ids[t] = len(e.ids)
		e.keys = binary.LittleEndian.AppendUint64(e.keys, key(t))
	}
}

func (e *encoder) typeID(t reflect.Type) int {
	id, ok := e.ids[t]
	if !ok {
		refuse(changes)
	}
	return id
}

// changes is said of what a goroutine changes while it is being read.
const changes = "it changes while it is being kept"

func (e *encoder) align() {
	for e.size%alignment != 0 {
		e.raw([]byte{0})
	}
}

func (e *encoder) flush() {
	if len(e.buf) > 0 {
		e.chunks = append(e.chunks, e.buf)
		e.buf = nil
	}
}

func (e *encoder) raw(p []byte) {
	e.size += len(p)
	if len(p) < large {
		e.buf = append(e.buf, p...)
		return
	}
	e.flush()
	e.chunks = append(e.chunks, p)
}

func (e *encoder) number(n int) {
	was := len(e.buf)
	e.buf = binary.AppendUvarint(e.buf, uint64(n))
	e.size += len(e.buf) - was
}

func (e *encoder) text(s string) {
	e.number(len(s))
	e.raw(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// pointer writes 0 for nil, 1 for a value without size, else the region and
// the offset in it.
func (e *encoder) pointer(p unsafe.Pointer, t reflect.Type) {
	switch {
	case p == nil:
		e.number(0)
		return
	case t.Size() == 0:
		e.number(1)
		return
	}
	i := sort.Search(len(e.regions), func(i int) bool { return e.regions[i].end() > uintptr(p) })
	if i == len(e.regions) || e.regions[i].start() > uintptr(p) {
		refuse(changes)
	}
	e.number(e.place[i] + 2)
	e.number(int(uintptr(p) - e.regions[i].start()))
}

func (e *encoder) value(p unsafe.Pointer, t reflect.Type) {
	switch classOf(t) {
	case plain:
		e.raw(unsafe.Slice((*byte)(p), t.Size()))
		return
	case refused, unlocked:
		return
	case marshaled:
		data, err := marshal(reflect.NewAt(t, p).Interface())
		if err != nil {
			refuse("it holds %s, which says: %v", article(t), err)
		}
		e.text(string(data))
		return
	case timeClass:
		e.time(*(*time.Time)(p))
		return
	case locationClass:
		e.location(*(**time.Location)(p))
		return
	}
	switch t.Kind() {
	case reflect.String:
		e.text(*(*string)(p))
	case reflect.Pointer:
		e.pointer(*(*unsafe.Pointer)(p), t.Elem())
	case reflect.Slice:
		s := (*slice)(p)
		if s.ptr == nil {
			e.number(0)
			return
		}
		extent := s.extent(t.Elem())
		e.number(s.len + 1)
		e.number(extent - s.len)
		if extent > 0 {
			e.pointer(s.ptr, t.Elem())
		}
	case reflect.Array:
		for i := range t.Len() {
			e.value(unsafe.Add(p, uintptr(i)*t.Elem().Size()), t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			e.value(unsafe.Add(p, f.Offset), f.Type)
		}
	case reflect.Map:
		q := *(*unsafe.Pointer)(p)
		if q == nil {
			e.number(0)
			return
		}
		id, ok := e.mapID[q]
		if !ok {
			refuse(changes)
		}
		e.number(id + 1)
	case reflect.Interface:
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			e.number(0)
			return
		}
		d := v.Elem().Type()
		e.number(e.typeID(d) + 1)
		e.value(copied(v.Elem(), d), d)
	}
}

func (e *encoder) entries(m reflect.Value) {
	k, v := m.Type().Key(), m.Type().Elem()
	for it := m.MapRange(); it.Next(); {
		e.value(copied(it.Key(), k), k)
		e.value(copied(it.Value(), v), v)
	}
}

// time writes a time without its monotonic clock, which means nothing to
// another process.
func (e *encoder) time(t time.Time) {
	data, err := t.MarshalBinary()
	if err != nil {
		refuse("it holds a time that says: %v", err)
	}
	e.text(string(data))
	e.location(t.Location())
}

func (e *encoder) location(l *time.Location) {
	if l == nil {
		e.text("")
		return
	}
	e.text(l.String())
}

func (e *encoder) writeFile(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, c := range e.chunks {
		if err == nil {
			_, err = f.Write(c)
		}
	}
	return cmp.Or(err, f.Close())
}

// equals reports whether a file holds what would be written.
func (e *encoder) equals(name string) bool {
	old, err := mapFile(name, syscall.PROT_READ)
	if err != nil || len(old) != e.size {
		return false
	}
	defer syscall.Munmap(old)
	rest := old
	for _, c := range e.chunks {
		if !bytes.Equal(c, rest[:len(c)]) {
			return false
		}
		rest = rest[len(c):]
	}
	return true
}
