// Command gaiden is a Jupyter kernel for deep learning in Go, and the device
// session that its cells train in.
//
//	gaiden session start|stop|status|reset    the process that owns the devices
//	gaiden kernel CONNECTION_FILE             one notebook's kernel; Jupyter runs it
//	gaiden install                            make the kernel known to Jupyter
//	gaiden run NOTEBOOK                       execute a notebook without Jupyter
//	gaiden mcp                                offer a notebook to coding agents
//	gaiden lsp                                show errors in cells while they are typed
//	gaiden fmt NOTEBOOK                       format a notebook's cells
//	gaiden info [-json]                       machine, devices, versions
//	gaiden doctor                             check what can be wrong, and say what to do
//	gaiden serve DIRECTORY                    answer HTTP requests with an exported net
//	gaiden tune                               find the fastest kernels for the nets that were trained
//
// Every command says what it takes with -h. Errors are one line, what to do
// next is a second one, and the exit status is 1; wrong use exits with 2.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// command is one word of the command line.
type command struct {
	run  func(args []string, stdout, stderr io.Writer) error
	help string
}

var commands = map[string]command{
	"kernel":  {kernelMain, "one notebook's kernel; Jupyter runs it"},
	"install": {installMain, "make the kernel known to Jupyter"},
	"run":     {runMain, "execute a notebook without Jupyter and without Python"},
	"fmt":     {fmtMain, "format the cells of notebooks, as gofmt does"},
	"session": {sessionMain, "start|stop|status|reset: the process that owns the devices"},
	"info":    {infoMain, "machine, devices, versions"},
	"doctor":  {doctorMain, "what can be wrong, and what to do about it"},
	"mcp":     {mcpMain, "offer a notebook to coding agents: a server of the Model Context Protocol"},
	"lsp":     {lspMain, "show errors in cells while they are typed: a language server for jupyterlab-lsp"},
	"serve":   {serveMain, "answer HTTP requests with a net that net.Export has written"},
	"tune":    {tuneMain, "find the fastest kernels for the nets that were trained on a GPU; Fit begins it"},
	"version": {versionMain, "the version of this program"},
}

// errUsage is returned after usage has been printed.
var errUsage = errors.New("usage")

func main() {
	if os.Getenv("GAIDEN_SOCKET") != "" { // cells and the session may be in other directories
		os.Setenv("GAIDEN_SOCKET", wire.SocketPath())
	}
	if os.Getenv("HOME") == "" { // the go command wants it
		os.Setenv("HOME", wire.HomeDir())
	}
	if self, err := os.Executable(); err == nil {
		enterPackage(self)
	}
	os.Exit(gaiden(os.Args[1:], os.Stdout, os.Stderr))
}

// gaiden is the whole program, so that tests call it in process.
func gaiden(args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == "help" {
		args = []string{args[1], "-h"}
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(stdout)
		return 0
	}
	if args[0] == "-version" || args[0] == "--version" {
		args[0] = "version"
	}
	c, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "gaiden: no command %q\n", args[0])
		usage(stderr)
		return 2
	}
	err := c.run(args[1:], stdout, stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(stderr, "gaiden: %v\n", err)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintln(stderr, hint)
	}
	return 1
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: gaiden COMMAND [ARGUMENTS]")
	for _, n := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(w, "  %-8s %s\n", n, commands[n].help)
	}
}

// hintOf is what an error says to do next, "" if it says nothing.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return strings.TrimSpace(h.Hint())
	}
	return ""
}

// newFlags is a flag set whose errors are ours to print.
func newFlags(name, args string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("gaiden "+name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: gaiden %s %s\n", name, args)
		f.PrintDefaults()
	}
	return f
}

// parseFlags parses args; wrong ones have been reported when it fails.
func parseFlags(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errUsage
	}
	return err
}

// parseAll is parseFlags for a command that takes no words: what one was meant to spare
// or to add is not guessed.
func parseAll(f *flag.FlagSet, args []string) error {
	if err := parseFlags(f, args); err != nil {
		return err
	}
	return nothing(f.Name(), f.Args(), f.Output())
}

// nothing refuses words after a command that takes none.
func nothing(command string, words []string, stderr io.Writer) error {
	if len(words) == 0 {
		return nil
	}
	fmt.Fprintf(stderr, "%s: got %.80q after it, want nothing\n", command, strings.Join(words, " "))
	return errUsage
}

func versionMain(args []string, stdout, stderr io.Writer) error {
	if err := parseAll(newFlags("version", "", stderr), args); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, "gaiden", session.Version)
	return err
}
