package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParameters runs a notebook with other values; the tags are papermill's.
func TestParameters(t *testing.T) {
	t.Setenv("JPY_SESSION_NAME", "run")
	data, dir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	if err := errors.Join(os.MkdirAll(filepath.Join(data, "gaiden", "src"), 0o755), os.WriteFile(filepath.Join(data, "gaiden", "src", "go.mod"), []byte("module gaiden\n\ngo 1.26\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	write := func(name, cells string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(`{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [`+cells+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	code := func(source, tags string) string {
		return `{"cell_type": "code", "id": "a", "metadata": {"tags": [` + tags + `]}, "outputs": [], "execution_count": null, "source": ` + source + `}`
	}
	book := write("book.ipynb", `{"cell_type": "markdown", "metadata": {"tags": ["parameters"]}, "source": "x"}, `+
		code(`["rate := 0.1\n", "name := \"none\"\n", "var layers = []int{1}\n", "const seed = 1"]`, `"parameters"`)+", "+code(`"fmt.Println(rate/2, name, layers, seed)"`, ""))
	plain := write("plain.ipynb", code(`"x := 1"`, ""))
	bad := write("bad.ipynb", code(`"x := ("`, `"parameters"`))
	out := filepath.Join(dir, "out.ipynb")
	run := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		status := gaiden(append([]string{"run", "-q"}, args...), &stdout, &stderr)
		return status, stdout.String() + stderr.String()
	}
	for i, tt := range []struct {
		args []string
		want string
	}{
		{nil, "0.05 none [1] 1\\n"},
		{[]string{"-p", "rate=1", "-p", `name=ä "b"=c`, "-p", "layers=[]int{784, 10}", "-p", "seed=7"}, `0.5 ä \"b\"=c [784 10] 7\n`},
	} {
		if status, said := run(append(tt.args, "-o", out, book)...); status != 0 {
			t.Fatalf("%v: %s", tt.args, said)
		}
		text, _ := os.ReadFile(out)
		if got := string(text); !strings.Contains(got, tt.want) || strings.Count(got, `"injected-parameters"`) != 2*i || strings.Index(got, "rate := 0.1") > strings.Index(got, "// Parameters") && i > 0 {
			t.Errorf("%v: got %s, want %s and the values below the defaults", tt.args, got, tt.want)
		}
	}
	if status, said := run("-p", "seed=9", "-o", out, out); status != 0 {
		t.Fatal(said)
	}
	if text, _ := os.ReadFile(out); !strings.Contains(string(text), `0.05 none [1] 9\n`) || strings.Count(string(text), "// Parameters") != 1 {
		t.Errorf("again: got %s, want the earlier values replaced", text)
	}
	before, _ := os.ReadFile(book)
	for _, tt := range []struct{ args, want string }{
		{"-p rat=1 " + book, "got rat, want one of layers, seed, rate, name; did you mean rate?"},
		{"-p rate=1 -p rate=2 " + book, "got two values for rate"},
		{"-p rate=1, " + book, `parameter rate: got "1,", want a value of Go`},
		{"-p rate " + book, `got "rate", want name=value`},
		{"-p 1=1 " + book, `got "1=1", want name=value`},
		{"-p rate=1 " + plain, "no cell has the tag parameters"},
		{"-p x=1 " + bad, "want declarations such as rate := 0.1"},
		{"-p rate=1 -html -as-is " + book, "usage"},
	} {
		if status, said := run(strings.Fields(tt.args)...); status == 0 || !strings.Contains(said, tt.want) {
			t.Errorf("%s: got status %d, %q, want %q", tt.args, status, said, tt.want)
		}
	}
	if after, _ := os.ReadFile(book); !bytes.Equal(before, after) {
		t.Error("a notebook that was not run was changed")
	}
}
