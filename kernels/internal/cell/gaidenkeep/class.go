package gaidenkeep

import (
	"encoding"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A class says how values of a type are kept.
type class int

const (
	plain         class = iota // its memory, as it is
	walked                     // part by part
	marshaled                  // as it marshals itself
	timeClass                  // a time.Time
	locationClass              // a *time.Location
	unlocked                   // a mutex: whoever held it is gone
	refused                    // not at all, unless it is zero
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	locationType = reflect.TypeFor[*time.Location]()
)

var classes = map[reflect.Type]class{}

// classOf looks at a type once.
func classOf(t reflect.Type) class {
	if c, ok := classes[t]; ok {
		return c
	}
	classes[t] = walked // a type that contains itself does so by reference
	c := classify(t)
	classes[t] = c
	return c
}

func classify(t reflect.Type) class {
	switch t {
	case timeType:
		return timeClass
	case locationType:
		return locationClass
	}
	switch t.PkgPath() + "." + t.Name() {
	case "sync.Mutex", "sync.RWMutex", "internal/sync.Mutex":
		return unlocked
	}
	switch t.Kind() {
	case reflect.Array:
		if classOf(t.Elem()) == plain {
			return plain
		}
		return walked
	case reflect.Struct:
		return classifyStruct(t)
	case reflect.String, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return walked
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return refused
	}
	return plain
}

func classifyStruct(t reflect.Type) class {
	hidden, all := false, plain
	for f := range t.Fields() {
		hidden = hidden || !f.IsExported() && f.Name != "_"
		if classOf(f.Type) != plain || namesDescriptor(f.Name, f.Type) {
			all = walked
		}
	}
	if !standard(t.PkgPath()) && gobs(t) {
		return marshaled
	}
	if path := t.PkgPath(); hidden && standard(path) && !justMemory(path, t.Name()) {
		if marshals(t) {
			return marshaled
		}
		return refused
	}
	return all
}

// namesDescriptor reports whether a variable or field holds the number of an open
// file, as its name says.
func namesDescriptor(name string, t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uintptr:
	default:
		return false
	}
	switch lower := strings.ToLower(name); {
	case lower == "fd", lower == "sysfd", strings.HasSuffix(lower, "_fd"), strings.HasSuffix(lower, "descriptor"):
		return true
	}
	return strings.HasSuffix(name, "FD") || strings.HasSuffix(name, "Fd")
}

// isOpen reports whether a number is that of a file which the program has opened.
func isOpen(v reflect.Value) bool {
	n := int64(0)
	if v.CanInt() {
		n = v.Int()
	} else {
		n = int64(v.Uint())
	}
	var stat syscall.Stat_t
	return n > 2 && n < 1<<20 && syscall.Fstat(int(n), &stat) == nil
}

