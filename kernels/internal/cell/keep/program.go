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
// offer, or as an image if it is one; an error with its hint. A call that returns nothing, or what
// writers return (int, error), has no result; nor has one with a semicolon
// behind it.
//
// # Names that every cell has
//
// must(v, err) is v, or fails the cell with the error; must(err) only checks it, and
// must2 returns two values. ctx is the cell's context, which ends with Stop and with the
// cell. None of them needs a declaration. A notebook that declares one has its own, in
// every cell (see [cell.Builtins]).
//
// # Errors
//
// Nothing that a cell calls fails silently: a statement whose call returns an error, and
// a last line that does, fail the cell with it, at their line. This holds in loops and
// branches of the cell, too. It does not hold inside functions, nor below %% and in func
// main, which are Go as everywhere; for calls that print (fmt.Println, fmt.Fprintf) or
// never fail (strings.Builder); and for _ = f().
//
// The first line that a failed cell shows is the user's: that of the call, or where in
// the cells the error was made, if the error remembers its stack as GoMLX's do.
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
// net.Data); nothing has changed the value since; and what the initializer uses is
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
	c.Memory.remember(p, func(path string) string { return cmp.Or(p.names[path], guessName(path)) })
}

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
	if !u.Test && u.OwnMain == nil || slices.ContainsFunc(p.builtins, func(b cell.Builtin) bool { return b.Name != cell.ContextName }) {
		stack.Name = cell.StackPackage // our main calls it, and must
	}
	imports = append(imports, stack)
	w := writer{unit: u, library: c.Module.LibraryPath(), decls: decls, loads: loads, imports: imports, flags: p.flags, builtins: p.builtins}
	r, err := c.check(ctx, &w)
	if err == nil {
		err = c.trackValues(ctx, &w, p, r)
	}
	if r.Pkg == nil && u.Keep && len(u.Definitions) > 0 {
		p.Notes = append(p.Notes, "this cell's variables are not kept: the compiled packages that it imports cannot be read; go clean -cache, then restart the kernel")
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
	for _, path := range []string{cell.ShowImagePath, cell.ShowArrayPath} {
		if !slices.Contains(p.Imports, path) {
			continue
		}
		if _, err := c.Module.Packages(ctx, path); err != nil {
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
