package gaidenkeep

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// A decoder fills variables from a file's bytes.
type decoder struct {
	data    []byte
	at      int
	types   []reflect.Type
	regions []region
	maps    []reflect.Value
	lengths []int // of maps
}

// bad ends the decoding of a file that makes no sense.
func bad(format string, args ...any) {
	panic(refusal("what was kept is damaged: " + fmt.Sprintf(format, args...)))
}

// decode fills vars, which must be all of the file's variables. types are those
// that interfaces may hold.
func decode(data []byte, vars []Var, types []reflect.Type) (err error) {
	defer guard(&err)
	d := &decoder{data: data}
	if string(d.raw(len(magic))) != magic {
		bad("it does not begin as it should")
	}
	byKey := map[uint64]reflect.Type{}
	for _, v := range vars {
		gather(byKey, v.typ)
	}
	for _, t := range types {
		gather(byKey, t)
	}
	for range d.count(8) {
		k := binary.LittleEndian.Uint64(d.raw(8))
		d.types = append(d.types, byKey[k]) // nil where it is none of today's
	}
	roots := d.roots(vars)
	d.allocate(roots)
	for _, r := range d.regions {
		if classOf(r.typ) != plain {
			for i := range r.count {
				d.value(unsafe.Add(r.ptr, uintptr(i)*r.typ.Size()), r.typ)
			}
		}
	}
	for i := range d.maps {
		d.entries(i)
	}
	return nil
}

// gather notes t and all types that its values are made of.
func gather(byKey map[uint64]reflect.Type, t reflect.Type) {
	k := key(t)
	if byKey[k] != nil {
		return
	}
	byKey[k] = t
	switch t.Kind() {
	case reflect.Array, reflect.Pointer, reflect.Slice:
		gather(byKey, t.Elem())
	case reflect.Map:
		gather(byKey, t.Key())
		gather(byKey, t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			gather(byKey, f.Type)
		}
	}
}

// A root is a variable's place in the file.
type root struct {
	Var
	region int
}

// roots reads the list of variables.
func (d *decoder) roots(vars []Var) (out []root) {
	for range d.count(2) {
		name := d.text()
		id := d.count(0)
		if id >= len(d.types) {
			bad("type %d of %d", id, len(d.types))
		}
		found := false
		for _, v := range vars {
			if v.name != name {
				continue
			}
			found = true
			if d.types[id] != v.typ {
				panic(refusal("its type " + v.typ.String() + " is not what it was"))
			}
			r := d.count(0)
			if r >= 2 && d.count(0) != 0 {
				bad("variable %s lies inside of something", name)
			}
			out = append(out, root{v, r - 2})
		}
		if !found {
			bad("variable %s was not requested", name)
		}
	}
	return out
}

// allocate reads the lists of regions and maps and makes memory for them; that
// of variables is there. The contents of plain regions come next: large ones
// stay where they are.
func (d *decoder) allocate(roots []root) {
	n := d.count(2)
	d.regions = make([]region, n)
	total := Limit
	for i := range d.regions {
		t, count := d.typ(), d.count(0)
		if size := t.Size(); size == 0 || count == 0 || count > total/int(size) {
			bad("%d values of type %s", count, t)
		}
		total -= count * int(t.Size())
		d.regions[i] = region{typ: t, count: count}
	}
	for _, r := range roots {
		if r.region < 0 {
			continue // a variable without size
		}
		if r.region >= n || d.regions[r.region].size() != r.typ.Size() {
			bad("variable %s lies in a region of another size", r.name)
		}
		d.regions[r.region].ptr = r.ptr
	}
	for range d.count(2) {
		t, n := d.typ(), d.count(0)
		if t.Kind() != reflect.Map || n > len(d.data) {
			bad("%d entries in a map of type %s", n, t)
		}
		d.maps = append(d.maps, reflect.MakeMapWithSize(t, n))
		d.lengths = append(d.lengths, n)
	}
	for i := range d.regions {
		r := &d.regions[i]
		isPlain := classOf(r.typ) == plain
		var content []byte
		if isPlain {
			for d.at%alignment != 0 {
				d.raw(1)
			}
			content = d.raw(int(r.size()))
			if r.ptr == nil && len(content) >= large {
				r.ptr = unsafe.Pointer(&content[0])
				continue
			}
		}
		if r.ptr == nil {
			r.ptr = reflect.MakeSlice(reflect.SliceOf(r.typ), r.count, r.count).UnsafePointer()
		}
		if isPlain {
			copy(unsafe.Slice((*byte)(r.ptr), r.size()), content)
		}
	}
}

func (d *decoder) raw(n int) []byte {
	if n < 0 || n > len(d.data)-d.at {
		bad("it ends at byte %d, and %d more are wanted", len(d.data), n)
	}
	d.at += n
	return d.data[d.at-n : d.at : d.at]
}

