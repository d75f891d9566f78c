package cell

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// noMember matches what the checker says of a field or method that is not there,
// and of none that differs in the case of its letters only: which it names itself.
var noMember = regexp.MustCompile(`has no field or method [\pL\pN_]+(, but does have unexported .*)?\)$`)

// membersShown is how many fields and methods of a type, or names of a package, a hint has.
const membersShown = 40

// member says what somebody can have meant who asked at pos for a field or method
// that a type does not have: the nearest one, and all that there are.
func (c *Composer) member(r report, pos token.Pos) string {
	var at *ast.SelectorExpr
	if r.file != nil {
		ast.Inspect(r.file, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && s.Sel.Pos() == pos {
				at = s
			}
			return at == nil
		})
	}
	if at == nil || r.info.Types[at.X].Type == nil {
		return ""
	}
	t := r.info.Types[at.X].Type
	all := members(t, r.pkg)
	if len(all) == 0 {
		return ""
	}
	hint := ""
	if near := c.nearest(at.Sel.Name, all); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return hint + briefly(types.TypeString(t, types.RelativeTo(r.pkg))) + " has " + some(all)
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
	var all []string
	add := func(o types.Object) {
		if o.Exported() || o.Pkg() == pkg {
			all = append(all, o.Name())
		}
	}
	of := t
	if p, is := t.Underlying().(*types.Pointer); is {
		of = p.Elem()
	} else if !types.IsInterface(t) {
		t = types.NewPointer(t) // a variable has the methods of its address, too
	}
	methods := types.NewMethodSet(t)
	for i := range methods.Len() {
		add(methods.At(i).Obj())
	}
	if s, is := of.Underlying().(*types.Struct); is {
		for i := range s.NumFields() {
			add(s.Field(i))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
