package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/kernels/internal/runner"
	"gaiden/kernels/internal/webpage"
	"gaiden/lib/engine/files"
	"gaiden/lib/timing/units"
)

// A running is what the arguments of gaiden run say.
type running struct {
	out            string
	timeout        time.Duration
	html, asIs     bool
	quiet          bool
	parameters     []setting
	ownName        bool // JPY_SESSION_NAME was set by the caller
	stdout, stderr io.Writer
}

// runMain executes notebooks without Jupyter and without Python: through the
// interpreter in this process. The outputs are written also when a cell fails.
func runMain(args []string, stdout, stderr io.Writer) error {
	r := running{stdout: stdout, stderr: stderr, ownName: os.Getenv("JPY_SESSION_NAME") != ""}
	f := newFlags("run", "[flags] NOTEBOOK.ipynb...", stderr)
	f.StringVar(&r.out, "o", "", "`file` to write, or a directory for all; - is standard output; default: the notebook itself")
	f.BoolVar(&r.html, "html", false, "also write an HTML page that needs no network and no JavaScript, next to the notebook")
	f.BoolVar(&r.asIs, "as-is", false, "with -html: run nothing, write the page of the outputs that are in the notebook")
	f.DurationVar(&r.timeout, "timeout", 0, "how long one cell may take; 0 is as long as it wants")
	f.Func("p", "`name=value`: run with another value of a variable of the cell with the tag parameters; may be given several times", func(s string) error {
		name, value, is := strings.Cut(s, "=")
		if !is || !token.IsIdentifier(strings.TrimSpace(name)) {
			return fmt.Errorf("got %q, want name=value", s)
		}
		r.parameters = append(r.parameters, setting{strings.TrimSpace(name), value})
		return nil
	})
	f.BoolVar(&r.quiet, "q", false, "say nothing but errors")
	paths, err := parseMixed(f, args)
	if err != nil {
		return err
	}
	if len(paths) == 0 || r.asIs && (!r.html || len(r.parameters) > 0) || r.html && r.out == "-" {
		f.Usage()
		return errUsage
	}
	if folder := strings.HasSuffix(r.out, "/") || isFolder(r.out); folder {
		if err := apart(paths); err != nil {
			return err
		}
		if err := os.MkdirAll(r.out, 0o777); err != nil {
			return fmt.Errorf("run: got -o %s, want a folder that can be written to: %w", r.out, err)
		}
	} else if len(paths) > 1 && r.out != "" {
		return fmt.Errorf("run: got %d notebooks for -o %s, want a folder", len(paths), r.out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all error
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return errors.Join(all, err)
		}
		if err := r.notebook(ctx, path); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", path, err))
		}
	}
	return all
}

// apart refuses notebooks of one name, of which one folder would keep the last.
func apart(paths []string) error {
	first := map[string]string{}
	for _, path := range paths {
		base := filepath.Base(path)
		if other, ok := first[base]; ok && filepath.Clean(other) != filepath.Clean(path) {
			return fmt.Errorf("run: got %s and %s for one folder, want notebooks of different names: one would replace the other", other, path)
		}
		first[base] = path
	}
	return nil
}

// parseMixed parses flags that may stand before and behind the other arguments,
// which it returns.
func parseMixed(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := parseFlags(f, args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// notebook runs one notebook and writes what is requested.
func (r *running) notebook(ctx context.Context, name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	data, err := readNotebook(path)
	if err != nil {
		return err
	}
	out := r.out
	switch {
	case out == "":
		out = path
	case isFolder(out):
		out = filepath.Join(out, filepath.Base(path))
	}
	if !r.asIs && out != "-" { // what cannot be kept is not worked for
		if err := files.Check(out); err != nil {
			return err
		}
	}
	if r.html {
		if err := files.Check(pageOf(out)); err != nil {
			return err
		}
	}
	var failed error
	if !r.asIs {
		if data, failed = r.execute(ctx, name, path, data); data == nil {
			return failed
		}
		if out == "-" {
			_, err = r.stdout.Write(data)
		} else {
			err = files.Write(out, data)
		}
		if err != nil {
			err = rescue(err, data)
		}
	}
	if err == nil && r.html {
		err = r.page(out, data)
	}
	return errors.Join(failed, err)
}

// rescue writes a notebook whose place has failed it elsewhere, since its cells may have
// run for hours, and adds to err where that is.
func rescue(err error, data []byte) error {
	f, failed := os.CreateTemp("", "gaiden-run-*.ipynb")
	if failed != nil {
		return err
	}
	_, failed = f.Write(data)
	if errors.Join(failed, f.Close()) != nil {
		os.Remove(f.Name())
		return err
	}
	return fmt.Errorf("%w; the notebook with its outputs is %s", err, f.Name())
}

// execute runs a notebook's cells and returns the file with their outputs; nil
// when it could not be run at all.
func (r *running) execute(ctx context.Context, name, path string, data []byte) ([]byte, error) {
	doc, err := runner.Read(data)
	if err != nil {
		return nil, err
	}
	if err := inject(doc, r.parameters); err != nil {
		return nil, err
	}
	if !r.ownName {
		os.Setenv("JPY_SESSION_NAME", path) // its arrays are the notebook's, as under Jupyter
	}
	n := newNotebook()
	n.Dir = filepath.Dir(path)
	defer n.Shutdown(false)
	run := runner.Run{Interpreter: n, Timeout: r.timeout, Progress: func(s runner.Step) {
		if s.Done && !r.quiet {
			fmt.Fprintln(r.stderr, s)
		}
	}}
	began := time.Now()
	failed := run.Execute(ctx, doc)
	written, err := doc.Bytes()
	if cell, is := errors.AsType[*runner.CellError](failed); is {
		said := strings.Join(cell.Err.Traceback, "\n")
		if !coloured(r.stderr) {
			said = webpage.Plain(said)
		}
		fmt.Fprintln(r.stderr, said)
		failed = fmt.Errorf("cell %d failed: %s", cell.Cell, cell.Err.Name)
	} else if failed == nil && err == nil && !r.quiet {
		fmt.Fprintf(r.stderr, "%s: %s\n", name, units.Clock(time.Since(began).Seconds()))
	}
	return written, errors.Join(failed, err)
}

// coloured reports whether what is written to w may hold colours: w is a terminal
// and nobody has switched them off (no-color.org).
func coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// pageOf is where the page of a notebook file is written: next to it.
func pageOf(path string) string { return strings.TrimSuffix(path, ".ipynb") + ".html" }

// page writes the page of a notebook file and says where.
func (r *running) page(path string, data []byte) error {
	text, err := webpage.Page(data, strings.TrimSuffix(filepath.Base(path), ".ipynb"))
	if err != nil {
		return err
	}
	to := pageOf(path)
	if err := files.Write(to, []byte(text)); err != nil {
		return err
	}
	if !r.quiet {
		fmt.Fprintln(r.stdout, to)
	}
	return nil
}
