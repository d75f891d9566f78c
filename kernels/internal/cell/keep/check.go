package keep

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/cell/repeat"
)

// check lets go/types judge the program before the compiler is started: most
// mistakes are found in a millisecond or two. It drops imports that turn out
// unused, and decides whether the last expression's value is shown.
//
// When the compiled packages were made by a Go that this program cannot read,
// nothing is checked here, and the compiler has the word.
func (c *Composer) check(ctx context.Context, w *writer) (report, error) {
	u := w.unit
	if u.Last != nil && !u.Last.Call && !u.Last.Silent {
		w.show(cell.ShowFunc)
	}
	for {
		source, _ := w.text()
		r, blind := c.types(ctx, source)
		if blind {
			return report{}, ctx.Err()
		}
		if broken := w.brokenLoads(r.errs); len(broken) > 0 {
			return r, &staleError{broken}
		}
		if w.dropUnused(r.errs) {
			continue
		}
		if u.Last != nil && u.Last.Call && w.shower == "" && unusedValue(w, r.errs) {
			w.show(cell.ShowFunc)
			continue
		}
		if len(r.errs) == 0 {
			r.errs = append(c.hidden(w, r), w.findBuiltins(r)...)
		}
		if len(r.errs) > 0 {
			return r, parse.NewBuildError(c.explain(w, r))
		}
		w.decide(r)
		w.findDropped(r)
		return r, ctx.Err()
	}
}

// A report is what go/types found out.
type report struct {
	repeat.Checked
	errs []types.Error
}

// A staleError reports kept values of types that are no more.
type staleError struct{ loads []loadedVar }

func (e *staleError) Error() string { return "cell: kept values of types that are no more" }

// types parses and checks the source. blind reports that the packages could
// not be read, so that nothing is known.
func (c *Composer) types(ctx context.Context, source string) (r report, blind bool) {
	r.Checked = repeat.Checked{Fset: token.NewFileSet(), Info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
	file, err := parser.ParseFile(r.Fset, parse.GlueName, source, parser.SkipObjectResolution)
	if err != nil {
		// Parse let it pass, so it is a thing that only shows in the whole.
		if list, is := errors.AsType[scanner.ErrorList](err); is {
			for _, e := range list {
				r.errs = append(r.errs, types.Error{Fset: r.Fset, Pos: r.Fset.File(file.FileStart).Pos(e.Pos.Offset), Msg: "syntax error: " + e.Msg})
			}
		}
		return r, len(r.errs) == 0
	}
	r.File = file
	files := []*ast.File{file}
	files = append(files, c.parseUserFiles(ctx, r.Fset)...)
	conf := c.Module.TypeConfig()
	watched := &watchedImporter{Importer: conf.Importer}
	conf.Importer = watched
	conf.Error = func(err error) {
		if te, is := errors.AsType[types.Error](err); is {
			r.errs = append(r.errs, te)
		}
	}
	r.Pkg, _ = conf.Check("main", r.Fset, files, r.Info)
	return r, watched.failed
}

// parseUserFiles parses the Go files that somebody put into the module's directory:
// they are part of every program, as in GoNB.
func (c *Composer) parseUserFiles(ctx context.Context, fset *token.FileSet) []*ast.File {
	var files []*ast.File
	for _, name := range c.Module.UserFiles() {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the go command will say what is wrong with it
		}
		for _, im := range f.Imports {
			if path, err := strconv.Unquote(im.Path.Value); err == nil {
				c.Module.Packages(ctx, path)
			}
		}
		files = append(files, f)
	}
	return files
}

// A watchedImporter notes that a package could not be read although it is there.
type watchedImporter struct {
	types.Importer
	failed bool
}

func (w *watchedImporter) Import(path string) (*types.Package, error) {
	p, err := w.Importer.Import(path)
	w.failed = w.failed || err != nil
	return p, err
}

