package repeat

import (
	"go/ast"
	"go/token"
	"go/types"
)

type initializer struct {
	values []ast.Expr
	at     token.Pos
}

// initializers yields what gives the program's variables their first values: for
// each declaration at package level, and for each := among main's own statements,
// the names, and the expressions with their statement's position (0 at package level).
// A name may come more than once; the last counts.
func initializers(file *ast.File) func(func([]*ast.Ident, initializer) bool) {
	return func(yield func([]*ast.Ident, initializer) bool) {
		var main *ast.FuncDecl
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "main" {
					main = d
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && !yield(v.Names, initializer{values: v.Values}) {
						return
					}
				}
			}
		}
		if main == nil || main.Body == nil {
			return
		}
		for _, s := range main.Body.List {
			if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				var names []*ast.Ident
				for _, l := range a.Lhs {
					if id, ok := l.(*ast.Ident); ok {
						names = append(names, id)
					}
				}
				if !yield(names, initializer{a.Rhs, a.Pos()}) {
					return
				}
			}
		}
	}
}

// Repeatable returns the variables of a program whose initializers may be evaluated
// again, each with the names that its value depends on. library is the path of the
// library that cells import.
func Repeatable(r Checked, library string) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	if r.File == nil || r.Pkg == nil {
		return found
	}
	p := newRepeater(r, library)
	for names, first := range initializers(r.File) {
		uses, ok := p.repeatable(first.values, first.at)
		for _, id := range names {
			if obj, isVar := r.Info.ObjectOf(id).(*types.Var); ok && isVar && !uses[obj.Name()] {
				found[id.Name] = uses
			} else {
				delete(found, id.Name)
			}
		}
	}
	return found
}
