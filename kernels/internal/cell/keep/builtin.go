package keep

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/parse"
)

// builtins returns the names that every cell has (see cell.Builtins) and that this one
// uses: those that no cell and no file of the module declares, or has declared with a
// value that is no longer there.
func (c *Composer) builtins(ctx context.Context, u *parse.Unit, uses map[string]bool, taken func(name string) bool) (out []cell.Builtin) {
	for _, b := range append(slices.Clip(cell.Builtins), cell.Check(1)) {
		if !uses[b.Name] || taken(b.Name) || b.Name == cell.ContextName && c.interruptPath() == "" {
			continue
		}
		_, lost := c.Memory.definedIn(b.Name)
		reason, _ := c.Memory.refused(b.Name, u)
		files := c.parseUserFiles(ctx, token.NewFileSet())
		if !lost && reason == "" && !slices.ContainsFunc(files, func(f *ast.File) bool { return declares(f, b.Name) }) {
			out = append(out, b)
		}
	}
	return out
}

// declares reports whether a file declares a name of the package.
func declares(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		switch d := d.(type) {
		case *ast.FuncDecl:
			return d.Recv == nil && d.Name.Name == name
		case *ast.GenDecl:
			return slices.ContainsFunc(d.Specs, func(s ast.Spec) bool {
				v, ok := s.(*ast.ValueSpec)
				t, isType := s.(*ast.TypeSpec)
				return ok && slices.ContainsFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name }) || isType && t.Name.Name == name
			})
		}
		return false
	})
}

// A site is where a cell calls a function that fails it with an error. A program's
// traceback has the line and the function: of several calls in a line, each calls a
// copy of another name.
type site struct {
	cell, line, column int
	function           string
	offset             int    // in the cell, of the name that the cell calls
	named              string // that name, empty where the call is not the cell's own
}

// called is what a traceback says of a site.
type called struct {
	cell, line int
	function   string
}

// fails notes a site, under a name that no other site of its line has.
func (w *writer) fails(b cell.Builtin, at token.Position, named string) (s site, ok bool) {
	id, ok := parse.CellOfFile(at.Filename)
	if !ok {
		return site{}, false
	}
	s = site{cell: id, line: at.Line, column: at.Column, function: b.Name, offset: w.offset(id, at.Line, at.Column), named: named}
	for n := 2; w.taken[called{id, s.line, s.function}]; n++ {
		s.function = fmt.Sprintf("gaiden_%s_%d", strings.TrimPrefix(b.Name, "gaiden_"), n)
	}
	w.taken[called{id, s.line, s.function}] = true
	w.sites = append(w.sites, s)
	declared := func(h cell.Builtin) bool { return h.Name == s.function } // also for a magic, which may have written calls
	if s.function != named && !slices.ContainsFunc(w.helpers, declared) && !slices.ContainsFunc(w.builtins, declared) {
		w.helpers = append(w.helpers, b.Copy(s.function))
	}
	return s, true
}

// offset returns the offset of a line and column of a cell, both from 1.
func (w *writer) offset(id, line, column int) int {
	if w.starts[id] == nil {
		w.starts[id] = parse.Starts(w.source(id))
	}
	return w.starts[id][min(line, len(w.starts[id]))-1] + column - 1
}

// findBuiltins notes each call of must and must2 in the cells. errs complain about those
// that check nothing.
func (w *writer) findBuiltins(r report) (errs []types.Error) {
	w.sites, w.helpers, w.taken, w.starts = nil, nil, map[called]bool{}, map[int][]int{}
	ast.Inspect(r.File, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun := ast.Unparen(call.Fun)
		if x, instance := fun.(*ast.IndexExpr); instance {
			fun = x.X
		}
		id, ok := fun.(*ast.Ident)
		if !ok {
			return true
		}
		obj := r.Info.Uses[id]
		i := slices.IndexFunc(w.builtins, func(b cell.Builtin) bool { return obj != nil && obj.Name() == b.Name })
		if i < 0 || w.builtins[i].Packages != nil || !isBuiltin(r, obj) {
			return true
		}
		if t := r.Info.TypeOf(call); len(call.Args) == 1 && id.Name == "must" && !fallible(r.Info.TypeOf(call.Args[0])) {
			errs = append(errs, types.Error{Fset: r.Fset, Pos: call.Args[0].Pos(), Msg: fmt.Sprintf("must: got %s and no error, want an error, or a value and an error", t)})
		}
		w.fails(w.builtins[i], r.Fset.Position(id.Pos()), id.Name)
		return true
	})
	return errs
}

// fallible reports whether what a call returns, or a value, has an error at its end.
func fallible(t types.Type) bool {
	results := resultsOf(t)
	return len(results) > 0 && isError(results[len(results)-1])
}

func resultsOf(t types.Type) (results []types.Type) {
	switch t := t.(type) {
	case nil:
	case *types.Tuple:
		for v := range t.Variables() {
			results = append(results, v.Type())
		}
	default:
		results = append(results, t)
	}
	return results
}

// isError reports whether values of a type are errors, or nil where there is none.
func isError(t types.Type) bool {
	return types.IsInterface(t) && types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}

// Column returns where in its line a call stands that has failed the cell, 0 if that is
// not known.
func (p *Program) Column(cell, line int, function string) int {
	for _, s := range p.sites {
		if s.cell != cell || s.line != line || s.function != function {
			continue
		}
		text, typed := parse.LineOf(p.unit.Text, line), p.Line(cell, line)
		if cell != p.unit.ID || p.unit.Shown == "" || text == typed {
			return s.column
		}
		// A magic has made the line of what the user typed.
		call, _, _ := strings.Cut(text[min(s.column-1, len(text)):], "(")
		if strings.Count(typed, call+"(") == 1 {
			return strings.Index(typed, call+"(") + 1
		}
	}
	return 0
}

// An insertion is text that the program has where a cell has other text, or none.
type insertion struct {
	at, cut int // cut bytes are left out
	text    string
}

// splice makes insertions into a text that begins at an offset of the cell.
func splice(text string, from int, list []insertion) string {
	slices.SortStableFunc(list, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	done := 0
	for _, in := range list {
		if at := in.at - from; at >= done && at+in.cut <= len(text) {
			b.WriteString(text[done:at] + in.text)
			done = at + in.cut
		}
	}
	return b.String() + text[done:]
}

// renamed are the insertions that make calls in a text call copies. The text begins at
// an offset of a cell.
func (w *writer) renamed(id int, text string, from int) (list []insertion) {
	for _, s := range w.sites {
		at := s.offset - from
		if s.cell == id && s.named != "" && s.function != s.named && at >= 0 && at < len(text) && strings.HasPrefix(text[at:], s.named) {
			list = append(list, insertion{s.offset, len(s.named), s.function + fmt.Sprintf("/*line %s:%d:%d*/", parse.FileName(id), s.line, s.column+len(s.named))})
		}
	}
	return list
}
