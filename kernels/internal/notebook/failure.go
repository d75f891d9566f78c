package notebook

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/cell/process"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/magic"
)

// The names of errors that front ends and tools see (ename).
const (
	nameFailed    = "Error" // that a call has returned
	nameBuild     = "BuildError"
	namePanic     = "Panic"
	nameExit      = "ExitStatus"
	nameInterrupt = "Interrupted"
	nameMagic     = "MagicError"
	nameKernel    = "KernelError"
	nameDevice    = "DeviceError"
	nameWidget    = "WidgetError"
)

// A panicError is a program's panic.
type panicError struct {
	*process.Panic
	program *keep.Program
	cause   error // what Ended knows of it, nil if nothing
}

func (e *panicError) Error() string { return e.Message }
func (e *panicError) Unwrap() error { return e.cause }

// An exitError is a program that ended with a status other than 0.
type exitError struct{ exit process.Exit }

func (e *exitError) Error() string { return e.exit.String() }

// Hint says who ends a program that nobody has stopped.
func (e *exitError) Hint() string {
	if e.exit.Signal == syscall.SIGKILL {
		return "it was killed from outside; the system does that to the largest program when memory runs out"
	}
	return ""
}

// A lateError is what came to light after the program had ended.
type lateError struct{ err error }

func (e *lateError) Error() string { return e.err.Error() }
func (e *lateError) Unwrap() error { return e.err }

// A commandError says which command failed.
type commandError struct {
	command magic.Command
	err     error
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// failure makes of an error what front ends show: its kind, its text, and a
// traceback that can be read without looking at either.
func (n *Notebook) failure(err error) *jupyter.Error {
	var (
		build   *parse.BuildError
		crash   *panicError
		exit    *exitError
		command *commandError
		unknown *magic.UnknownError
		wrong   *magic.ArgumentError
		late    *lateError
		alone   *widgetError
	)
	e := &jupyter.Error{Value: err.Error()}
	var details string
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Name, e.Value = nameInterrupt, "the cell was stopped"
	case errors.As(err, &build):
		e.Name, e.Value = nameBuild, build.Summary()
		if len(build.Diagnostics) > 1 || strings.Contains(build.Error(), "\n") {
			e.Traceback = []string{paint(nameBuild) + ": " + build.Error()}
		}
	case errors.As(err, &crash):
		e.Name, e.Value = namePanic, crash.Message
		if crash.Failed {
			e.Name = nameFailed
		}
		details = crash.Traceback(crash.program.Line)
	case errors.As(err, &exit):
		e.Name = nameExit
	case errors.As(err, &late):
		e.Name = nameDevice
	case errors.As(err, &alone):
		e.Name = nameWidget
	case errors.As(err, &unknown), errors.As(err, &wrong), errors.As(err, &command):
		e.Name = nameMagic
	default:
		e.Name = nameKernel
	}
	if e.Traceback == nil {
		e.Traceback = []string{paint(e.Name) + ": " + e.Value}
	}
	if details != "" {
		e.Traceback = append(e.Traceback, strings.Split(details, "\n")...)
	}
	if strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		e.Traceback = append(e.Traceback, "    make room on the disk that holds it and run the cell again; go clean -cache removes what Go can recompile")
		if n.builder != nil { // the notebook is open
			e.Traceback = append(e.Traceback, "    cells are built in "+filepath.Dir(n.module.Dir)+" and kept in "+n.builder.Store.Dir+", which may be emptied")
		}
	}
	if hint := hintOf(err); build == nil && hint != "" {
		e.Traceback = append(e.Traceback, "    "+hint)
	}
	if crash != nil && !crash.Failed {
		e.Traceback = append(e.Traceback, "%tb shows the full traceback")
	}
	return e
}

// hintOf is the next step that an error knows, or one that it wraps, "" if none
// does.
func hintOf(err error) string {
	if e, is := err.(interface{ Hint() string }); is && e.Hint() != "" {
		return e.Hint()
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return hintOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := hintOf(one); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// paint makes the name of an error red, as front ends expect it.
func paint(name string) string { return fmt.Sprintf("\x1b[31m%s\x1b[0m", name) }
