// Package repeat judges which initializers of variables may be evaluated again: those
// that have no effect beyond their value.
package repeat

import (
	"go/ast"
	"go/token"
	"go/types"
	"math"
	"slices"
	"strings"
)

// An initializer is repeatable if evaluating it a second time has no effect
// beyond its value: literals, functions, and calls of functions that only compute
// or that name what the session has. The rules are deliberately narrow. What they
// do not know is not repeatable, and then it is never run again by itself.

// A Checked program is one whose types are known.
type Checked struct {
	Fset *token.FileSet
	File *ast.File
	Pkg  *types.Package // nil when nothing was found out
	Info *types.Info
}

// A repeater judges the initializers of one program.
type repeater struct {
	Checked
	library string
	funcs   map[types.Object]*ast.FuncDecl
	literal map[types.Object]*ast.FuncLit // of variables of the package and of main that are defined as one
	inside  map[ast.Node]bool             // functions being judged, or found repeatable
	uses    map[string]bool               // variables, functions and constants of the package and of main that the value depends on

	// changed has the variables that something gives a value besides their definitions:
	// where the last one is that main itself does, later if anything else does. What main
	// did before the statement at at, the values that are kept have, too.
	changed map[types.Object]token.Pos
	at      token.Pos // 0 for what is declared at package level
}

// later is behind every position of a program.
const later = token.Pos(math.MaxInt)

func newRepeater(r Checked, library string) *repeater {
	p := &repeater{Checked: r, library: library, funcs: map[types.Object]*ast.FuncDecl{}, literal: map[types.Object]*ast.FuncLit{}, changed: map[types.Object]token.Pos{}}
	for _, d := range r.File.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok {
			p.funcs[r.Info.Defs[f.Name]] = f
		}
		if !ok || f.Recv == nil && f.Name.Name == "main" {
			p.findLiterals(d)
		}
		p.findChanges(d, ok && f.Recv == nil && f.Name.Name == "main" && !jumps(f))
	}
	return p
}

// repeatable judges the expressions that together give some variables their
// values, in main's statement at a position, and returns the names that these depend on.
func (p *repeater) repeatable(list []ast.Expr, at token.Pos) (uses map[string]bool, ok bool) {
	p.at = at
	p.inside, p.uses = map[ast.Node]bool{}, map[string]bool{}
	for _, e := range list {
		if !p.pure(e, nil) {
			return nil, false
		}
	}
	return p.uses, true
}

// pure reports whether evaluating some syntax has no effect. body is the function
// that it is part of, nil for an initializer.
func (p *repeater) pure(n ast.Node, body ast.Node) bool {
	ok := true
	ast.Inspect(n, func(n ast.Node) bool {
		if !ok {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncLit:
			// It is not called here. Of variables that it closes over, those of the cell
			// stay variables; those of a function are its own state.
			ok = body == nil || p.stateless(n, body)
			return false
		case *ast.CallExpr:
			ok = p.call(n, body)
		case *ast.UnaryExpr:
			ok = n.Op != token.ARROW
		case *ast.Ident:
			ok = p.name(n, body)
		case *ast.KeyValueExpr:
			if id, field := n.Key.(*ast.Ident); field && p.isField(id) {
				ok = p.pure(n.Value, body)
				return false
			}
		case *ast.SelectorExpr:
			ok = p.pure(n.X, body)
			return false
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				ok = ok && (n.Tok == token.DEFINE || p.local(l, body))
			}
		case *ast.IncDecStmt:
			ok = p.local(n.X, body)
		case *ast.RangeStmt:
			_, function := p.Info.TypeOf(n.X).Underlying().(*types.Signature)
			ok = !function && (n.Tok != token.ASSIGN || n.Key == nil || p.local(n.Key, body) && (n.Value == nil || p.local(n.Value, body)))
		case *ast.GoStmt, *ast.DeferStmt, *ast.SendStmt, *ast.SelectStmt:
			ok = false
		}
		return ok
	})
	return ok
}

