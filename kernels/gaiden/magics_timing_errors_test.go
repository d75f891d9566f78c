package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gaiden/kernels/internal/jupyter"
)

// silentOutput drops what a cell shows.
type silentOutput struct{ jupyter.Output }

func (silentOutput) Stream(string, []byte)     {}
func (silentOutput) Result(jupyter.MimeBundle) {}

// TestTimedErrors: an error that timed code returns fails the cell, at the user's line and
// column, as it does without a clock.
func TestTimedErrors(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := newNotebook()
	n.Library, n.Cache, n.Linkers, n.Trusted, n.Log = filepath.Dir(string(out)), t.TempDir(), "", nil, nil
	t.Cleanup(func() { n.Shutdown(false) })
	const hint = "type lost struct{}\nfunc (lost) Error() string { return \"lost\" }\nfunc (lost) Hint() string { return \"look for it\" }\nfunc find(there bool) (int, error) { if there { return 1, nil }; return 0, lost{} }\nfunc once() error { return nil }"
	tests := []struct{ code, want string }{ // want: the traceback, empty = none
		{hint, ""},
		{"%time must(find(true))", ""},
		{"%timeit -n 1 -r 1 -q find(true)", ""},
		{"%timeit -n 1 -r 1 -q errors.New(\"x\")", ""},
		{"%%timeit -n 1 -r 1 -q once()\nonce()", ""},
		{"%time must(find(false))", "Error: lost\ncell %, line 1, in main\n    1 | %time must(find(false))\n      |       ^\n    look for it"},
		{"%%time\nx := 1\nfind(x == 2)", "Error: lost\ncell %, line 3, in main\n    3 | find(x == 2)\n      | ^\n    look for it"},
		{"%timeit -n 1 -r 1 must(find(false))", "Error: lost [before the first run]\nline 1, in main.func1\n    1 | %timeit -n 1 -r 1 must(find(false))\n      |                   ^\n    look for it"},
		{"%%timeit -n 1 -r 1 x := 1\nx++\n\tfind(x == 1)", "Error: lost [before the first run]\nline 3, in main.func1\n    3 | \tfind(x == 1)\n    look for it"},
	}
	for i, tt := range tests {
		r := n.Execute(t.Context(), jupyter.ExecuteRequest{Code: tt.code, Count: i + 1}, silentOutput{})
		got := ""
		if r.Err != nil {
			got = strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "", "cell "+strconv.Itoa(i+1), "cell %").Replace(strings.Join(r.Err.Traceback, "\n"))
		}
		if got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.code, got, tt.want)
		}
	}
}
