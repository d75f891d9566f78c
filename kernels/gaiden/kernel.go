package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/linker"
	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// cellPackages are what cells import most: their compiled form is made ready
// when the kernel is installed and when it starts.
var cellPackages = []string{"fmt", "time", "math", "os", "strings", "sort", "context",
	"github.com/gomlx/gomlx/core/graph", "github.com/gomlx/gomlx/core/tensors", "github.com/gomlx/gomlx/ml/model", "github.com/gomlx/compute", "github.com/gomlx/compute/dtypes", "github.com/gomlx/compute/shapes",
	"github.com/janpfeifer/gonb/gonbui",
	"gaiden/lib/session", "gaiden/lib/models", "gaiden/lib/fit", "gaiden/lib/data", "gaiden/lib/datasets", "gaiden/lib/report", "gaiden/lib/timing", "gaiden/lib/sysinfo"}

// cellCache is where what cells are made of is kept across kernels.
func cellCache() string { return filepath.Join(wire.CacheDir(), "cells") }

// newNotebook is the interpreter of one kernel.
func newNotebook() *notebook.Notebook {
	n := &notebook.Notebook{Library: filepath.Join(wire.DataDir(), "src"), Cache: cellCache(), Linkers: cellCache(), Version: session.Version,
		Ended: (&aftercare{meter: meter()}).ended, Named: sessionNames, Number: session.CellEnv, Code: session.CodeEnv,
		Follows: []string{"GAIDEN_SPACE", "GAIDEN_SOCKET"},
		Log:     newLog(os.Stderr), Tags: []string{"noxla"}, // XLA is in the session, not in the cell
		Companions: map[string]string{
			"github.com/gomlx/compute":                "gaiden/lib/session", // compute.New returns the session, which registers itself
			"github.com/gomlx/gomlx/backends/default": "gaiden/lib/session/gomlxdefault",
			cell.TracedPath:                           cell.TracePath,
			"gaiden/lib/fit":                          "gaiden/lib/report", // shows training while it runs
		}}
	if path := filepath.Join(wire.DataDir(), "bin", "gopls"); exists(path) {
		n.Gopls = path
	}
	n.Delve = delve()
	n.Trusted = []string{n.Library, filepath.Join(wire.DataDir(), "bin"), n.Linkers}
	n.Magics = slices.Concat(sessionMagics(), timingMagics(n), runsMagics(n), notebook.Magics(n))
	return n
}

// delve is the program that debugs cells, "" if it is not there: where gaiden keeps its
// programs, or in PATH.
func delve() string {
	if path := filepath.Join(wire.DataDir(), "bin", "dlv"); exists(path) {
		return path
	}
	path, _ := exec.LookPath("dlv")
	return path
}

// newLog is the kernel's log: Jupyter shows it where the server was started.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serverFile is what a Jupyter server calls the connection file of a kernel: by the
// id that its pages know the kernel by. Others (jupyter console) take a number.
var serverFile = regexp.MustCompile(`^kernel-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json$`)

// getReady fetches and compiles what cells need in the background, where gaiden install
// has not; an error comes back with the first cell that needs what is missing.
func getReady(ctx context.Context, n *notebook.Notebook) {
	ready := make(chan struct{})
	n.Waiting = func(ctx context.Context, say func(string)) { explainWait(ctx, ready, 10*time.Second, say) }
	go func() {
		_ = download(n.Library)
		_ = n.Warm(ctx, cellPackages...)
		close(ready)
		makeLinker(ctx, n)
	}()
}

// explainWait says why a cell has not started after some time, if the packages are not
// ready by then: the first cell after pip install waits for minutes.
func explainWait(ctx context.Context, ready <-chan struct{}, after time.Duration, say func(string)) {
	select {
	case <-ctx.Done():
	case <-ready:
	case <-time.After(after):
		say("preparing the packages that cells use: after an installation or an upgrade, Go compiles them once, which takes up to three minutes")
	}
}

// makeLinker builds the linker for cells if there is none for this Go: for the next kernel,
// since this one has looked for it.
func makeLinker(ctx context.Context, n *notebook.Notebook) {
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return
	}
	if made, err := linker.Find(n.Linkers, strings.TrimSpace(string(version))); made == "" && err == nil {
		_, _ = linker.Make(ctx, "go", n.Linkers)
	}
}

func kernelMain(args []string, _, stderr io.Writer) error {
	f := newFlags("kernel", "CONNECTION_FILE", stderr)
	alone := f.Bool("alone", false, "live on when the process that started the kernel has gone")
	if err := parseFlags(f, args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		fmt.Fprintln(stderr, "gaiden kernel: want the connection file that Jupyter makes; to open a notebook: scripts/run lab")
		return errUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n := newNotebook()
	n.Welcome = renamed(filepath.Join(wire.StateDir(), "notebooks.json"), os.Getenv("JPY_SESSION_NAME"))
	if m := serverFile.FindStringSubmatch(filepath.Base(f.Arg(0))); m != nil {
		n.Kernel = m[1]
	}
	getReady(ctx, n)
	return jupyter.Run(ctx, f.Arg(0), n, jupyter.Options{
		History: filepath.Join(wire.StateDir(), "history.json"), WithParent: !*alone,
		Log: newLog(stderr)})
}
