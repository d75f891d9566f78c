// Package keep makes the source of a cell's program, and keeps what survives it:
// declarations and values. A [Composer] joins a cell with what it needs of earlier
// ones, finds the imports and checks the types.
//
// # What a program is made of
//
// A cell's program holds the cell and of the remembered declarations those that
// it reaches by name, no others: its cost does not grow with the notebook.
// Every piece stands below a //line directive, so compiler, type checker and
// tracebacks speak of the cells' own lines. Imports are found by package name
// among the standard library, the library and the modules that go.mod requires;
// an import that is not used is left out.
//
// The value of a cell's last expression is its result (see process.ResultEnv): as
// text, and in the forms that its methods HTML, Markdown, SVG, PNG or Display
// offer, or as an image if it is an image; an error with its hint. A call that returns nothing, or what
// writers return (int, error), has no result; nor has one with a semicolon
// behind it.
//
// # What survives a program
//
// The variables of a cell with Keep set (see parse.Source) are there for later cells: those at
// package level, and those that its top-level statements define with :=. The
// program writes their values when it ends, by itself, with a panic in main, or
// by os.Exit and log.Fatal in a cell; a later program that names one declares it
// with its type and loads it (package gaidenkeep says what is kept, and how
// exactly). Before a program is stopped, it saves its values (see
// [Carry.Stop]), and leaves those that are not changing at that moment. One that is
// killed leaves all values as they were.
//
// A value that cannot be kept (it holds a function, a channel, an open file) is
// defined again in a later cell that names it, if that is sure to make the same
// value: the initializer only computes, or names what the session has (fit.New,
// net.Find); nothing has changed the value since; and what the initializer uses is
// what it was. Else the use is an error at its line, which says why and what to
// write. No initializer with an effect is run a second time by itself. A value
// whose type was declared again since is never converted.
//
// A cell with a main function (%%, %exec, func main) and a test are programs of
// their own, as in GoNB: package-level variables begin as they are declared, and
// their initializers run again, what := defines ends with the cell, and nothing is
// written. They may read what another cell has defined with :=.
//
// The working directory and the environment with which a program ends are those of
// the next ([Program.Leaves], [cell.LeaveEnv]).
//
//	carry, err := composer.Carry(program, dir) // before it runs
//	command.Env = append(os.Environ(), carry.Environ()...)
//	exit, err := command.Run(ctx)
//	stale, notes := carry.Collect(!exit.Interrupted) // stale: compose it again
package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
)

// A Program is a cell made whole: Go source that can be compiled.
type Program struct {
	build.Program

	Result bool // the program sends the value of its last expression
	Args   []string
	Tests  []string // names of the cell's own tests and benchmarks, when Test is set; of all where it has none

	// Run is false when there is nothing to run: a cell that only declares.
	// It has been checked, and need not be compiled.
	Run bool

	// Leaves is set where later programs begin with the directory and environment
	// that this one ends with: it writes them to the file that cell.LeaveEnv names.
	Leaves bool

	// Notes say what the user should know before the program runs: variables
	// that begin again.
	Notes []string

	loads   []loadedVar                // kept values that it begins with
	tracked tracked                    // variables that it leaves for later programs
	missing []string                   // paths of imports that cannot be found and are not used
	atStart []string                   // those of them that it has from the start
	repeats map[string]map[string]bool // those of them that may be made again, and what they depend on
	carries bool                       // it has to do with kept values

	builtins []cell.Builtin
	sites    []site // where it may fail with an error

	flags bool           // main parses the command line first
	texts map[int]string // those cells' texts
	unit  *parse.Unit
	names map[string]string // package names by path
}

// TestArgs returns the flags that run the tests and benchmarks of Tests.
func (p *Program) TestArgs() []string {
	var tests, benchmarks []string
	for _, name := range p.Tests {
		if strings.HasPrefix(name, "Benchmark") {
			benchmarks = append(benchmarks, "^"+name+"$")
		} else {
			tests = append(tests, "^"+name+"$")
		}
	}
	args := []string{"-test.v"}
	if len(benchmarks) > 0 {
		args = append(args, "-test.bench="+strings.Join(benchmarks, "|"))
	}
	if len(tests) == 0 {
		tests = []string{"^$"}
	}
	return append(args, "-test.run="+strings.Join(tests, "|"))
}

// Line returns a line of one of the program's cells, both from 1, or "".
func (p *Program) Line(cell, line int) string { return parse.LineOf(p.texts[cell], line) }

// A Composer makes programs of cells: it resolves imports, checks types and
// remembers declarations. All fields are set before the first use.
type Composer struct {
	Module *build.Module
	Memory *Memory

	// Nearest finds the name that was probably meant, "" if there is none; nil
	// means that nothing is suggested.
	Nearest func(word string, names []string) string
}

// Compose makes a program of a cell. Nothing is remembered yet: see Remember.
//
// Errors: *BuildError for what is wrong in the cell; *ImportError, also inside
// a BuildError's diagnostics; *ToolError when there is no usable Go.
func (c *Composer) Compose(ctx context.Context, src parse.Source) (*Program, error) {
	if err := c.Module.Refresh(ctx); err != nil {
		return nil, err
	}
	u, err := parse.Parse(src)
	if err != nil {
		return nil, err
	}
	// The second time is for packages that were exchanged meanwhile.
	for tries := 0; ; tries++ {
		generation := c.Module.Generation()
		p, err := c.compose(ctx, u)
		if tries > 0 || generation == c.Module.Generation() {
			return p, err
		}
	}
}