// unusedValue reports whether the last expression looks like a call, but may not
// stand alone: len(x), or a conversion.
func unusedValue(w *writer, errs []types.Error) bool {
	line, column := parse.Place(w.unit.Text, w.unit.Last.Start)
	for _, e := range errs {
		pos := e.Fset.Position(e.Pos)
		if strings.HasSuffix(e.Msg, "is not used") && pos.Line == line && pos.Column >= column && pos.Filename == parse.FileName(w.unit.ID) {
			return true
		}
	}
	return false
}

var unusedImport = regexp.MustCompile(`^"([^"]+)" imported (?:as (\S+) )?and not used$`)

// dropUnused removes the imports that errs calls unused, and reports whether
// there were any.
func (w *writer) dropUnused(errs []types.Error) bool {
	unused := map[*parse.Import]bool{}
	for _, e := range errs {
		m := unusedImport.FindStringSubmatch(e.Msg)
		if m == nil {
			continue
		}
		var same []*parse.Import // of this path: one may be named, and the other be a dot
		for _, im := range w.imports {
			if im.Path == m[1] && (m[2] == im.Name || !strings.HasPrefix(m[2]+im.Name, "gaiden_")) {
				same = append(same, im)
			}
		}
		for _, im := range same {
			if len(same) == 1 || isAt(im, e) {
				unused[im] = true
			}
		}
	}
	dropped := len(unused) > 0
	w.imports = slices.DeleteFunc(w.imports, func(im *parse.Import) bool { return unused[im] })
	return dropped
}

// isAt says whether an error is at an import. One that no cell has written is at a place
// that is no cell's import.
func isAt(im *parse.Import, e types.Error) bool {
	pos := e.Fset.Position(e.Pos)
	id, _ := parse.CellOfFile(pos.Filename)
	return id == im.Cell && pos.Line == im.Line
}

// explain turns the checker's errors into diagnostics.
func (c *Composer) explain(w *writer, r report) []parse.Diagnostic {
	var found parse.Complaints
	for _, e := range r.errs {
		if strings.HasPrefix(e.Msg, "\t") && len(found.All) > 0 {
			continue // "other declaration of x": a second line to the error before
		}
		pos := e.Fset.Position(e.Pos)
		d := parse.Diagnostic{Line: pos.Line, Column: pos.Column, Message: strings.ReplaceAll(briefly(e.Msg), " to "+cell.ShowFunc, "")}
		id, ok := parse.CellOfFile(pos.Filename)
		if ok {
			d.Cell = id
		} else {
			d.Line, d.Column = 0, 0
		}
		hint := ""
		if m := undefinedName.FindStringSubmatch(e.Msg); m != nil {
			if reason, next := c.Memory.refused(m[1], w.unit); reason != "" {
				d.Message, hint = reason, next
			} else if cell, ok := c.Memory.definedIn(m[1]); ok {
				hint = notKept(cell, m[1])
			}
			if hint != "" && slices.ContainsFunc(cell.Builtins, func(b cell.Builtin) bool { return b.Name == m[1] }) {
				hint += fmt.Sprintf("; %%del %s brings back the %[1]s that every cell has", m[1])
			}
		}
		found.Add(d, func(d *parse.Diagnostic) {
			if ok {
				d.Text = parse.LineOf(w.source(id), pos.Line)
			}
			if d.Hint = hint; hint != "" {
				return
			}
			switch d.Hint = c.hint(w, e.Msg); {
			case d.Hint != "":
			case noMember.MatchString(e.Msg):
				d.Hint = c.member(r, e.Pos)
			case noField.MatchString(e.Msg):
				d.Hint = c.field(r, e.Pos)
			case noStruct.MatchString(e.Msg):
				d.Hint = c.structure(r, e.Pos)
			}
			if since := w.changedSince(id, pos.Line); since != "" {
				d.Hint = strings.TrimPrefix(d.Hint+"\n    "+since, "\n    ")
			}
		})
	}
	return found.All
}

func (w *writer) qualifies(name string) bool {
	return slices.ContainsFunc(w.decls, func(d *parse.Decl) bool { return d.Quals[name] != nil }) || w.unit.OwnMain != nil && w.unit.OwnMain.Quals[name] != nil
}

