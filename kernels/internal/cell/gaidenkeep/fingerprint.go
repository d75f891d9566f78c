package gaidenkeep

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// A fingerprint of what a variable reaches is taken when it has its first value,
// and again when the program ends: what cannot be kept may be made again by its
// definition only if nothing has changed it. Memory does not move, so a pointer is
// its address.

// A fingerprinter goes through all that a variable reaches, once.
type fingerprinter struct {
	sum  uint64
	seen map[spot]int
	own  string // the library's module: of its types only the exported fields count
}

// fingerprint returns a number that another one at another time equals only if
// the variable is what it was.
func fingerprint(v Var) (sum uint64) {
	defer func() {
		if recover() != nil {
			sum = 0 // it changes while it is being read
		}
	}()
	f := fingerprinter{sum: 14695981039346656037, seen: map[spot]int{}, own: libraryPath()}
	f.value(v.ptr, v.typ)
	return f.sum | 1
}

// libraryPath is the path of the library's module, as the kernel says it.
var libraryPath = sync.OnceValue(func() string {
	data, _ := os.ReadFile(filepath.Join(shared, LibraryFile))
	return string(data)
})

// bytes adds memory to the sum, by the function FNV-1a.
func (f *fingerprinter) bytes(p unsafe.Pointer, n uintptr) {
	for _, b := range unsafe.Slice((*byte)(p), n) {
		f.sum = (f.sum ^ uint64(b)) * 1099511628211
	}
}

func (f *fingerprinter) number(n uint64) { f.bytes(unsafe.Pointer(&n), 8) }

// opaque are types of the standard library that change only what they remember
// of their work, or are never changed.
func opaque(t reflect.Type) bool {
	switch t.PkgPath() + "." + t.Name() {
	case "os.File", "strings.Replacer", "text/template.Template", "html/template.Template", "regexp.Regexp", "time.Location", "internal/abi.Type", "reflect.rtype", "sync.Pool":
		return true
	}
	return false
}

func (f *fingerprinter) visit(p unsafe.Pointer, t reflect.Type, count int) {
	if p == nil || t.Size() == 0 || f.seen[spot{p, t}] >= count {
		return
	}
	f.seen[spot{p, t}] = count
	for i := range count {
		f.value(unsafe.Add(p, uintptr(i)*t.Size()), t)
	}
}

func (f *fingerprinter) value(p unsafe.Pointer, t reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		if opaque(t) {
			return
		}
		ours := f.own != "" && strings.HasPrefix(t.PkgPath(), f.own+"/")
		for i := range t.NumField() {
			if field := t.Field(i); field.Name != "_" && (!ours || field.IsExported()) {
				f.value(unsafe.Add(p, field.Offset), field.Type)
			}
		}
	case reflect.Array:
		for i := range t.Len() {
			f.value(unsafe.Add(p, uintptr(i)*t.Elem().Size()), t.Elem())
		}
	case reflect.String:
		f.bytes(p, t.Size())
	case reflect.Pointer:
		f.bytes(p, t.Size())
		f.visit(*(*unsafe.Pointer)(p), t.Elem(), 1)
	case reflect.Slice:
		s := (*slice)(p)
		f.bytes(p, unsafe.Sizeof(s.ptr)+unsafe.Sizeof(s.len))
		f.visit(s.ptr, t.Elem(), s.len)
	case reflect.Map:
		f.entries(p, t)
	case reflect.Interface:
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			f.number(0)
			return
		}
		d := v.Elem().Type()
		h := fnv.New64a()
		h.Write([]byte(d.PkgPath() + d.String()))
		f.number(h.Sum64())
		f.value(copied(v.Elem(), d), d)
	case reflect.Chan:
		f.bytes(p, t.Size())
		f.number(pending(p, t))
	default:
		f.bytes(p, t.Size())
	}
}

// entries adds a map's, whose order means nothing.
func (f *fingerprinter) entries(p unsafe.Pointer, t reflect.Type) {
	f.bytes(p, t.Size())
	q := *(*unsafe.Pointer)(p)
	if q == nil || f.seen[spot{q, t}] > 0 {
		return
	}
	f.seen[spot{q, t}] = 1
	before, all := f.sum, uint64(0)
	m := reflect.NewAt(t, p).Elem()
	for it := m.MapRange(); it.Next(); {
		f.sum = before
		f.key(it.Key())
		f.value(copied(it.Value(), t.Elem()), t.Elem())
		all += f.sum
	}
	f.sum = before
	f.number(all)
	f.number(uint64(m.Len()))
}

// key adds a map's key. A string is equal to another at another place.
func (f *fingerprinter) key(k reflect.Value) {
	if k.Kind() == reflect.String {
		s := k.String()
		f.bytes(unsafe.Pointer(unsafe.StringData(s)), uintptr(len(s)))
		return
	}
	f.value(copied(k, k.Type()), k.Type())
}

// pending is what there is to be received from a channel: how many values, one
// more for a sender that waits, and the largest number if it is closed.
func pending(p unsafe.Pointer, t reflect.Type) uint64 {
	c := reflect.NewAt(reflect.ChanOf(reflect.BothDir, t.Elem()), p).Elem()
	if c.IsNil() {
		return 0
	}
	if n := c.Len(); n > 0 {
		return uint64(n)
	}
	switch x, ok := c.TryRecv(); {
	case ok:
		return 1 // the program ends: nobody misses it
	case x.IsValid():
		return ^uint64(0)
	}
	return 0
}

// mayRefuse reports whether a value of a type may hold something that cannot be
// kept.
func mayRefuse(t reflect.Type) bool {
	return reaches(t, map[reflect.Type]bool{}, func(t reflect.Type) (is, known bool) {
		c := classOf(t)
		return c == refused || t.Kind() == reflect.Interface, c != walked
	})
}

// reaches reports whether a value of a type may reach one of a type that is what is looked
// for. Where that is not so and known of all that it reaches, it is not taken apart.
func reaches(t reflect.Type, seen map[reflect.Type]bool, is func(reflect.Type) (is, known bool)) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if yes, known := is(t); yes || known {
		return yes
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return reaches(t.Elem(), seen, is)
	case reflect.Map:
		return reaches(t.Key(), seen, is) || reaches(t.Elem(), seen, is)
	case reflect.Struct:
		for f := range t.Fields() {
			if reaches(f.Type, seen, is) {
				return true
			}
		}
	}
	return false
}
