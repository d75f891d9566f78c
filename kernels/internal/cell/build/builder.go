// Package build compiles and links the programs of cells, and knows which packages
// they may import: see [Builder] and [Module].
//
// # How it is built
//
// In the cheapest way that is correct; [Cost] says in which. A cell that
// only declares is checked, not built. One that was built before is not built
// again. Others go through compiler and linker alone, with packages that the go
// command compiled once. cgo, tests, flags for go build and Go files of the
// user's next to the cells are left to the go command. Nothing but [Module.Get]
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
package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/version"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/linker"
	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
)

// A Builder makes binaries of programs in the cheapest way that is correct: an
// unchanged program is not built; others go through compiler and linker alone,
// without the go command; cgo, tests and programs with files of the user's
// next to them are the go command's.
type Builder struct {
	Module *Module
	Store  *Store   // nil = keep nothing
	Flags  []string // for go build (%goflags); with flags every program takes that road
	Dir    string   // the notebook's directory, where embedded files are found; "" = the current one

	// Network lets the go command ask the module proxy where go.mod lacks
	// what a test or a cgo program needs.
	Network bool

	// Linkers is where package linker's Make has put a linker that can load
	// packages ahead; "" = the toolchain's own links.
	Linkers string

	// Debug makes programs for a debugger: variables of the cells can be read at every
	// line, and a program waits before its first one while ReadyEnv names a file that is
	// not there.
	Debug bool

	Log *slog.Logger // is told what was damaged; nil = nobody is

	mu       sync.Mutex
	linker   *linker.Linker
	imported [][]string // by the programs that were linked last
	built    int        // programs outside of the store
	closed   bool
	giveUp   context.CancelFunc // ends making
	making   sync.WaitGroup     // of a linker where one was damaged
}

// A buildable is the source of a program and what is known of it.
type Program struct {
	Source  string   // the main package, with //line directives that name the cells
	Imports []string // paths of all packages that Source imports, sorted
	Test    bool     // it is a test binary

	// Direct is false when compiler and linker alone cannot build it (cgo,
	// files next to the cell): the go command must.
	Direct bool

	Cell  int      // the cell that it is made for
	Text  string   // that cell's text
	Cells []int    // cells in the order in which Source names them
	Embed []string // patterns of //go:embed directives
	Cgo   bool     // it is in part written in C
}

// The files that a build writes into the module's directory.
const (
	mainFile  = "main.go"
	testFile  = "main_test.go"
	debugFile = "gaiden_debug.go" // before main.go: its variables come first
)

var written = []string{mainFile, testFile, debugFile}

// ReadyEnv names the environment variable with the file that a program waits for.
const ReadyEnv = "GAIDEN_DEBUG_READY"

const debugSource = `package main

import (
	"os"
	"time"
)

var _ = func() bool {
	for path := os.Getenv("` + ReadyEnv + `"); path != ""; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	return true
}()
`

// Build builds the program. Errors are as for Compose.
func (b *Builder) Build(ctx context.Context, p *Program) (bin *Binary, cost Cost, err error) {
	moduleKey, err := b.Module.Key(ctx)
	if err != nil {
		return nil, cost, err
	}
	dir := cmp.Or(b.Dir, ".")
	embed, stamp, err := embedFiles(dir, p.Embed)
	if err != nil {
		return nil, cost, parse.NewBuildError([]parse.Diagnostic{{Cell: p.Cell, Message: strings.TrimPrefix(err.Error(), "cell: ")}})
	}
	debug := b.Debug && !p.Test
	direct := p.Direct && len(b.Flags) == 0 && !debug
	h := sha256.New()
	fmt.Fprintln(h, moduleKey, p.Test, b.Flags, stamp, p.neutral())
	if debug {
		fmt.Fprintln(h, "debug", p.Cells) // a debugger knows the cells by their numbers
	}
	key := fmt.Sprintf("%x", h.Sum(nil)[:12])
	file, err := b.write(p, debug)
	if err != nil {
		return nil, cost, err
	}
	keep := p.Direct || p.Test && len(b.Module.UserFiles()) == 0
	if keep {
		if bin := b.Store.get(key, p.Cells); bin != nil {
			cost.Road = "cached"
			return bin, cost, nil
		}
	}
	out, err := b.outputPath()
	if err != nil {
		return nil, cost, err
	}
	build := func() error {
		if direct {
			cost.Road = "direct"
			return b.direct(ctx, p, file, embed, out, &cost)
		}
		return b.goBuild(ctx, p, out, &cost)
	}
	err = build()
	if why := staleReason(err); why != "" {
		if err := b.Module.Relist(ctx, why); err != nil {
			return nil, cost, err
		}
		err = build()
	}
	if err != nil {
		os.Remove(out)
		return nil, cost, err
	}
	if !keep {
		return &Binary{Path: out, was: p.Cells, now: p.Cells}, cost, nil
	}
	return b.Store.put(key, out, p.Cells), cost, nil
}

