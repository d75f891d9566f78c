package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"gaiden/kernels/internal/cell/complete"
)

// lspMain is a language server on standard input and output, which jupyterlab-lsp starts.
func lspMain(args []string, stdout, stderr io.Writer) error {
	if err := parseAll(newFlags("lsp", "", stderr), args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := newNotebook()
	defer n.Shutdown(false)
	served := make(chan error, 1)
	go func() { served <- complete.Serve(ctx, os.Stdin, stdout, n.Check) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done(): // it may wait for its input
		return nil
	}
}
