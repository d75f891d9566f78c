package keep

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/parse"
)

// A statement that is a call, such as net.Reset(), would drop the error that the call
// returns. In a cell nothing is ignored silently: where such a statement returns an
// error, the cell fails with it, at the statement's line. This holds for the statements
// of the cell, also inside its loops and branches, and not for those of functions, which
// are Go as everywhere, nor below %%, where a program of its own stands. Whoever wants to
// ignore an error writes _ = f().

// findDropped notes the statements whose errors would be dropped.
func (w *writer) findDropped(r report) {
	u := w.unit
	w.dropped = nil
	if u.Alone() {
		return
	}
	for _, d := range r.File.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "main" {
			continue
		}
		var visit func(ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.CommClause:
				for _, s := range n.Body { // and not what it waits for
					ast.Inspect(s, visit)
				}
				return false
			case *ast.ExprStmt:
				w.checkStatement(r, n)
			}
			return true
		}
		ast.Inspect(f.Body, visit)
	}
}

func (w *writer) checkStatement(r report, s *ast.ExprStmt) {
	start, end := r.Fset.Position(s.Pos()), r.Fset.Position(s.End())
	if id, ok := parse.CellOfFile(start.Filename); !ok || id != w.unit.ID || !fallible(r.Info.TypeOf(s.X)) || ignorable(r, s.X) {
		return
	}
	at := w.offset(w.unit.ID, start.Line, start.Column)
	if w.shower != "" && at == w.unit.Last.Start {
		return
	}
	if site, ok := w.fails(cell.Check(len(resultsOf(r.Info.TypeOf(s.X)))), start, ""); ok {
		w.dropped = append(w.dropped, droppedError{at, w.offset(w.unit.ID, end.Line, end.Column), site.function})
	}
}

// A droppedError is a statement whose call returns an error.
type droppedError struct {
	start, end int    // in the cell
	function   string // that is called with what it returns
}

// ignorable reports whether an expression is a call whose error nobody looks at: of
// those that print, and of those that never fail, must among them. (The list is that of
// the linter errcheck.)
func ignorable(r report, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	f := callee(r, call)
	if f == nil {
		return false
	}
	if isBuiltin(r, f) {
		return true
	}
	name := f.FullName()
	if x, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && f.Signature().Recv() != nil {
		if t := r.Info.TypeOf(x.X); types.IsInterface(t) {
			name = "(" + t.String() + ")." + f.Name()
		}
	}
	return slices.Contains(ignored, name)
}

var ignored = strings.Fields(`fmt.Print fmt.Printf fmt.Println fmt.Fprint fmt.Fprintf fmt.Fprintln fmt.Scan fmt.Scanf fmt.Scanln
	(*bytes.Buffer).Write (*bytes.Buffer).WriteByte (*bytes.Buffer).WriteRune (*bytes.Buffer).WriteString
	(*strings.Builder).Write (*strings.Builder).WriteByte (*strings.Builder).WriteRune (*strings.Builder).WriteString
	(*io.PipeReader).CloseWithError (*io.PipeWriter).CloseWithError
	crypto/rand.Read math/rand.Read (*math/rand.Rand).Read (*math/rand/v2.ChaCha8).Read
	(hash.Hash).Write (hash.Hash32).Write (hash.Hash64).Write
	(*hash/maphash.Hash).Write (*hash/maphash.Hash).WriteByte (*hash/maphash.Hash).WriteString`)

// isBuiltin reports whether a function is must or must2, and not the notebook's own.
func isBuiltin(r report, f types.Object) bool {
	return f.Pkg() == r.Pkg && r.Fset.Position(f.Pos()).Filename == parse.GlueName
}

// callee returns the function or method that a call names, nil if it names none.
func callee(r report, call *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch x := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = x
	case *ast.SelectorExpr:
		id = x.Sel
	default:
		return nil
	}
	f, _ := r.Info.Uses[id].(*types.Func)
	return f
}

// makesErrors reports whether an expression is a call that makes errors, or looks into
// one: what it returns is a value, and not how the call went.
func makesErrors(r report, e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	if r.Info.Types[ast.Unparen(call.Fun)].IsType() {
		return true // error(x)
	}
	f := callee(r, call)
	return f != nil && f.Pkg() != nil && (f.Pkg().Path() == "errors" || f.FullName() == "fmt.Errorf")
}

// checkDropped are the insertions that check them.
func (w *writer) checkDropped() (list []insertion) {
	for _, d := range w.dropped {
		list = append(list, insertion{d.start, 0, d.function + "(" + w.lineComment(d.start)}, insertion{d.end, 0, ")" + w.lineComment(d.end)})
	}
	return list
}

// lineComment is the directive that lets the text behind it stand where it stands in the
// cell; it is empty at the end of a line.
func (w *writer) lineComment(offset int) string {
	if offset >= len(w.unit.Text) || w.unit.Text[offset] == '\n' {
		return ""
	}
	line, column := parse.Place(w.unit.Text, offset)
	return "/*line " + parse.FileName(w.unit.ID) + ":" + token.Position{Line: line, Column: column}.String() + "*/"
}
