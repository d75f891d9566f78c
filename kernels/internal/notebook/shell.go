package notebook

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gaiden/kernels/internal/cell/process"
)

// shell runs a shell command. A command that fails is no error of the cell, as
// in GoNB and IPython: what it did is said, and the cell continues.
func (x *execution) shell(ctx context.Context, dir, text string) error {
	path := "/bin/bash"
	if _, err := os.Stat(path); err != nil {
		path = "/bin/sh"
	}
	exit, err := x.program(ctx, dir, nil, path, "-c", text)
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		x.stream("stderr")([]byte(exit.String() + "\n"))
	}
	return nil
}

// program runs a program that is no cell, with the cell's streams.
func (x *execution) program(ctx context.Context, dir string, input []byte, name string, args ...string) (process.Exit, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return process.Exit{}, err
	}
	command := process.Command{
		Path:   path,
		Args:   args,
		Env:    x.n.environ(),
		Dir:    dir,
		Mark:   x.n.nextMark(),
		Stdout: x.stream("stdout"),
		Stderr: x.stream("stderr"),
		Input:  input,
	}
	if x.req.AllowStdin && input == nil {
		command.Ask = x.ask
	}
	exit, err := command.Run(ctx)
	if err == nil && exit.Interrupted {
		err = context.Canceled
	}
	return exit, err
}

// expand replaces ~ and environment variables in a file name, and makes it
// relative to the notebook's directory.
func (n *Notebook) expand(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	variable := func(name string) string {
		value, _ := n.getenv(name)
		return value
	}
	if home := variable("HOME"); home != "" && (name == "~" || strings.HasPrefix(name, "~/")) {
		name = home + name[1:]
	}
	name = os.Expand(name, variable)
	if !filepath.IsAbs(name) {
		name = filepath.Join(n.Dir, name)
	}
	return name
}