// staleReason returns what in err only a stale or damaged cache can cause, "" if
// there is no such thing.
func staleReason(err error) string {
	var be *parse.BuildError
	if !errors.As(err, &be) {
		return ""
	}
	for _, d := range be.Diagnostics {
		if staleCache.MatchString(d.Message) {
			first, _, _ := strings.Cut(d.Message, "\n")
			return first
		}
	}
	return ""
}

// outputPath returns a new name for the program: in the store, where files may be
// executed, else in the module's directory.
func (b *Builder) outputPath() (string, error) {
	if b.Store != nil && b.Store.Dir != "" {
		file, err := b.Store.scratchPath()
		var denied *wire.Error
		if err == nil || errors.As(err, &denied) {
			return file, err
		}
		logger(b.Store.Log).Warn("the cache of cells' programs cannot be used", "error", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.built++
	file := func(n int) string { return filepath.Join(b.Module.Dir, ".gaiden", "cell-"+strconv.Itoa(n)) }
	os.Remove(file(b.built - 8))
	return file(b.built), nil
}

// neutral returns the source without the cells' numbers, so that a cell that
// is run again is recognised.
func (p *Program) neutral() string {
	var pairs []string
	for i, id := range p.Cells {
		neutral := "cell#" + strconv.Itoa(i) + ":"
		pairs = append(pairs, "//line "+parse.FileName(id)+":", "//line "+neutral, "/*line "+parse.FileName(id)+":", "/*line "+neutral)
	}
	return strings.NewReplacer(pairs...).Replace(p.Source)
}

// write puts the program into the module's directory, where users and their
// tools (a debugger) find it, and removes the one before.
func (b *Builder) write(p *Program, debug bool) (name string, err error) {
	name, other := mainFile, testFile
	if p.Test {
		name, other = other, name
	}
	os.Remove(filepath.Join(b.Module.Dir, other))
	os.Remove(filepath.Join(b.Module.Dir, debugFile))
	if debug {
		if err := os.WriteFile(filepath.Join(b.Module.Dir, debugFile), []byte(debugSource), 0o600); err != nil {
			return "", fmt.Errorf("cell: build: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.Module.Dir, name), []byte(p.Source), 0o600); err != nil {
		return "", fmt.Errorf("cell: build: %w", err)
	}
	return name, nil
}

// direct runs compiler and linker.
func (b *Builder) direct(ctx context.Context, p *Program, file string, embed []byte, out string, cost *Cost) error {
	m := b.Module
	config, linkConfig, err := m.importConfig()
	if err != nil {
		return fmt.Errorf("cell: build: %w", err)
	}
	object := b.object()
	m.mu.Lock()
	tools, lang := m.tool.GOTOOLDIR, version.Lang("go"+m.mod.goVersion)
	m.mu.Unlock()
	args := []string{"-p", "main", "-complete", "-pack", "-dwarf=false", "-trimpath", m.Dir, "-importcfg", config, "-o", object}
	if lang != "" {
		args = append(args, "-lang="+lang)
	}
	if embed != nil {
		name := filepath.Join(m.Dir, ".gaiden", "embedcfg")
		if err := os.WriteFile(name, embed, 0o600); err != nil {
			return fmt.Errorf("cell: build: %w", err)
		}
		args = append(args, "-embedcfg", name)
	}
	start := time.Now()
	err = b.tool(ctx, p, filepath.Join(tools, "compile"), append(args, file))
	cost.Compile = time.Since(start)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.imported = append(b.imported[max(0, len(b.imported)-recent+1):], p.Imports)
	b.mu.Unlock()
	start = time.Now()
	defer func() { cost.Link = time.Since(start) }()
	if done, err := b.ready().Link(ctx, linker.Job{Config: linkConfig, Object: object, Dir: m.Dir, Packages: p.Imports, Env: m.toolEnviron()}, out); done || err != nil {
		return err
	}
	// Symbol tables and DWARF are for debuggers; tracebacks do without.
	return b.tool(ctx, p, filepath.Join(tools, "link"),
		[]string{"-importcfg", linkConfig, "-s", "-w", "-buildmode=exe", "-o", out, object})
}

// ready returns the linker that loads packages ahead, nil if there is none.
func (b *Builder) ready() *linker.Linker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.linker == nil && b.Linkers != "" {
		b.Module.mu.Lock()
		version := b.Module.tool.GOVERSION
		b.Module.mu.Unlock()
		program, err := linker.Find(b.Linkers, version)
		if err != nil {
			logger(b.Log).Warn("the linker for cells cannot be used: Go's own, which is slower, links them until it is made again", "error", err)
		}
		b.linker = &linker.Linker{Program: program}
		if _, is := errors.AsType[*sealed.DamagedError](err); is {
			b.beginLinker()
		}
	}
	return b.linker
}

// beginLinker makes a linker where one was damaged, until Close. b.mu is held.
func (b *Builder) beginLinker() {
	if b.closed || b.giveUp != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.giveUp = cancel
	b.making.Go(func() { b.makeLinker(ctx) })
}

func (b *Builder) makeLinker(ctx context.Context) {
	path, err := linker.Make(ctx, cmp.Or(b.Module.Go, "go"), b.Linkers)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		logger(b.Log).Warn("the linker for cells is not made", "error", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.linker.Close()
	b.linker = &linker.Linker{Program: path}
	if b.closed {
		b.linker.Close()
	}
}

// recent is how many programs say what the next one will import: enough for a
// notebook that trains, plots and prints in turn, and few enough that one that
// only prints does not carry the rest along for long.
const recent = 3

// Ahead makes the next link shorter: a linker loads the given packages, and those
// that the last programs have imported, and waits. It is meant to be called when
// nothing runs whose time somebody measures.
func (b *Builder) Ahead(packages ...string) {
	b.mu.Lock()
	packages = append(packages, slices.Concat(b.imported...)...)
	b.mu.Unlock()
	packages = slices.DeleteFunc(packages, func(path string) bool { return path == "unsafe" })
	if len(packages) == 0 || len(b.Flags) > 0 {
		return
	}
	_, config, err := b.Module.importConfig()
	if err != nil {
		return // the next cell says it
	}
	slices.Sort(packages)
	b.ready().Prepare(linker.Job{Config: config, Object: b.object(), Dir: b.Module.Dir, Packages: slices.Compact(packages), Env: b.Module.toolEnviron()})
}

// Close ends what Ahead has started, and a linker's making, and waits until the store
// is on disk.
func (b *Builder) Close() {
	b.mu.Lock()
	b.closed = true
	b.linker.Close()
	if b.giveUp != nil {
		b.giveUp()
	}
	b.mu.Unlock()
	b.Store.Close()
	b.making.Wait()
}

// object is the file that the compiler writes.
func (b *Builder) object() string { return filepath.Join(b.Module.Dir, ".gaiden", "main.a") }

// tool runs compiler or linker, and makes a BuildError of their complaints.
func (b *Builder) tool(ctx context.Context, p *Program, name string, args []string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.Module.Dir
	cmd.Env = b.Module.toolEnviron()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return b.judge(ctx, p, filepath.Base(name), err, output.String())
}

// goBuild takes the go command's road.
func (b *Builder) goBuild(ctx context.Context, p *Program, out string, cost *Cost) error {
	args := []string{"build", "-ldflags=-s -w"}
	cost.Road = "go build"
	if p.Test {
		args = []string{"test", "-c", "-vet=off"}
		cost.Road = "go test"
	}
	if b.Debug && !p.Test {
		args = []string{"build", "-gcflags=-N -l"} // the cells alone: packages are compiled already
	}
	args = append(append(args, "-o", out), b.Flags...)
	if tags := b.Module.tags(b.Flags); tags != "" {
		args = append(args, strings.TrimSpace(tags))
	}
	env := append(b.Module.Environ(), "CGO_ENABLED=0")
	if p.Cgo || slices.Contains(p.Imports, "C") || slices.Contains(b.Flags, "-race") {
		env = append(env, "CGO_ENABLED=1")
	}
	start := time.Now()
	stdout, stderr, err := b.Module.run(ctx, env, append(args, ".")...)
	if said := string(stderr); err != nil && b.Network && (strings.Contains(said, "updates to go.mod needed") || strings.Contains(said, "GOPROXY=off")) {
		stdout, stderr, err = b.Module.run(ctx, append(b.Module.online(), env[len(env)-1]), append(args, ".")...)
	}
	cost.Compile = time.Since(start)
	if te, is := errors.AsType[*ToolError](err); is && !errors.Is(err, exec.ErrNotFound) {
		err = te.Err
	}
	return b.judge(ctx, p, cost.Road, err, string(stdout)+string(stderr))
}

var complaint = regexp.MustCompile(`^(?:vet: )?(.*?(?:cell\[\d+\]|[^:\s]+\.go)):(\d+)(?::(\d+))?: (.*)$`)

// judge turns the outcome of a tool into an error that names the cell's lines.
func (b *Builder) judge(ctx context.Context, p *Program, tool string, err error, output string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &ToolError{Command: tool, Err: exec.ErrNotFound, Output: err.Error()}
	}
	var all []parse.Diagnostic
	var other []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		m := complaint.FindStringSubmatch(line)
		if m == nil {
			if len(all) > 0 && strings.HasPrefix(line, "\t") {
				all[len(all)-1].Message += "\n" + line
			} else if !strings.HasPrefix(line, "# ") && line != "" {
				other = append(other, line)
			}
			continue
		}
		d := parse.Diagnostic{Message: m[4]}
		if id, ok := parse.CellOfFile(m[1]); ok {
			d.Cell = id
			d.Line, _ = strconv.Atoi(m[2])
			d.Column, _ = strconv.Atoi(m[3])
			if id == p.Cell {
				d.Text = parse.LineOf(p.Text, d.Line)
			}
		} else if filepath.Base(m[1]) != parse.GlueName {
			d.Message = filepath.Base(m[1]) + ":" + m[2] + ": " + d.Message
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		all = []parse.Diagnostic{{Cell: p.Cell, Message: tool + ": " + err.Error()}}
		if len(other) > 0 {
			all[0].Message = tool + ": " + strings.Join(other, "\n")
		}
	}
	return parse.NewBuildError(all)
}
