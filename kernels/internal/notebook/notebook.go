package notebook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/complete"
	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/process"
	"gaiden/kernels/internal/debugger"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/magic"
	"gaiden/kernels/internal/widget"
	"gaiden/lib/engine/wire"
)

// A Notebook runs the cells of one notebook. It implements jupyter.Interpreter.
// The fields are set before the first use; the zero value works where Go is
// installed, but knows no library.
type Notebook struct {
	Library string // source tree of the library that cells import; "" = none
	Cache   string // kept across kernels: lists of packages, built cells; "" = nothing is kept
	Go      string // the go command; "" = go in PATH
	Gopls   string // gopls; "" = where it is found
	Delve   string // the program dlv, which debugs cells; "" = they cannot be debugged
	Dir     string // the notebook's directory; "" = the current one
	Version string // of the kernel
	Kernel  string // the id by which the Jupyter server knows the kernel; "" = widgets have no page
	Linkers string // where package linker's Make has put a linker; "" = the toolchain's

	// Tags are build tags for what cells import; Companions are packages that a cell
	// imports, too, if it imports that of the key.
	Tags       []string
	Companions map[string]string

	// Trusted are files and directories of programs, or of their source, which only
	// this user and root may be able to change: else no cell runs. What is not there
	// is not looked at.
	Trusted []string

	// Log is told what in the cache was damaged, or could not be kept; nil = nobody is.
	Log *slog.Logger

	// Magics are those that cells may use; nil = Magics(n). A program adds
	// rows of its own.
	Magics magic.Table

	// Number names the environment variable that tells a program its cell's
	// number; "" = none does.
	Number string

	// Code names the environment variable that tells a program a file with its cell's
	// text; "" = none is told.
	Code string

	// Named lists the names that the function or method of that name takes in
	// quotes, or the magic: Tab completes them. nil = none are known.
	Named func(ctx context.Context, call string) []string

	// Follows are environment variables that this process shares with the cells: what
	// magics do and what cells do is for one notebook and one session, whoever has set them.
	Follows []string

	Welcome string // shown in the first cell that runs; "" = nothing is

	// Waiting runs while a cell is built, and can say what that waits for. Its context
	// ends with the building. nil = nothing is said.
	Waiting func(ctx context.Context, say func(note string))

	// Ended is called after each cell's program, also one that was stopped:
	// what the program has left to be done elsewhere can be looked after there.
	// Its notes are shown; its error is the cell's, if the cell has none of its
	// own, else a note. When it is what the program has died of, the cell's error
	// has its hint: the runtime does not print those. nil = nothing is done.
	Ended func(ctx context.Context, e Ending) (notes []string, err error)

	once     sync.Once
	failed   error // of once
	welcomed sync.Once
	parts

	mu sync.Mutex // protects following
	memories
}

// parts are what a notebook's cells become programs with, and run in.
type parts struct {
	temp     *build.TempDir
	guard    *process.Guard
	module   *build.Module
	memory   *keep.Memory
	composer *keep.Composer
	building sync.Mutex // a program is composed and built: cells of subshells come at the same time
	builder  *build.Builder
	gopls    *complete.Gopls
	debugger *debugger.Debugger
	asking   atomic.Bool // gopls is at work on a completion
	library  bool        // Library was there at the start
	line     widget.Line
	progress progress
	mark     string
}

// memories are what cells and magics have left for later ones.
type memories struct {
	env       map[string]*string // set by %env and by cells; nil = unset
	followed  map[string]*string // those of Follows that have changed, as they were at first
	autoget   bool
	showCost  bool
	cost      build.Cost        // of the cell that runs, or ran last
	lastCost  string            // of the last one with Go code
	traceback string            // of the last panic, for %tb
	before    string            // the directory before %cd, for %cd -
	shown     map[string]string // display ids, and the cell that showed each first
	runs      int
	closed    bool
}

// An Ending describes a cell's program that has ended.
type Ending struct {
	PID         int      // the process, and the group of all that it started
	Interrupted bool     // it was stopped
	Imports     []string // the packages that the cell imports, and those of earlier cells that it needs
	Panic       string   // what it died of, "" if it did not panic
	// Spent takes a line that says what the program has cost there, for %cost.
	Spent func(line string)
}

// open makes the temporary directory and everything in it, once.
func (n *Notebook) open() error {
	n.once.Do(func() { n.failed = n.setUp() })
	return n.failed
}

