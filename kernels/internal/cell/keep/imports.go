package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
)

// resolve finds the imports that the declarations and the cell need: the
// cell's own, those of earlier cells, and by name those that nobody wrote.
func (c *Composer) resolve(ctx context.Context, p *Program, decls []*parse.Decl, loads []loadedVar, remembered []*parse.Import) ([]*parse.Import, error) {
	// The cell's own imports must exist, used or not; and only the package
	// itself knows its name.
	if err := c.ownImports(ctx, p); err != nil {
		return nil, err
	}
	n := c.namesOf(p, decls, loads)
	out := n.importAll(c, p, slices.Concat(remembered, p.unit.Imports))
	n.addBuiltins(ctx, c, p)
	n.addFlags(p)
	for name, selected := range n.quals {
		im := n.imports[name]
		switch {
		case n.declared[name]:
			continue
		case im == nil:
			path, ok := c.Module.Resolve(ctx, name, selected)
			if !ok {
				continue // the type checker says it better: undefined
			}
			im = &parse.Import{Path: path}
			if n := guessName(path); n != name {
				im.Name = name
			}
			if rival := c.Module.Rival(ctx, path, name, selected); rival != "" {
				p.Notes = append(p.Notes, fmt.Sprintf("%s is package %s here; import %q if you mean that one", name, path, rival))
			}
		}
		out = append(out, im)
	}
	out = append(out, keepImports(loads)...)
	// Deterministic text, so that the same cell is found in the store again.
	slices.SortFunc(out, func(a, b *parse.Import) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Name, b.Name))
	})
	u, paths := p.unit, []string(nil)
	for _, im := range out {
		paths = append(paths, im.Path)
	}
	if u.Last != nil {
		paths = append(paths, cell.ShowPath)
	}
	if u.Test {
		paths = append(paths, "testing")
	}
	if slices.ContainsFunc(p.builtins, func(b cell.Builtin) bool { return b.Name == cell.ContextName }) {
		paths = append(paths, c.interruptPath())
	}
	if _, err := c.Module.Packages(ctx, append(paths, "runtime", cell.StackPath)...); err != nil {
		return nil, build.Blame(err, out)
	}
	companions, err := c.beneath(ctx, p, paths)
	return append(out, companions...), err
}

// names is what the names in a program stand for.
type names struct {
	declared map[string]bool
	quals    map[string][]string // those that are followed by a dot, with what is selected
	uses     map[string]bool
	imports  map[string]*parse.Import
}

// namesOf are those in declarations and in the cell.
func (c *Composer) namesOf(p *Program, decls []*parse.Decl, loads []loadedVar) *names {
	n, u := &names{map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string]*parse.Import{}}, p.unit
	gather := func(quals map[string][]string, uses map[string]bool) {
		for name, selected := range quals {
			n.quals[name] = append(n.quals[name], selected...)
		}
		maps.Copy(n.uses, uses)
	}
	for _, d := range decls {
		if d.Kind != parse.Method {
			for _, name := range d.Names {
				n.declared[name] = true
			}
		}
		gather(d.Quals, d.Uses)
	}
	for _, l := range loads {
		n.declared[l.ident] = true
	}
	gather(u.Quals, u.Uses)
	if u.OwnMain != nil {
		gather(u.OwnMain.Quals, u.OwnMain.Uses)
	}
	for name := range n.quals {
		// A variable that the program cannot have is not the package of its name.
		if reason, _ := c.Memory.refused(name, u); reason != "" && !slices.ContainsFunc(u.Imports, func(im *parse.Import) bool { return im.Name == name || im.Name == "" && guessName(im.Path) == name }) {
			n.declared[name] = true
		}
	}
	return n
}

// importAll notes imports by their names; those that have none are returned.
func (n *names) importAll(c *Composer, p *Program, all []*parse.Import) (unnamed []*parse.Import) {
	for _, im := range all {
		if slices.Contains(p.missing, im.Path) {
			continue
		}
		switch im.Name {
		case "_", ".":
			if !slices.ContainsFunc(unnamed, func(o *parse.Import) bool { return o.Name == im.Name && o.Path == im.Path }) {
				unnamed = append(unnamed, im)
			}
		case "":
			n.imports[c.packageName(p, im.Path)] = im
		default:
			n.imports[im.Name] = im
		}
	}
	return unnamed
}

// addBuiltins gives the program the functions of cells that it uses.
func (n *names) addBuiltins(ctx context.Context, c *Composer, p *Program) {
	p.builtins = c.builtins(ctx, p.unit, n.uses, func(name string) bool {
		return n.declared[name] || n.imports[name] != nil || name != cell.ContextName && n.quals[name] != nil // must.M is of a package
	})
	p.builtins = slices.DeleteFunc(p.builtins, func(b cell.Builtin) bool {
		for name := range b.Packages {
			if im := n.imports[name]; n.declared[name] || im != nil && im.Path != name {
				return true // Go's own will do
			}
		}
		return false
	})
	for _, b := range p.builtins {
		n.declared[b.Name] = true
		for name, selected := range b.Packages {
			n.quals[name] = append(n.quals[name], selected)
		}
	}
}