func (p *repeater) isField(id *ast.Ident) bool {
	v, ok := p.Info.Uses[id].(*types.Var)
	return ok && v.IsField()
}

// name notes what a value depends on. A variable that is given other values later
// may have had one of those.
func (p *repeater) name(id *ast.Ident, body ast.Node) bool {
	obj := p.Info.Uses[id]
	if obj == nil || obj.Pkg() != p.Pkg {
		return true
	}
	switch obj := obj.(type) {
	case *types.Var:
		if obj.IsField() || within(obj, body) {
			return true
		}
		p.uses[obj.Name()] = true
		return !p.changesLater(obj)
	case *types.Func, *types.Const:
		if obj.Parent() == p.Pkg.Scope() {
			p.uses[obj.Name()] = true
		}
	}
	return true
}

// within reports whether something is declared inside a function.
func within(obj types.Object, body ast.Node) bool {
	return body != nil && body.Pos() <= obj.Pos() && obj.Pos() < body.End()
}

// local reports whether an operand that is given a value is the function's own.
func (p *repeater) local(e ast.Expr, body ast.Node) bool {
	id := root(e)
	if id == nil {
		return false
	}
	if id.Name == "_" {
		return true
	}
	obj := p.Info.ObjectOf(id)
	if obj == nil || !within(obj, body) {
		return false
	}
	if ast.Unparen(e) == id {
		return true
	}
	switch f := body.(type) { // a part of an argument may be the caller's
	case *ast.FuncDecl:
		return obj.Pos() >= f.Body.Pos()
	case *ast.FuncLit:
		return obj.Pos() >= f.Body.Pos()
	}
	return false
}

// isOwn reports whether what an operand holds or points to is the function's own: it
// is a variable of its body. An argument's may be the caller's.
func (p *repeater) isOwn(e ast.Expr, body ast.Node) bool {
	if x, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && x.Op == token.AND {
		e = x.X
	}
	id := root(e)
	if id == nil || body == nil {
		return false
	}
	var block *ast.BlockStmt
	switch f := body.(type) {
	case *ast.FuncDecl:
		block = f.Body
	case *ast.FuncLit:
		block = f.Body
	case *ast.BlockStmt:
		block = f
	}
	obj := p.Info.ObjectOf(id)
	return block != nil && obj != nil && within(obj, block)
}

// fresh reports whether what an expression without a root makes is nobody's variable:
// neither it nor a function of the cells that it calls names one of the package's.
func (p *repeater) fresh(e ast.Expr, body ast.Node) bool {
	seen, ok := map[ast.Node]bool{}, true
	var look func(n, inside ast.Node)
	look = func(n, inside ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			if !is || !ok {
				return ok
			}
			switch obj := p.Info.Uses[id].(type) {
			case *types.Var:
				ok = obj.IsField() || obj.Pkg() != p.Pkg || within(obj, inside)
			case *types.Func:
				if f := p.funcs[obj.Origin()]; f != nil && f.Body != nil && !seen[f] {
					seen[f] = true
					look(f, f)
				}
			}
			return ok
		})
	}
	look(e, body)
	return ok
}

// stateless reports whether a function literal can be told from another of the
// same code only by values that never change.
func (p *repeater) stateless(f *ast.FuncLit, body ast.Node) bool {
	ok := true
	ast.Inspect(f.Body, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if !is || !ok {
			return ok
		}
		if v, is := p.Info.Uses[id].(*types.Var); is && !v.IsField() && within(v, body) && !within(v, f) {
			ok = !p.changesLater(v) && p.fixed(v.Type(), 0)
		}
		return ok
	})
	return ok
}

