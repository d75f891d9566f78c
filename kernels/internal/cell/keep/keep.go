package keep

import (
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"sort"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/cell/repeat"
)

// keptName is the file name given to the declarations of kept variables.
const keptName = "gaidenkept.go"

// keepImports returns the imports that the kept values of a program need.
func keepImports(loads []loadedVar) []*parse.Import {
	if len(loads) == 0 {
		return nil
	}
	paths := map[string]bool{}
	add := func(t typeText) {
		_, need, _ := t.split(guessName)
		for _, p := range need {
			paths[p] = true
		}
	}
	for _, l := range loads {
		add(l.typ)
		for _, t := range l.group.dynamic {
			add(t)
		}
	}
	out := []*parse.Import{{Name: cell.KeepPackage, Path: cell.KeepPath}}
	for p := range paths {
		out = append(out, &parse.Import{Name: typePackage(p), Path: p})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// typePackage returns what a program calls a package that only the types of its
// kept values need.
func typePackage(path string) string {
	return "gaiden_" + strings.Map(func(r rune) rune {
		if isName(r) {
			return r
		}
		return '_'
	}, path)
}

func isName(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// writeLoads declares the kept variables, and before anything else is
// initialized they get their values: their declarations come first, and the
// next is the call's.
func (w *writer) writeLoads() {
	if len(w.loads) == 0 {
		return
	}
	var vars, kinds strings.Builder
	dynamic := map[typeText]bool{}
	for i, l := range w.loads {
		source, _, _ := l.typ.split(typePackage)
		fmt.Fprintf(&w.b, "//line %s:%d:1\nvar %s %s\n", keptName, i+1, l.ident, source)
		fmt.Fprintf(&vars, "%q, &%s, ", l.name, l.ident)
		for _, t := range l.group.dynamic {
			if !dynamic[t] {
				dynamic[t] = true
				source, _, _ := t.split(typePackage)
				fmt.Fprintf(&kinds, "/*line %s:%d:1*/(*%s)(nil), ", keptName, i+1, source)
			}
		}
	}
	w.glue()
	fmt.Fprintf(&w.b, "var _ = %s.Load(%s)\n", cell.KeepPackage, strings.TrimSuffix(vars.String()+kinds.String(), ", "))
	w.glue()
}

// brokenLoads returns the kept variables that the program cannot declare: a
// cell has changed or removed their types.
func (w *writer) brokenLoads(errs []types.Error) (out []loadedVar) {
	for _, e := range errs {
		if p := e.Fset.Position(e.Pos); p.Filename == keptName && p.Line >= 1 && p.Line <= len(w.loads) {
			out = append(out, w.loads[p.Line-1])
		}
	}
	return out
}

// A tracked set of variables is what a program leaves for later ones.
type tracked map[string]typeText

// track decides which variables the program leaves: those at its package's
// level, and what its statements define. What only its own package can name is
// kept as little as what holds a function: their types are empty.
func (w *writer) track(r report) tracked {
	t := tracked{}
	note := func(name string, typ types.Type) {
		text, ok := textOf(typ)
		if !ok {
			text = ""
		}
		t[name] = text
	}
	local := map[string]bool{}
	for id := range definedInMain(r.File) {
		local[id.Name] = true
	}
	for _, name := range w.packageVars() {
		if local[name] {
			continue // what the cell's statements call so is another variable
		}
		if v, ok := r.Pkg.Scope().Lookup(name).(*types.Var); ok {
			note(name, v.Type())
		}
	}
	w.atStart = slices.Sorted(maps.Keys(t))
	for id := range definedInMain(r.File) {
		if v, ok := r.Info.Defs[id].(*types.Var); ok && v != nil && id.Name != "_" {
			note(id.Name, v.Type())
		}
	}
	return t
}

// trackCall is the statement that makes the program leave a variable.
func (w *writer) trackCall(name string) string {
	text, ok := w.tracked[name]
	function := "Track"
	switch _, repeats := w.repeats[name]; {
	case !ok:
		return ""
	case text == "":
		function = "TrackUnnamed"
	case repeats:
		function = "TrackFirst"
	}
	return fmt.Sprintf("%s.%s(%q, &%s)", cell.KeepPackage, function, name, name)
}

// packageVars returns the names of the program's variables that may be kept:
// not those that have to be made in every program.
func (w *writer) packageVars() (names []string) {
	for _, d := range w.decls {
		if d.Kind != parse.Var || len(build.EmbedPatterns(d)) > 0 || d.Quals["flag"] != nil {
			continue
		}
		for _, name := range d.Names {
			if name != "_" {
				names = append(names, name)
			}
		}
	}
	for _, l := range w.loads {
		if l.ident == l.name {
			names = append(names, l.name)
		}
	}
	return names
}

// definedInMain yields the names that main's own statements define.
func definedInMain(file *ast.File) func(func(*ast.Ident) bool) {
	return func(yield func(*ast.Ident) bool) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Name.Name != "main" {
				continue
			}
			for _, s := range f.Body.List {
				assign, ok := s.(*ast.AssignStmt)
				if !ok || assign.Tok != token.DEFINE {
					continue
				}
				for _, l := range assign.Lhs {
					if id, ok := l.(*ast.Ident); ok && !yield(id) {
						return
					}
				}
			}
		}
	}
}

// trackValues makes a program of which later ones have the values.
func (c *Composer) trackValues(ctx context.Context, w *writer, p *Program, r report) error {
	u := w.unit
	p.loads = w.loads
	p.carries = len(w.loads) > 0
	if !u.Keep || u.Alone() || !u.HasMain() && !p.Run || r.Pkg == nil {
		return nil
	}
	p.Leaves = true
	p.carries = p.carries || len(u.Definitions) > 0
	w.repeats = repeat.Repeatable(r.Checked, c.Module.LibraryPath())
	for _, d := range slices.Concat(u.Decls, u.Defining()) {
		named := slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool { return name == "_" })
		d.Repeats = d.Kind == parse.Var && len(named) > 0 && !slices.ContainsFunc(named, func(name string) bool { return w.repeats[name] == nil })
	}
	p.tracked, p.repeats = w.track(r), w.repeats
	p.atStart = w.atStart
	if len(p.tracked) == 0 {
		return nil
	}
	p.carries = true
	w.tracked, w.waits = p.tracked, timers(r.Info)
	if len(w.loads) == 0 {
		if _, err := c.Module.Packages(ctx, cell.KeepPath); err != nil {
			return err
		}
		w.imports = append(w.imports, &parse.Import{Name: cell.KeepPackage, Path: cell.KeepPath})
	}
	return nil
}

// timers returns the arguments of gaidenkeep.Watch: what those timers wake that the
// cells' own code makes. One that calls a function may wake whatever waits.
func timers(info *types.Info) (waits string) {
	for _, obj := range info.Uses {
		f, ok := obj.(*types.Func)
		if !ok || f.Pkg() == nil || f.Signature().Recv() != nil {
			continue
		}
		switch f.Pkg().Path() + "." + f.Name() {
		case "time.AfterFunc", "context.WithTimeout", "context.WithTimeoutCause", "context.WithDeadline", "context.WithDeadlineCause":
			return `""`
		case "time.After", "time.NewTicker", "time.NewTimer", "time.Tick":
			waits = `"chan receive", "select"`
		}
	}
	return waits
}
