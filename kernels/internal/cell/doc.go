// Package cell makes programs of notebook cells and runs them.
//
// A cell is Go code: declarations, which later cells may use, and statements.
// A [Composer] joins it with what it needs of earlier cells, finds the imports
// and checks the types; a [Builder] compiles and links it; a [Command] runs it:
//
//	module := &cell.Module{Dir: dir, Library: library, Cache: cache}
//	composer := &cell.Composer{Module: module, Memory: &cell.Memory{}}
//	builder := &cell.Builder{Module: module, Store: &cell.Store{Dir: cache}}
//
//	program, err := composer.Compose(ctx, cell.Source{ID: 1, Text: `fmt.Println("hello")`})
//	if err != nil {
//		return err // *cell.BuildError: "cell 1, line 1: undefined: …", with line and caret
//	}
//	binary, cost, err := builder.Build(ctx, program)
//	if err != nil {
//		return err
//	}
//	composer.Remember(program)
//	command := cell.Command{Path: binary.Path, Go: true, Stdout: func(p []byte) { os.Stdout.Write(p) }}
//	exit, err := command.Run(ctx)
//	fmt.Println(cost) // compile 12ms · link 75ms (direct)
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
// The value of a cell's last expression is its result (see [ResultEnv]): as
// text, and in the forms that its methods HTML, Markdown, SVG, PNG or Display
// offer, or as a picture if it is an image; an error with its hint. A call that returns nothing, or what
// writers return (int, error), has no result; nor has one with a semicolon
// behind it.
//
// # What outlives a program
//
// The variables of a cell with [Source.Keep] are there for later cells: those at
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
// the next ([Program.Leaves], [LeaveEnv]).
//
//	carry, err := composer.Carry(program, dir) // before it runs
//	command.Env = append(os.Environ(), carry.Environ()...)
//	exit, err := command.Run(ctx)
//	stale, notes := carry.Take(!exit.Interrupted) // stale: compose it again
//
// # How it is built
//
// By the shortest road that is right, and [Cost] says which it was. A cell that
// only declares is checked, not built. One that was built before is not built
// again. Others go through compiler and linker alone, with packages that the go
// command compiled once. cgo, tests, flags for go build and Go files of the
// user's beside the cells are left to the go command. Nothing but [Module.Get]
// touches the network.
//
// A package with a part in C is built with cgo if there is a C compiler, and so is
// every program that it is in; all others are built without. Go's settings, from
// the environment and from "go env -w", hold for all: they are read once, are part
// of every key, and are given to go command, compiler and linker alike.
//
// # What is kept
//
// Built programs and lists of compiled packages, in a cache that kernels share. What
// is read from it is verified first (package sealed). What is damaged, or does not
// fit to the rest, is removed and made again, and [Module.Log] is told: also where
// only compiler or linker can see it, as with packages of two builds. A directory
// that others may write to is refused.
//
// # How it runs
//
// In a process group of its own, which the end of the context stops, with all
// that it started. Its output is read to the last byte. When it waits for
// input, somebody is asked. A panic is returned as frames in the cells.
//
// Package cell refuses: other systems than Linux (it looks into /proc), and to
// guess what a broken cell might mean.
package cell