func (n *Notebook) setUp() error {
	var err error
	for _, path := range n.Trusted {
		var denied *wire.Error
		if err := wire.TrustedPath(path); errors.As(err, &denied) {
			return err
		}
	}
	if n.temp, err = build.NewTempDir(); err != nil {
		return fmt.Errorf("notebook: %w", err)
	}
	temp := n.temp.Path
	n.mark = filepath.Base(temp)
	if n.guard, err = process.NewGuard(n.mark, temp); err != nil {
		n.temp.Close()
		return fmt.Errorf("notebook: %w", err)
	}
	if n.Dir == "" {
		if n.Dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("notebook: %w", err)
		}
	}
	cache := cmp.Or(n.Cache, filepath.Join(temp, "cache"))
	n.module = &build.Module{Dir: filepath.Join(temp, "cells"), Library: n.Library, Cache: cache, Go: n.Go, Log: n.Log, Tags: n.Tags, Companions: n.Companions}
	n.memory = &keep.Memory{}
	n.composer = &keep.Composer{Module: n.module, Memory: n.memory}
	n.builder = &build.Builder{Module: n.module, Store: &build.Store{Dir: filepath.Join(cache, "binaries"), Log: n.Log}, Dir: n.Dir, Network: true, Linkers: n.Linkers, Log: n.Log}
	n.gopls = &complete.Gopls{Path: n.Gopls, Module: n.module, Mark: n.mark + ".gopls"}
	n.debugger = &debugger.Debugger{Delve: n.Delve, Temp: temp, Variables: n.inspected}
	n.line.Kernel = n.Kernel
	n.library = n.hasLibrary()
	n.followed = map[string]*string{}
	n.env, n.shown, n.autoget = map[string]*string{}, map[string]string{}, true
	return nil
}

// libraryGone reports that the library that cells are compiled with was there and is not:
// another version was installed, or this one removed, while the kernel ran.
func (n *Notebook) libraryGone() error {
	if !n.library || n.hasLibrary() {
		return nil
	}
	return wire.Errorf(wire.Unavailable, "notebook: the library of this kernel (version %s) is no longer at %s: another version was installed, or this one removed", n.Version, n.Library).
		WithHint("restart the kernel; the session keeps your arrays")
}

func (n *Notebook) hasLibrary() bool {
	_, err := os.Stat(filepath.Join(n.Library, "go.mod"))
	return n.Library != "" && !errors.Is(err, os.ErrNotExist)
}

// Warm does what the first cell would have to wait for: it finds Go and the
// packages. It is meant to be called in the background when a kernel starts.
func (n *Notebook) Warm(ctx context.Context, packages ...string) error {
	if err := n.open(); err != nil {
		return err
	}
	n.module.Names(ctx)
	if err := n.composer.Warm(ctx, packages...); err != nil {
		return err
	}
	n.builder.Ahead("fmt")
	return nil
}

// Cost says where the time of the last cell went.
func (n *Notebook) Cost() build.Cost {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cost
}

func (n *Notebook) table() magic.Table {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Magics == nil {
		n.Magics = Magics(n)
	}
	return n.Magics
}

// Directory returns where cells and commands run.
func (n *Notebook) Directory() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Dir
}

// nextMark returns the mark for what the cell that runs now starts.
func (n *Notebook) nextMark() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	return fmt.Sprintf("%s.%d", n.mark, n.runs)
}

// Shutdown ends gopls and everything that cells left running, and removes the
// temporary directory.
func (n *Notebook) Shutdown(restart bool) {
	n.once.Do(func() { n.failed = os.ErrClosed }) // nothing was started, and nothing will be
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if n.failed != nil || closed {
		return
	}
	n.gopls.Close()
	n.builder.Close()
	n.guard.Close()
	n.temp.Close()
}

// Info describes the kernel to front ends.
func (n *Notebook) Info() jupyter.LanguageInfo {
	version := strings.TrimPrefix(runtime.Version(), "go")
	return jupyter.LanguageInfo{
		Implementation:        "gaiden",
		ImplementationVersion: cmp.Or(n.Version, "0"),
		Banner:                "Gaiden " + cmp.Or(n.Version, "(development)") + ": Go " + version + " in cells. %help lists what is not Go.",
		Language: jupyter.Language{
			Name:          "go",
			Version:       version,
			MIMEType:      "text/x-go",
			FileExtension: ".go",
			PygmentsLexer: "go",
			CodeMirror:    "go",
		},
		HelpLinks: []jupyter.HelpLink{
			{Text: "Go", URL: "https://go.dev/doc/"},
			{Text: "Go packages", URL: "https://pkg.go.dev/std"},
			{Text: "GoMLX", URL: "https://pkg.go.dev/github.com/gomlx/gomlx"},
		},
	}
}