// Remember takes over the declarations of a program that was built.
func (c *Composer) Remember(p *Program) {
	c.Memory.remember(p, func(path string) string {
		if name := p.names[path]; name != "" {
			return name
		}
		return guessName(path)
	})
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

// Warm makes the first cell as fast as the others: it finds out which packages
// there are, and reads those that nearly every cell needs, and the given ones.
func (c *Composer) Warm(ctx context.Context, packages ...string) error {
	c.Module.Names(ctx)
	packages = append([]string{"runtime", "fmt", cell.ShowPath, cell.ShowImagePath, cell.KeepPath, cell.StackPath}, packages...)
	if _, err := c.Module.Packages(ctx, packages...); err != nil {
		return err
	}
	for _, path := range packages {
		c.Module.TypesOf(ctx, path)
	}
	return nil
}

// compose makes the program; when it turns out that it cannot have a kept value
// any more, another one without it.
func (c *Composer) compose(ctx context.Context, u *parse.Unit) (*Program, error) {
	var notes []string
	for {
		p, err := c.attempt(ctx, u)
		var stale *staleError
		if !errors.As(err, &stale) {
			if p != nil {
				p.Notes = append(notes, p.Notes...)
			}
			return p, err
		}
		notes = append(notes, c.Memory.dropKept(stale.loads, "its type is not what it was")...)
	}
}

func (c *Composer) attempt(ctx context.Context, u *parse.Unit) (*Program, error) {
	decls, loads, remembered := c.Memory.reach(u)
	p := &Program{Program: build.Program{Cell: u.ID, Text: u.Text, Test: u.Test, Direct: true}, Args: u.Args, unit: u, names: map[string]string{}}
	imports, err := c.resolve(ctx, p, decls, loads, remembered)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(imports, func(im *parse.Import) bool { return im.Path == "C" }) {
		if err := c.Module.CompilerMissing(); err != nil {
			return nil, build.Blame(err, imports)
		}
	}
	p.Run = u.HasMain() || u.Test
	for _, d := range u.Decls {
		// A declaration that does something when the program starts wants to be run.
		p.Run = p.Run || d.Kind == parse.Var && d.Calls || d.Kind == parse.Func && isInit(d.Names[0])
	}
	for _, d := range decls {
		p.Embed = append(p.Embed, build.EmbedPatterns(d)...)
	}
	if len(p.Embed) > 0 && !slices.ContainsFunc(imports, func(im *parse.Import) bool { return im.Path == "embed" }) {
		imports = append(imports, &parse.Import{Name: "_", Path: "embed"}) // the compiler asks for it, not the code
		if _, err := c.Module.Packages(ctx, "embed"); err != nil {
			return nil, err
		}
	}
	stack := &parse.Import{Name: "_", Path: cell.StackPath}
	if !u.Test && u.OwnMain == nil {
		stack.Name = cell.StackPackage // our main calls it
	}
	imports = append(imports, stack)
	w := writer{unit: u, decls: decls, loads: loads, imports: imports, flags: p.flags, builtins: p.builtins}
	r, err := c.check(ctx, &w)
	if err == nil {
		err = c.trackValues(ctx, &w, p, r)
	}
	if err != nil {
		return nil, err
	}
	p.Source, p.Cells = w.text()
	p.sites = w.sites
	p.texts = map[int]string{}
	for _, id := range p.Cells {
		p.texts[id] = w.source(id)
	}
	if u.Shown != "" {
		p.texts[u.ID] = u.Shown
	}
	p.Result = w.shower != ""
	for _, im := range w.imports {
		p.Imports = append(p.Imports, im.Path)
		if im.Path == "C" {
			p.Direct = false
		}
	}
	p.Direct = p.Direct && !u.Test && !p.Cgo && len(c.Module.UserFiles()) == 0
	if slices.Contains(p.Imports, cell.ShowImagePath) {
		if _, err := c.Module.Packages(ctx, cell.ShowImagePath); err != nil {
			return nil, err
		}
	}
	sort.Strings(p.Imports)
	p.Imports = slices.Compact(p.Imports)
	if u.Test {
		if p.Tests = tests(u.Decls); len(p.Tests) == 0 {
			p.Tests = tests(decls) // all that are remembered
		}
	}
	return p, nil
}

// tests returns the names of the tests and benchmarks among declarations.
func tests(decls []*parse.Decl) (names []string) {
	for _, d := range decls {
		if d.Kind == parse.Func && isTest(d.Names[0]) {
			names = append(names, d.Names[0])
		}
	}
	return names
}

func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Benchmark") ||
		strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example"))
}

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
			byName[c.packageName(ctx, p, im.Path)] = im
		default:
			byName[im.Name] = im
		}
	}
	p.builtins = c.builtins(ctx, u, uses, func(name string) bool { return declared[name] || byName[name] != nil })
	for _, b := range p.builtins {
		declared[b.Name] = true
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
		}
		out = append(out, im)
	}
	out = append(out, keepImports(loads)...)
	// Deterministic text, so that the same cell is found in the store again.
	sort.Slice(out, func(i, j int) bool {
		if out[i].Path != out[j].Path {
			return out[i].Path < out[j].Path
		}
		return out[i].Name < out[j].Name
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
	if slices.ContainsFunc(p.builtins, func(b cell.Builtin) bool { return b.Name == "ctx" }) {
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
func (c *Composer) packageName(ctx context.Context, p *Program, path string) string {
	if name := p.names[path]; name != "" {
		return name
	}
	return cmp.Or(c.Module.PackageName(path), guessName(path))
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
