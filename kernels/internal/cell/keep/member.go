package keep

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"gaiden/lib/engine/typo"
)

// noMember matches what the checker says of a field or method that is not there, and of
// none that differs in the case of its letters only: which it names itself.
var noMember = regexp.MustCompile(`has no field or method [\pL\pN_]+(, but does have unexported .*)?\)$|\(cannot refer to unexported (field|method) [\pL\pN_]+\)$`)

// noField matches what it says so of a field of a literal.
var noField = regexp.MustCompile(`^(unknown|cannot refer to unexported) field [\pL\pN_]+ in struct literal of type [^ ]+$`)

// noStruct matches what the checker says of a struct that is made without the names of
// its fields, or by a call.
var noStruct = regexp.MustCompile(`^(?:too (?:few|many) values in struct literal of type|cannot convert .* to type) ([^ ]+)$`)

// membersShown is how many fields and methods of a type, or names of a package, a hint has.
const membersShown = 40

// member says what somebody can have meant who asked at pos for a field or method
// that a type does not have: the nearest one, and all that there are.
func (c *Composer) member(r report, pos token.Pos) string {
	at, is := nodeOf(r.File, func(n ast.Node) bool {
		s, is := n.(*ast.SelectorExpr)
		return is && s.Sel.Pos() == pos
	}).(*ast.SelectorExpr)
	if !is || r.Info.Types[at.X].Type == nil {
		return ""
	}
	t := r.Info.Types[at.X].Type
	return c.meant(r, at.Sel.Name, t, members(t, r.Pkg))
}

// field is member for a field of a literal.
func (c *Composer) field(r report, pos token.Pos) string {
	var name *ast.Ident
	at, is := nodeOf(r.File, func(n ast.Node) bool {
		l, is := n.(*ast.CompositeLit)
		return is && slices.ContainsFunc(l.Elts, func(e ast.Expr) bool {
			if pair, is := e.(*ast.KeyValueExpr); is && pair.Pos() == pos {
				name, _ = pair.Key.(*ast.Ident)
			}
			return name != nil
		})
	}).(*ast.CompositeLit)
	if !is || r.Info.Types[at].Type == nil {
		return ""
	}
	t := r.Info.Types[at].Type
	if p, is := t.Underlying().(*types.Pointer); is {
		t = p.Elem() // of a slice of pointers
	}
	return c.meant(r, name.Name, t, fields(t, r.Pkg))
}

// structure says how a struct is written of which a literal ends at pos, or to which the
// value at pos is converted.
func (c *Composer) structure(r report, pos token.Pos) string {
	var t types.Type
	nodeOf(r.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if n.Pos() <= pos && pos <= n.End() {
				t = r.Info.Types[n].Type // the innermost one is last
			}
		case *ast.CallExpr:
			if tv := r.Info.Types[n.Fun]; len(n.Args) == 1 && n.Args[0].Pos() == pos && tv.IsType() {
				t = tv.Type
			}
		}
		return false
	})
	if t == nil {
		return ""
	}
	all := fields(t, r.Pkg)
	if len(all) == 0 {
		return ""
	}
	name := briefly(types.TypeString(t, types.RelativeTo(r.Pkg)))
	return fmt.Sprintf("name the fields, %s{%s: …}; it has %s", name, strings.Join(all[:min(2, len(all))], ": …, "), some(all))
}

// nodeOf is the first node of a file that is requested, nil if there is none.
func nodeOf(file *ast.File, is func(ast.Node) bool) (found ast.Node) {
	if file == nil {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if found == nil && n != nil && is(n) {
			found = n
		}
		return found == nil
	})
	return found
}

// meant is the hint at a name that is none of all that a type has.
func (c *Composer) meant(r report, name string, t types.Type, all []string) string {
	if len(all) == 0 {
		return ""
	}
	hint := ""
	if near := typo.Nearest(name, all); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return hint + briefly(types.TypeString(t, types.RelativeTo(r.Pkg))) + " has " + some(all)
}

// some lists names, but not more than can be looked through.
func some(names []string) string {
	s := strings.Join(names[:min(membersShown, len(names))], ", ")
	if len(names) > membersShown {
		s += fmt.Sprintf(", and %d more", len(names)-membersShown)
	}
	return s
}

// members are the fields and methods of a type that code in pkg can name, by name.
func members(t types.Type, pkg *types.Package) []string {
	of := t
	if p, is := t.Underlying().(*types.Pointer); is {
		of = p.Elem()
	} else if !types.IsInterface(t) {
		t = types.NewPointer(t) // a variable has the methods of its address, too
	}
	all := fields(of, pkg)
	methods := types.NewMethodSet(t)
	for i := range methods.Len() {
		all = append(all, nameable(methods.At(i).Obj(), pkg)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fields are those of a struct that code in pkg can name, as they stand there.
func fields(t types.Type, pkg *types.Package) (all []string) {
	if s, is := t.Underlying().(*types.Struct); is {
		for i := range s.NumFields() {
			all = append(all, nameable(s.Field(i), pkg)...)
		}
	}
	return all
}

// nameable is the name of a field or method, if code in pkg can name it.
func nameable(o types.Object, pkg *types.Package) []string {
	if o.Exported() || o.Pkg() == pkg {
		return []string{o.Name()}
	}
	return nil
}
