package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	u := p.unit
	declared := map[string]bool{}
	quals := map[string][]string{}
	uses := map[string]bool{}
	gather := func(q map[string][]string, used map[string]bool) {
		for name, selected := range q {
			quals[name] = append(quals[name], selected...)
		}
		for name := range used {
			uses[name] = true
		}
	}
	for _, d := range decls {
		if d.Kind != parse.Method {
			for _, name := range d.Names {
				declared[name] = true
			}
		}
		gather(d.Quals, d.Uses)
	}
	for _, l := range loads {
		declared[l.ident] = true
	}
	gather(u.Quals, u.Uses)
	if u.OwnMain != nil {
		gather(u.OwnMain.Quals, u.OwnMain.Uses)
	}
	for name := range quals {
		// A variable that the program cannot have is not the package of its name.
		if reason, _ := c.Memory.refused(name, u); reason != "" && !slices.ContainsFunc(u.Imports, func(im *parse.Import) bool { return im.Name == name || im.Name == "" && guessName(im.Path) == name }) {
			declared[name] = true
		}
	}

	// The cell's own imports must exist, used or not; and only the package
	// itself knows its name.
	if err := c.ownImports(ctx, p); err != nil {
		return nil, err
	}
	var out []*parse.Import
	byName := map[string]*parse.Import{}
	for _, im := range slices.Concat(remembered, u.Imports) {
		if slices.Contains(p.missing, im.Path) {
			continue
		}
		switch im.Name {
		case "_", ".":
			if !slices.ContainsFunc(out, func(o *parse.Import) bool { return o.Name == im.Name && o.Path == im.Path }) {
				out = append(out, im)
			}
		case "":
			byName[c.packageName(p, im.Path)] = im
		default:
			byName[im.Name] = im
		}
	}
	p.builtins = c.builtins(ctx, u, uses, func(name string) bool {
		return declared[name] || byName[name] != nil || name != cell.ContextName && quals[name] != nil // must.M is of a package
	})
	p.builtins = slices.DeleteFunc(p.builtins, func(b cell.Builtin) bool {
		for name := range b.Packages {
			if im := byName[name]; declared[name] || im != nil && im.Path != name {
				return true // Go's own will do
			}
		}
		return false
	})
	for _, b := range p.builtins {
		declared[b.Name] = true
		for name, selected := range b.Packages {
			quals[name] = append(quals[name], selected)
		}
	}
	// GoNB parses the command line in every cell; linking package flag into
	// every cell would be the price. We do where there is one, or talk of flags.
	p.flags = u.OwnMain == nil && !u.Test && u.HasMain() && !declared["flag"] && (len(u.Args) > 0 || quals["flag"] != nil) &&
		!slices.Contains(u.Quals["flag"], "Parse") // statements that parse it themselves define flags before
	if p.flags && quals["flag"] == nil {
		quals["flag"] = []string{"Parse"}
	}
	for name, selected := range quals {
		im := byName[name]
		switch {
		case declared[name]:
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
	var paths []string
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