// addFlags decides whether the program parses its command line. GoNB's cells all do; linking
// package flag into every cell would be the price. Ours do where there is one, or talk of flags.
func (n *names) addFlags(p *Program) {
	u := p.unit
	p.flags = u.OwnMain == nil && !u.Test && u.HasMain() && !n.declared["flag"] && (len(u.Args) > 0 || n.quals["flag"] != nil) &&
		!slices.Contains(u.Quals["flag"], "Parse") // statements that parse it themselves define flags before
	if p.flags && n.quals["flag"] == nil {
		n.quals["flag"] = []string{"Parse"}
	}
}

// beneath looks at all that the program consists of: packages in C, for which the
// go command has to build it, those that have a companion, and the one that has to know
// that the program is a cell's.
func (c *Composer) beneath(ctx context.Context, p *Program, paths []string) (companions []*parse.Import, err error) {
	var notes []string
	interrupt := c.interruptPath()
	c.Module.Below(paths, func(path string, pkg *build.Package) {
		p.Cgo = p.Cgo || pkg.Cgo
		if pkg.WithoutC != "" {
			notes = append(notes, fmt.Sprintf("%s is used without its part in C: %s", path, pkg.WithoutC))
		}
		if companion := c.Module.Companions[path]; companion != "" {
			companions = append(companions, &parse.Import{Name: "_", Path: companion})
		}
		if path == interrupt {
			companions = append(companions, &parse.Import{Name: cell.InterruptPackage, Path: path})
		}
	})
	slices.Sort(notes)
	p.Notes = append(p.Notes, notes...)
	for _, im := range companions {
		if _, err := c.Module.Packages(ctx, im.Path); err != nil {
			return nil, err
		}
	}
	return companions, nil
}

// interruptPath is the path of the library's package that has the cell's context, "" if
// there is no library.
func (c *Composer) interruptPath() string {
	if library := c.Module.LibraryPath(); library != "" {
		return library + "/" + cell.InterruptPath
	}
	return ""
}

// ownImports sees that what the cell imports is there.
func (c *Composer) ownImports(ctx context.Context, p *Program) error {
	var paths []string
	for _, im := range p.unit.Imports {
		if im.Path != "C" {
			paths = append(paths, im.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	packages, err := c.Module.Packages(ctx, paths...)
	for err != nil {
		var missing *build.ImportError
		if !p.unit.Loose || p.unit.Body == "" && len(p.unit.Decls) == 0 || !errors.As(err, &missing) || !slices.Contains(paths, missing.Path) || mayUse(p.unit, missing.Path) {
			return build.Blame(err, p.unit.Imports)
		}
		p.Notes = append(p.Notes, fmt.Sprintf("import %q is left out, for this cell does not use it: %s", missing.Path, missing.Reason))
		p.missing = append(p.missing, missing.Path)
		paths = slices.DeleteFunc(paths, func(path string) bool { return path == missing.Path })
		packages, err = c.Module.Packages(ctx, paths...)
	}
	for path, pkg := range packages {
		p.names[path] = pkg.Name
	}
	return nil
}

// packageName returns the name that a package gives itself.
func (c *Composer) packageName(p *Program, path string) string {
	return cmp.Or(p.names[path], c.Module.PackageName(path), guessName(path))
}

// mayUse reports whether the cell may use a package that cannot be found: its name is
// the one that the import gives it, or most likely the end of its path.
func mayUse(u *parse.Unit, path string) bool {
	used := func(name string) bool {
		return u.Quals[name] != nil || u.OwnMain != nil && u.OwnMain.Quals[name] != nil ||
			slices.ContainsFunc(u.Decls, func(d *parse.Decl) bool { return d.Quals[name] != nil })
	}
	for _, im := range u.Imports {
		if im.Path != path {
			continue
		}
		guess := guessName(path)
		if im.Name == "." || im.Name == "_" || used(im.Name) ||
			im.Name == "" && (used(guess) || used(strings.TrimPrefix(guess, "go-")) || used(strings.TrimSuffix(guess, "-go"))) {
			return true
		}
	}
	return false
}

// guessName is the name that a package most likely has.
func guessName(path string) string {
	parts := strings.Split(path, "/")
	name := parts[len(parts)-1]
	if versionSuffix.MatchString(name) && len(parts) > 1 {
		name = parts[len(parts)-2]
	}
	return name
}

var versionSuffix = regexp.MustCompile(`^v[0-9]+$`)