// decide looks at the type of the call that ends the cell: is there a value
// that somebody wants to see?
func (w *writer) decide(r report) {
	u := w.unit
	if u.Last == nil || u.Last.Silent {
		return
	}
	expr := lastOfMain(r.File)
	if expr == nil {
		return
	}
	if w.shower != "" {
		// The expression is the argument of the call that shows it.
		if call, ok := expr.(*ast.CallExpr); ok && len(call.Args) == 1 {
			w.choose(r.Info.Types[call.Args[0]].Type)
		}
		return
	}
	tv := r.Info.Types[expr]
	results := resultsOf(tv.Type)
	if tv.IsVoid() || len(results) == 0 || counted(results) && writes(expr) {
		return
	}
	name := cell.ShowFunc
	if fallible(tv.Type) && ignorable(r, expr) {
		return
	}
	if fallible(tv.Type) && !makesErrors(r, expr) {
		name = cell.ShowErrorFunc
		line, column := parse.Place(u.Text, u.Last.Start)
		w.fails(cell.Builtin{Name: cell.ShowErrorName}, token.Position{Filename: parse.FileName(u.ID), Line: line, Column: column}, cell.ShowErrorName)
	}
	w.show(name)
	if len(results) == 1 {
		w.choose(results[0])
	}
}

// show makes the cell show its last value by a function of package gaidenshow.
func (w *writer) show(name string) {
	w.shower = name
	w.imports = append(w.imports, &parse.Import{Name: cell.ShowPackage, Path: cell.ShowPath})
}

// choose adds the package that can draw images or show arrays, if the value is one.
func (w *writer) choose(t types.Type) {
	if t == nil {
		return
	}
	if w.library == arrayLibrary && isArray(t) {
		w.imports = append(w.imports, &parse.Import{Name: "_", Path: cell.ShowArrayPath})
	}
	bounds, _, _ := types.LookupFieldOrMethod(t, true, nil, "Bounds")
	at, _, _ := types.LookupFieldOrMethod(t, true, nil, "At")
	model, _, _ := types.LookupFieldOrMethod(t, true, nil, "ColorModel")
	if bounds != nil && at != nil && model != nil {
		w.imports = append(w.imports, &parse.Import{Name: "_", Path: cell.ShowImagePath})
	}
}

// arrayLibrary is the library that the package which shows arrays imports.
const arrayLibrary = "gaiden"

// isArray reports whether a type is that of an array of GoMLX or of the session, or a slice of
// them.
func isArray(t types.Type) bool {
	if l, is := t.Underlying().(*types.Slice); is {
		t = l.Elem()
	}
	if p, is := t.(*types.Pointer); is {
		t = p.Elem()
	}
	named, is := types.Unalias(t).(*types.Named)
	if !is || named.Obj().Pkg() == nil {
		return false
	}
	switch named.Obj().Pkg().Path() + "." + named.Obj().Name() {
	case "github.com/gomlx/gomlx/core/tensors.Tensor", arrayLibrary + "/lib/session.Array":
		return true
	}
	return false
}

// lastOfMain returns the expression that is main's last statement.
func lastOfMain(file *ast.File) ast.Expr {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "main" || len(f.Body.List) == 0 {
			continue
		}
		if s, ok := f.Body.List[len(f.Body.List)-1].(*ast.ExprStmt); ok {
			return ast.Unparen(s.X)
		}
	}
	return nil
}

// writes reports whether a call is one of those for which nobody looks at how many
// bytes they have written or read: fmt.Println at the end of a cell has nothing to
// show, but strconv.Atoi has.
func writes(expr ast.Expr) bool {
	call, ok := expr.(*ast.CallExpr)
	if !ok {
		return false
	}
	name := ""
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	return writing.MatchString(name)
}

var writing = regexp.MustCompile(`^[FSfs]?([Pp]rint|[Ss]can)|^[Ww]rite`)

// counted reports whether results may be those of a writer, (n int, err error).
func counted(results []types.Type) bool {
	if len(results) != 2 || !isError(results[1]) {
		return false
	}
	b, ok := results[0].(*types.Basic)
	return ok && b.Kind() == types.Int
}
