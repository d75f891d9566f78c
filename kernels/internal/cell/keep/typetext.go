package keep

import (
	"go/types"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
)

// A typeText is a type as Go source that any program of the notebook can
// contain. A name of another package has the package as {/path/} before
// it: "map[string]*{/net/url/}.URL".
type typeText string

// textOf writes a type; ok is false for types that only their own package, or
// their own function, can name.
func textOf(t types.Type) (text typeText, ok bool) {
	w := typeWriter{ok: true}
	w.write(t)
	return typeText(w.b.String()), w.ok
}

// split returns the paths of the packages and the names of the cells' own types
// that a type needs, and its source when name says what a package is called.
func (t typeText) split(name func(path string) string) (source string, paths []string, own map[string]bool) {
	var b strings.Builder
	rest := string(t)
	for {
		before, after, found := strings.Cut(rest, "{/")
		b.WriteString(before)
		if !found {
			break
		}
		path, behind, _ := strings.Cut(after, "/}")
		paths = append(paths, path)
		b.WriteString(name(path))
		rest = behind
	}
	own = map[string]bool{}
	for _, l := range parse.Lex(string(t)) {
		if l.Lit != "" {
			own[l.Lit] = true // more than needed, which does no harm
		}
	}
	return b.String(), paths, own
}

// A typeWriter writes typeTexts.
type typeWriter struct {
	b  strings.Builder
	ok bool
}

func (w *typeWriter) write(t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		w.ok = w.ok && t.Kind() != types.UnsafePointer && t.Kind() != types.Invalid
		w.b.WriteString(t.Name())
	case *types.Named:
		w.named(t)
	case *types.Pointer:
		w.b.WriteString("*")
		w.write(t.Elem())
	case *types.Slice:
		w.b.WriteString("[]")
		w.write(t.Elem())
	case *types.Array:
		w.b.WriteString("[" + strconv.FormatInt(t.Len(), 10) + "]")
		w.write(t.Elem())
	case *types.Map:
		w.b.WriteString("map[")
		w.write(t.Key())
		w.b.WriteString("]")
		w.write(t.Elem())
	case *types.Chan:
		w.b.WriteString(map[types.ChanDir]string{types.SendRecv: "chan (", types.SendOnly: "chan<- (", types.RecvOnly: "<-chan ("}[t.Dir()])
		w.write(t.Elem())
		w.b.WriteString(")")
	case *types.Signature:
		w.b.WriteString("func")
		w.signature(t)
	case *types.Struct:
		w.structure(t)
	case *types.Interface:
		w.iface(t)
	default:
		w.ok = false
	}
}

func (w *typeWriter) named(t *types.Named) {
	o := t.Obj()
	switch p := o.Pkg(); {
	case p == nil: // error
	case o.Parent() != p.Scope():
		w.ok = false
	case p.Path() == "main":
	case !o.Exported() || !build.Importable(p.Path()):
		w.ok = false
	default:
		w.b.WriteString("{/" + p.Path() + "/}.")
	}
	w.b.WriteString(o.Name())
	if args := t.TypeArgs(); args.Len() > 0 {
		for i := range args.Len() {
			w.b.WriteString(map[bool]string{true: "[", false: ", "}[i == 0])
			w.write(args.At(i))
		}
		w.b.WriteString("]")
	}
}

// local reports whether a name without a package may be written here.
func (w *typeWriter) local(o types.Object) {
	w.ok = w.ok && (o.Exported() || o.Pkg() != nil && o.Pkg().Path() == "main")
}

func (w *typeWriter) signature(t *types.Signature) {
	list := func(v *types.Tuple, variadic bool) {
		w.b.WriteString("(")
		for i := range v.Len() {
			if i > 0 {
				w.b.WriteString(", ")
			}
			if s, ok := v.At(i).Type().(*types.Slice); ok && variadic && i == v.Len()-1 {
				w.b.WriteString("...")
				w.write(s.Elem())
			} else {
				w.write(v.At(i).Type())
			}
		}
		w.b.WriteString(")")
	}
	list(t.Params(), t.Variadic())
	results := t.Results()
	if results.Len() > 0 {
		w.b.WriteString(" ")
	}
	if results.Len() == 1 {
		w.write(results.At(0).Type())
	} else if results.Len() > 1 {
		list(results, false)
	}
}

func (w *typeWriter) structure(t *types.Struct) {
	w.b.WriteString("struct{")
	for i := range t.NumFields() {
		f := t.Field(i)
		w.local(f)
		if i > 0 {
			w.b.WriteString("; ")
		}
		if !f.Embedded() {
			w.b.WriteString(f.Name() + " ")
		}
		w.write(f.Type())
		if tag := t.Tag(i); tag != "" {
			w.b.WriteString(" " + strconv.Quote(tag))
		}
	}
	w.b.WriteString("}")
}

func (w *typeWriter) iface(t *types.Interface) {
	if t.Empty() {
		w.b.WriteString("any")
		return
	}
	w.ok = w.ok && t.IsMethodSet()
	w.b.WriteString("interface{")
	for i := range t.NumMethods() {
		m := t.Method(i)
		w.local(m)
		if i > 0 {
			w.b.WriteString("; ")
		}
		w.b.WriteString(m.Name())
		w.signature(m.Signature())
	}
	w.b.WriteString("}")
}