// count reads a number; each of that many things takes at least so many bytes.
func (d *decoder) count(each int) int {
	n, size := binary.Uvarint(d.data[d.at:])
	if size <= 0 || n > 1<<48 || int(n)*each > len(d.data)-d.at {
		bad("the number at byte %d", d.at)
	}
	d.at += size
	return int(n)
}

func (d *decoder) typ() reflect.Type {
	id := d.count(0)
	if id >= len(d.types) {
		bad("type %d of %d", id, len(d.types))
	}
	if d.types[id] == nil {
		panic(refusal("a type that it holds is not what it was"))
	}
	return d.types[id]
}

func (d *decoder) text() string { return string(d.raw(d.count(0))) }

func (d *decoder) pointer(t reflect.Type) unsafe.Pointer {
	switch id := d.count(0); id {
	case 0:
		return nil
	case 1:
		return reflect.New(t).UnsafePointer()
	default:
		offset := uintptr(d.count(0))
		if id-2 >= len(d.regions) {
			bad("region %d of %d", id-2, len(d.regions))
		}
		r := d.regions[id-2]
		if offset+t.Size() > r.size() {
			bad("a pointer behind a region")
		}
		return unsafe.Add(r.ptr, offset)
	}
}

func (d *decoder) value(p unsafe.Pointer, t reflect.Type) {
	switch classOf(t) {
	case plain:
		copy(unsafe.Slice((*byte)(p), t.Size()), d.raw(int(t.Size())))
		return
	case refused, unlocked:
		return
	case marshaled:
		if err := unmarshal(reflect.NewAt(t, p).Interface(), []byte(d.text())); err != nil {
			bad("%s says: %v", article(t), err)
		}
		return
	case timeClass:
		*(*time.Time)(p) = d.time()
		return
	case locationClass:
		*(**time.Location)(p) = d.location()
		return
	}
	switch t.Kind() {
	case reflect.String:
		*(*string)(p) = d.text()
	case reflect.Pointer:
		*(*unsafe.Pointer)(p) = d.pointer(t.Elem())
	case reflect.Slice:
		d.slice(p, t)
	case reflect.Array:
		for i := range t.Len() {
			d.value(unsafe.Add(p, uintptr(i)*t.Elem().Size()), t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			d.value(unsafe.Add(p, f.Offset), f.Type)
		}
	case reflect.Map:
		if id := d.count(0); id > len(d.maps) {
			bad("map %d of %d", id, len(d.maps))
		} else if id > 0 {
			m := d.maps[id-1]
			if m.Type() != t && !m.Type().ConvertibleTo(t) {
				bad("a map of type %s for one of type %s", m.Type(), t)
			}
			reflect.NewAt(t, p).Elem().Set(m.Convert(t))
		}
	case reflect.Interface:
		id := d.count(0)
		if id == 0 {
			return
		}
		if id > len(d.types) {
			bad("type %d of %d", id, len(d.types))
		}
		dynamic := d.types[id-1]
		if dynamic == nil || !dynamic.AssignableTo(t) {
			panic(refusal("a type that it holds is not what it was"))
		}
		v := reflect.New(dynamic)
		d.value(v.UnsafePointer(), dynamic)
		reflect.NewAt(t, p).Elem().Set(v.Elem())
	}
}

func (d *decoder) slice(p unsafe.Pointer, t reflect.Type) {
	n := d.count(0)
	if n == 0 {
		return
	}
	n--
	extent := n + d.count(0)
	if extent == 0 {
		reflect.NewAt(t, p).Elem().Set(reflect.MakeSlice(t, 0, 0))
		return
	}
	start := d.at
	ptr := d.pointer(t.Elem())
	if size := t.Elem().Size(); size > 0 {
		// The whole slice must lie in its region, not only its beginning.
		end := d.at
		d.at = start
		id, offset := d.count(0), d.count(0)
		d.at = end
		if id < 2 || uintptr(offset)+size*uintptr(extent) > d.regions[id-2].size() {
			bad("a slice behind its region")
		}
	}
	*(*slice)(p) = slice{ptr, n, extent}
}

func (d *decoder) entries(i int) {
	m := d.maps[i]
	k, v := m.Type().Key(), m.Type().Elem()
	for range d.lengths[i] {
		key, value := reflect.New(k), reflect.New(v)
		d.value(key.UnsafePointer(), k)
		d.value(value.UnsafePointer(), v)
		m.SetMapIndex(key.Elem(), value.Elem())
	}
}

func (d *decoder) time() time.Time {
	var t time.Time
	if err := t.UnmarshalBinary([]byte(d.text())); err != nil {
		bad("a time: %v", err)
	}
	if l := d.location(); l != nil && l.String() != "" {
		t = t.In(l)
	}
	return t
}

func (d *decoder) location() *time.Location {
	switch name := d.text(); name {
	case "":
		return nil
	case "Local":
		return time.Local
	default:
		l, err := time.LoadLocation(name)
		if err != nil {
			return nil // a zone of somebody's own: the time keeps its offset
		}
		return l
	}
}
