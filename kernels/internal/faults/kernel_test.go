package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cells is a notebook whose cells have to be built, for a number that no notebook
// before it had: values that are kept, a declaration, a package, an error.
func cells(number int) (source []string, want []string) {
	return []string{
			fmt.Sprintf("x := %d", number),
			"x++\nfmt.Println(\"x is\", x)",
			fmt.Sprintf("func double(n int) int { return 2*n + %d - %d }", number, number),
			"fmt.Println(strings.Repeat(\"=\", 3), double(x))",
		}, []string{
			"",
			fmt.Sprintf("x is %d\n", number+1),
			"",
			fmt.Sprintf("=== %d\n", 2*(number+1)),
		}
}

// writeNotebook writes a notebook without outputs.
func writeNotebook(path string, source []string) error {
	type cell struct {
		Type     string   `json:"cell_type"`
		Source   string   `json:"source"`
		Metadata struct{} `json:"metadata"`
		Outputs  []any    `json:"outputs"`
		Count    any      `json:"execution_count"`
	}
	n := struct {
		Cells    []cell         `json:"cells"`
		Metadata map[string]any `json:"metadata"`
		Format   int            `json:"nbformat"`
		Minor    int            `json:"nbformat_minor"`
	}{Metadata: map[string]any{}, Format: 4, Minor: 4}
	for _, s := range source {
		n.Cells = append(n.Cells, cell{Type: "code", Source: s, Outputs: []any{}})
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}

// outputs reads the text that each cell of a notebook has printed, and whether a
// cell has failed.
func outputs(path string, source []string) (text []string, failed bool, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, false, err
	}
	var n struct {
		Cells []struct {
			Source  any
			Outputs []struct {
				Type string `json:"output_type"`
				Name string
				Text any
			}
		}
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, false, fmt.Errorf("BROKEN notebook: %w", err)
	}
	if len(n.Cells) != len(source) {
		return nil, false, fmt.Errorf("BROKEN notebook: %d cells, want %d", len(n.Cells), len(source))
	}
	for i, c := range n.Cells {
		if joined(c.Source) != source[i] {
			return nil, false, fmt.Errorf("BROKEN notebook: cell %d is %q, want %q", i, joined(c.Source), source[i])
		}
		out := ""
		for _, o := range c.Outputs {
			failed = failed || o.Type == "error"
			if o.Name == "stdout" {
				out += joined(o.Text)
			}
		}
		text = append(text, out)
	}
	return text, failed, nil
}

// joined is a text of a notebook, which may be a list of lines.
func joined(v any) string {
	if l, ok := v.([]any); ok {
		s := ""
		for _, line := range l {
			s += fmt.Sprint(line)
		}
		return s
	}
	s, _ := v.(string)
	return s
}

// runNotebook runs a notebook in place, and returns what gaiden said.
func runNotebook(cmd *exec.Cmd) (said string, ok bool, err error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", false, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return out.String(), err == nil, nil
	case <-time.After(2 * patience):
		cmd.Process.Kill()
		<-done
		return out.String(), false, fmt.Errorf("HANGS for %v: %s", 2*patience, &out)
	}
}

// TestKernel hits the calls of a kernel that builds and runs cells, in its caches,
// its temporary directory and the notebook. It prints what is right, or an error;
// the next run, with the same caches, prints what is right.
func TestKernel(t *testing.T) {
	kernel := os.Getenv("GAIDEN_KERNEL")
	if kernel == "" {
		t.Skip("needs an installed kernel: GAIDEN_KERNEL is its program; scripts/test faults installs one")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"cache/gaiden", "state", "tmp", "notebooks"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(cache, "gaiden", "cells"), filepath.Join(dir, "cache/gaiden")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"GOCACHE="+goCache(t))
	number := 0
	once := func(p Plan) (calls []Call, err error) {
		number++
		source, want := cells(1000 * number)
		path := filepath.Join(dir, "notebooks", "n.ipynb")
		if err := writeNotebook(path, source); err != nil {
			return nil, err
		}
		p.Under = []string{dir}
		cmd, log, err := Command(p, kernel, "run", path)
		if err != nil {
			return nil, err
		}
		defer os.Remove(log)
		cmd.Env = append(env, cmd.Env[len(cmd.Env)-1]) // the plan
		said, ok, err := runNotebook(cmd)
		if err != nil {
			return nil, err
		}
		if calls, err = Read(log); err != nil {
			return nil, fmt.Errorf("%w: %s", err, said)
		}
		text, failed, err := outputs(path, source)
		if err != nil {
			return calls, err
		}
		right := strings.Join(text, "|") == strings.Join(want, "|")
		switch {
		case ok && (failed || !right):
			return calls, fmt.Errorf("WRONG without an error: the cells printed %q, want %q; gaiden said %s", text, want, said)
		case !ok && p.Hit == 0:
			return calls, errors.New(said)
		}
		for _, bad := range []string{"runtime error", "goroutine 1 [", "SIGSEGV", "nil pointer"} {
			if strings.Contains(said, bad) {
				return calls, fmt.Errorf("an error that is no error message: %s", said)
			}
		}
		again := exec.Command(kernel, "run", path)
		again.Env = env
		said, ok, err = runNotebook(again)
		if err != nil {
			return calls, fmt.Errorf("the next run: %w", err)
		}
		if text, failed, err = outputs(path, source); err != nil {
			return calls, fmt.Errorf("the next run: %w", err)
		}
		if !ok || failed || strings.Join(text, "|") != strings.Join(want, "|") {
			return calls, fmt.Errorf("the next run does not heal: the cells printed %q, want %q; gaiden said %s", text, want, said)
		}
		return calls, nil
	}
	sweep(t, 3, once)
}

func goCache(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
