package build

import (
	"errors"
	"fmt"
	"strings"

	"gaiden/kernels/internal/cell/parse"
)

// An ImportError reports a package that a cell cannot import.
type ImportError struct {
	Path   string
	Reason string
	Needs  bool // a module has to be added that provides it

	via  string // the requested package, which needs it
	hint string // after it was tried
	inC  bool   // it has files in C
}

func (e *ImportError) Error() string {
	return fmt.Sprintf("cell: import %q: %s", e.Path, e.Reason)
}

func (e *ImportError) Hint() string {
	if e.hint != "" {
		return e.hint
	}
	if e.Needs {
		return fmt.Sprintf("%%require %s@VERSION adds it (as does !*go get %s@VERSION)", e.Path, e.Path)
	}
	return ""
}

// foreign returns the first path that is not of the standard library.
func foreign(paths []string) string {
	for _, p := range paths {
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			return p
		}
	}
	return paths[0]
}

// importProblem puts the go command's words into ours.
func importProblem(path, text string) *ImportError {
	text = strings.TrimSpace(text)
	e := &ImportError{Path: path, Reason: text}
	first, rest, _ := strings.Cut(text, "\n")
	switch {
	case strings.Contains(first, "no required module provides package"),
		strings.Contains(first, "cannot find module providing package"),
		strings.Contains(first, "is replaced but not required"):
		e.Reason, e.Needs = "no module of this notebook provides it", true
	case strings.Contains(first, "is not in std"):
		e.Reason = noSuchStandard
	case strings.HasPrefix(first, "# "):
		e.Reason = "it does not compile:\n" + rest
	case strings.Contains(first, "missing go.sum entry"):
		e.Reason, e.Needs = "its module is not in go.sum", true
	case notHere.MatchString(first):
		e.Reason, e.Needs = "its module is not on this machine", true
	case strings.Contains(first, "build constraints exclude all Go files"):
		e.Reason = "none of its files is for this machine"
	}
	return e
}

// Blame puts an import error at the line of the import that it is about.
func Blame(err error, imports []*parse.Import) error {
	var ie *ImportError
	if !errors.As(err, &ie) {
		return err
	}
	for _, im := range imports {
		if im.Path != ie.Path && im.Path != ie.via {
			continue
		}
		d := parse.Diagnostic{Cell: im.Cell, Line: im.Line, Column: im.Column,
			Message: fmt.Sprintf("import %q: %s", ie.Path, ie.Reason), Hint: ie.Hint()}
		d.Text = parse.LineOf(im.Source, im.Line)
		return &importFailure{parse.NewBuildError([]parse.Diagnostic{d}), ie}
	}
	return err
}

// An importFailure is a BuildError that is an ImportError, too, for those who
// want to fetch what is missing.
type importFailure struct {
	*parse.BuildError
	cause *ImportError
}

func (e *importFailure) Unwrap() []error { return []error{e.BuildError, e.cause} }

// NotFetched adds to an error about an import what was tried to fetch its module,
// and why that has failed; with failed nil the error is as it was.
func NotFetched(err, failed error) error {
	var missing *ImportError
	if failed == nil || !errors.As(err, &missing) {
		return err
	}
	tried := *missing
	tried.Reason += "\n" + strings.TrimPrefix(failed.Error(), "cell: ")
	var hint interface{ Hint() string }
	if errors.As(failed, &hint) {
		tried.hint = hint.Hint()
	}
	var at *importFailure
	if !errors.As(err, &at) {
		return &tried
	}
	d := at.Diagnostics[0]
	d.Message, d.Hint = fmt.Sprintf("import %q: %s", tried.Path, tried.Reason), tried.Hint()
	return &importFailure{parse.NewBuildError([]parse.Diagnostic{d}), &tried}
}