// standard reports whether a package is of the standard library. Not every path
// without a dot is.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains(strings.Fields(`archive bufio bytes cmp compress container context crypto database debug embed
		encoding errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin
		reflect regexp runtime slices sort strconv strings structs sync syscall testing text time unicode unique weak`), first)
}

// justMemory reports whether the hidden fields of a type of the standard
// library mean nothing but what they say, in this process and in the next.
func justMemory(path, name string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch first {
	case "bytes", "strings", "bufio", "container", "math", "image", "encoding", "errors", "go", "text", "unicode", "io", "embed":
		return true
	case "sync":
		return name != "Cond" && name != "Pool" && name != "WaitGroup"
	}
	return path == "internal/sync" || path == "net/url"
}

var (
	gobEncoder      = reflect.TypeFor[interface{ GobEncode() ([]byte, error) }]()
	gobDecoder      = reflect.TypeFor[interface{ GobDecode([]byte) error }]()
	binaryMarshal   = reflect.TypeFor[encoding.BinaryMarshaler]()
	binaryUnmarshal = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	textMarshal     = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshal   = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(gobEncoder) && p.Implements(gobDecoder) ||
		p.Implements(binaryMarshal) && p.Implements(binaryUnmarshal) ||
		p.Implements(textMarshal) && p.Implements(textUnmarshal)
}

// gobs reports whether a struct has gob methods of its own: those of an embedded field
// would leave the other fields out.
func gobs(t reflect.Type) bool {
	some := func(t reflect.Type) bool { return t.Implements(gobEncoder) || t.Implements(gobDecoder) }
	for f := range t.Fields() {
		if f.Anonymous && (some(f.Type) || some(reflect.PointerTo(f.Type))) {
			return false
		}
	}
	p := reflect.PointerTo(t)
	return p.Implements(gobEncoder) && p.Implements(gobDecoder)
}

// marshal calls the first pair of methods that p, a pointer, has.
func marshal(p any) ([]byte, error) {
	switch m := p.(type) {
	case interface{ GobEncode() ([]byte, error) }:
		return m.GobEncode()
	case encoding.BinaryMarshaler:
		return m.MarshalBinary()
	}
	return p.(encoding.TextMarshaler).MarshalText()
}

func unmarshal(p any, data []byte) error {
	switch m := p.(type) {
	case interface{ GobDecode([]byte) error }:
		return m.GobDecode(data)
	case encoding.BinaryUnmarshaler:
		return m.UnmarshalBinary(data)
	}
	return p.(encoding.TextUnmarshaler).UnmarshalText(data)
}

// basicTypes are the types in interfaces that need no naming.
func basicTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[float32](), reflect.TypeFor[float64](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[uintptr](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
		reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]byte](),
	}
}

var keys = map[reflect.Type]uint64{}

// key identifies a type by its name and by all that it is made of: a type that
// was declared again with other fields has another key.
func key(t reflect.Type) uint64 {
	if k, ok := keys[t]; ok {
		return k
	}
	h := fnv.New64a()
	h.Write(describe(nil, t, map[reflect.Type]bool{}))
	keys[t] = h.Sum64()
	return keys[t]
}

func describe(b []byte, t reflect.Type, seen map[reflect.Type]bool) []byte {
	if t.Name() != "" {
		b = append(b, t.PkgPath()+"."+t.Name()...)
		if seen[t] || t.PkgPath() == "" {
			return b
		}
		seen[t] = true
		if c := classOf(t); c == marshaled || c == timeClass || c == refused && t.Kind() == reflect.Struct {
			return b
		}
		b = append(b, '=')
	}
	b = append(b, t.Kind().String()...)
	switch t.Kind() {
	case reflect.Array:
		b = strconv.AppendInt(append(b, ' '), int64(t.Len()), 10)
		b = describe(append(b, ' '), t.Elem(), seen)
	case reflect.Map:
		b = describe(append(b, ' '), t.Key(), seen)
		b = describe(append(b, ' '), t.Elem(), seen)
	case reflect.Pointer, reflect.Slice:
		if t == locationType {
			break
		}
		b = describe(append(b, ' '), t.Elem(), seen)
	case reflect.Struct:
		b = append(b, '{')
		for f := range t.Fields() {
			b = append(b, f.Name+" "...)
			b = append(describe(b, f.Type, seen), ';')
		}
		b = append(b, '}')
	case reflect.Interface, reflect.Func, reflect.Chan:
		if t.Name() == "" {
			b = append(b, t.String()...)
		}
	}
	return b
}

// home is the package whose own types can be written: the cells' program.
var home = "main"

// source returns a type as Go source, with the path of its package as {/path/}
// before a name: "map[string]{/net/url/}.URL". It is "" for a type that no
// other package can write.
func source(t reflect.Type) string {
	if name := t.Name(); name != "" {
		switch path := t.PkgPath(); {
		case path == "":
			return name
		case strings.ContainsAny(name, "[·"):
			return ""
		case path == home:
			return name
		case name[0] < 'A' || name[0] > 'Z' || strings.Contains("/"+path+"/", "/internal/"):
			return ""
		default:
			return "{/" + path + "/}." + name
		}
	}
	around := func(before string, t reflect.Type) string {
		if s := source(t); s != "" {
			return before + s
		}
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return around("*", t.Elem())
	case reflect.Slice:
		return around("[]", t.Elem())
	case reflect.Array:
		return around("["+strconv.Itoa(t.Len())+"]", t.Elem())
	case reflect.Map:
		if s := source(t.Key()); s != "" {
			return around("map["+s+"]", t.Elem())
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return "any"
		}
	case reflect.Struct:
		if t.NumField() == 0 {
			return "struct{}"
		}
	}
	return ""
}
