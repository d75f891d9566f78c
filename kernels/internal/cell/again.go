package cell

import (
	"go/ast"
	"go/token"
	"go/types"
)

// initializers yields what gives the program's variables their first values: for
// each declaration at package level, and for each := among main's own statements,
// the names and the expressions. A name may come more than once; the last counts.
func initializers(file *ast.File) func(func([]*ast.Ident, []ast.Expr) bool) {
	return func(yield func([]*ast.Ident, []ast.Expr) bool) {
		var main *ast.FuncDecl
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "main" {
					main = d
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && !yield(v.Names, v.Values) {
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
				if !yield(names, a.Rhs) {
					return
				}
			}
		}
	}
}

// judge notes which of the program's initializers may be evaluated again.
func (w *writer) judge(r report, library string) {
	w.repeats = map[string]map[string]bool{}
	if r.file == nil || r.pkg == nil {
		return
	}
	p := newRepeater(r, library)
	for names, values := range initializers(r.file) {
		uses, ok := p.repeatable(values)
		for _, id := range names {
			if obj, isVar := r.info.ObjectOf(id).(*types.Var); ok && isVar && !uses[obj.Name()] {
				w.repeats[id.Name] = uses
			} else {
				delete(w.repeats, id.Name)
			}
		}
	}
}
