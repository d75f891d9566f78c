package repeat

import (
	"go/ast"
	"go/token"
	"go/types"

	"gaiden/kernels/internal/cell/parse"
)

// findLiterals notes which variables of the package or of main are defined as functions.
func (p *repeater) findLiterals(d ast.Decl) {
	define := func(name, value ast.Expr) {
		if f, is := ast.Unparen(value).(*ast.FuncLit); is {
			if id, is := name.(*ast.Ident); is && p.Info.Defs[id] != nil {
				p.literal[p.Info.Defs[id]] = f
			}
		}
	}
	spec := func(d *ast.GenDecl) {
		for _, s := range d.Specs {
			if v, is := s.(*ast.ValueSpec); is && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					define(name, v.Values[i])
				}
			}
		}
	}
	switch d := d.(type) {
	case *ast.GenDecl:
		spec(d)
	case *ast.FuncDecl:
		if d.Body == nil {
			return
		}
		for _, s := range d.Body.List {
			switch s := s.(type) {
			case *ast.AssignStmt:
				if s.Tok == token.DEFINE && len(s.Lhs) == len(s.Rhs) {
					for i, name := range s.Lhs {
						define(name, s.Rhs[i])
					}
				}
			case *ast.DeclStmt:
				if d, is := s.Decl.(*ast.GenDecl); is {
					spec(d)
				}
			}
		}
	}
}

// findChanges notes which variables a declaration changes. ordered says that it is main,
// whose own statements run once, one after the other.
func (p *repeater) findChanges(d ast.Decl, ordered bool) {
	var note func(n ast.Node, ordered bool)
	note = func(n ast.Node, ordered bool) {
		change := func(e ast.Expr, at token.Pos) {
			id := root(e)
			if id == nil || p.Info.Uses[id] == nil {
				return // what := defines is no use
			}
			if !ordered {
				at = later
			}
			p.changed[p.Info.Uses[id]] = max(p.changed[p.Info.Uses[id]], at)
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit: // it may be called later
				note(n.Body, false)
				return false
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					change(l, n.End())
				}
			case *ast.IncDecStmt:
				change(n.X, n.End())
			case *ast.UnaryExpr: // what has the address may change it later
				if _, literal := ast.Unparen(n.X).(*ast.CompositeLit); n.Op == token.AND && !literal && p.Fset.Position(n.Pos()).Filename != parse.GlueName {
					change(n.X, later)
				}
			case *ast.RangeStmt:
				change(n.Key, n.End())
				change(n.Value, n.End())
			}
			return true
		})
	}
	note(d, ordered)
}

// jumps reports whether a function has a statement that may run an earlier one again.
func jumps(f *ast.FuncDecl) (found bool) {
	if f.Body == nil {
		return false
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		b, ok := n.(*ast.BranchStmt)
		found = found || ok && b.Tok == token.GOTO
		return !found
	})
	return found
}

// changesLater reports whether a variable may get another value after what is judged.
func (p *repeater) changesLater(v types.Object) bool {
	end := p.changed[v]
	return end.IsValid() && (!p.at.IsValid() || end > p.at)
}

// root returns the variable that an operand is, or is a part of; nil if none.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.TypeAssertExpr:
			e = x.X
		default:
			return nil
		}
	}
}