// fixed reports whether a value of a type has no parts that another copy shares.
func (p *repeater) fixed(t types.Type, depth int) bool {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil && p.ours(named.Obj().Pkg().Path()) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Basic, *types.Signature:
		return true
	case *types.Pointer:
		named, ok := types.Unalias(u.Elem()).(*types.Named)
		return ok && named.Obj().Pkg() != nil && p.ours(named.Obj().Pkg().Path())
	case *types.Array:
		return p.fixed(u.Elem(), depth+1)
	case *types.Struct:
		for f := range u.Fields() {
			if depth > 8 || !p.fixed(f.Type(), depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

// call judges a call, not its arguments.
func (p *repeater) call(c *ast.CallExpr, body ast.Node) bool {
	fun := ast.Unparen(c.Fun)
	if tv := p.Info.Types[fun]; tv.IsType() {
		return true
	}
	switch x := fun.(type) { // f[T](…)
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	var obj types.Object
	fresh := true // a method's receiver is nobody's variable
	switch x := fun.(type) {
	case *ast.Ident:
		obj = p.Info.Uses[x]
	case *ast.SelectorExpr:
		obj = p.Info.Uses[x.Sel]
		if id := root(x.X); id != nil {
			_, isPackage := p.Info.Uses[id].(*types.PkgName)
			fresh = isPackage && ast.Unparen(x.X) == id || within(p.Info.ObjectOf(id), body)
		} else {
			fresh = p.fresh(x.X, body)
		}
	case *ast.FuncLit:
		return p.pure(x.Body, x) && body == nil && p.fixedResults(x.Type)
	}
	switch obj := obj.(type) {
	case *types.Builtin:
		switch obj.Name() {
		case "append", "cap", "complex", "imag", "len", "make", "max", "min", "new", "real", "panic":
			return true
		case "clear", "copy", "delete":
			return len(c.Args) > 0 && p.isOwn(c.Args[0], body)
		}
		return false
	case *types.Var: // which is one function for ever
		f := p.literal[obj]
		if f == nil || p.changed[obj].IsValid() || !p.fixedResults(f.Type) {
			return false
		}
		if p.inside[f] {
			return true
		}
		p.inside[f] = true
		return p.pure(f.Body, f)
	case *types.Func:
		obj = obj.Origin()
		if decl := p.funcs[obj]; decl != nil {
			if p.inside[decl] {
				return true
			}
			p.inside[decl] = true
			return decl.Body != nil && p.pure(decl.Body, decl)
		}
		if i := changes(obj); i >= 0 && (i >= len(c.Args) || !p.isOwn(c.Args[i], body)) {
			return false
		}
		return obj.Pkg() != nil && obj.Pkg() != p.Pkg && p.foreign(obj, fresh) && (p.ours(obj.Pkg().Path()) || p.callbacks(c.Args))
	}
	return false
}

// callbacks judges the functions that are given to a function, which may call them.
// (The library's keep theirs, or call them to build graphs.)
func (p *repeater) callbacks(args []ast.Expr) bool {
	for _, a := range args {
		t := p.Info.TypeOf(a)
		if t == nil {
			continue
		}
		if _, function := t.Underlying().(*types.Signature); !function {
			continue
		}
		switch x := ast.Unparen(a).(type) {
		case *ast.FuncLit:
			if !p.pure(x.Body, x) {
				return false
			}
		case *ast.Ident:
			decl := p.funcs[p.Info.Uses[x]]
			if decl == nil || decl.Body == nil {
				return false
			}
			if !p.inside[decl] {
				if p.inside[decl] = true; !p.pure(decl.Body, decl) {
					return false
				}
			}
		case *ast.SelectorExpr:
			f, ok := p.Info.Uses[x.Sel].(*types.Func)
			if !ok || f.Pkg() == nil || f.Pkg() == p.Pkg || f.Signature().Recv() != nil || changes(f) >= 0 || !p.foreign(f, true) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// fixedResults reports whether a function that is called where it stands returns
// no function, which might have its state.
func (p *repeater) fixedResults(f *ast.FuncType) bool {
	if f.Results == nil {
		return true
	}
	return !slices.ContainsFunc(f.Results.List, func(r *ast.Field) bool {
		_, function := p.Info.TypeOf(r.Type).Underlying().(*types.Signature)
		return function
	})
}

func (p *repeater) ours(path string) bool {
	return p.library != "" && strings.HasPrefix(path, p.library+"/")
}
