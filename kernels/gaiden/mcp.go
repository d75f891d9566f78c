package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/toolserver"
	"gaiden/lib/session"
	"gaiden/notebooks/pages"
)

// mcpMain serves a notebook to a program that speaks the Model Context Protocol, on
// standard input and output.
func mcpMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("mcp", "[flags]", stderr)
	book := f.String("notebook", "", "notebook `file` whose arrays are used, also while it is open in Jupyter; default: arrays of the working directory")
	manual := f.Bool("manual", false, "print the manual as one Markdown text for language models, and end")
	if err := parseAll(f, args); err != nil {
		return err
	}
	if *manual {
		_, err := io.WriteString(stdout, pages.Manual())
		return err
	}
	name := *book
	if name == "" {
		name = "mcp"
	} else if info, err := os.Stat(name); err != nil || info.IsDir() || filepath.Ext(name) != ".ipynb" {
		return fmt.Errorf("mcp: -notebook: got %q, want a notebook file that is there", name)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	if *book != "" {
		os.Unsetenv("GAIDEN_SPACE") // which would name other arrays
	}
	if os.Getenv("JPY_SESSION_NAME") == "" || *book != "" {
		os.Setenv("JPY_SESSION_NAME", path)
	}
	if coloured(stdout) {
		fmt.Fprintln(stderr, "gaiden mcp: this is for programs, which write requests to its standard input; see notebooks/pages/agents.md. Control-D ends it.")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := newNotebook()
	defer n.Shutdown(false)
	getReady(ctx, n)
	s := toolserver.Server{Notebook: n, Library: n.Library, Version: session.Version}
	return s.Run(ctx, &mcp.IOTransport{Reader: os.Stdin, Writer: nopCloser{stdout}})
}

// A nopCloser is a writer that others close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
