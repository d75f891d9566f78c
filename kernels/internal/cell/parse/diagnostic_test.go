package parse

import (
	"errors"
	"testing"
)

// TestBuildError: an error shows the line, a caret, the hint and how many more there are.
func TestBuildError(t *testing.T) {
	var err error = &BuildError{Diagnostics: []Diagnostic{{Cell: 2, Line: 1, Column: 1, Message: "m", Text: "t", Hint: "h"}}, Dropped: 3}
	if got, want := err.Error(), "cell 2, line 1: m\n    1 | t\n      | ^\n    h\nand 3 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if errors.Unwrap(err) != nil {
		t.Error("a BuildError hides another error, want none")
	}
}
