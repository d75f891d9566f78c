package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFormatNotebooks(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, cells ...string) string {
		path := filepath.Join(dir, name)
		text := `{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [` + strings.Join(cells, ", ") + `]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	code := func(source string) string {
		return `{"cell_type": "code", "id": "a", "metadata": {"k": 1.50}, "outputs": [], "execution_count": 3, "source": ` + source + `}`
	}
	good := write("good.ipynb", code(`["x := 1\n", "x"]`))
	bad := write("bad.ipynb", code(`"x:=1"`), code(`"y := ("`), `{"cell_type": "markdown", "metadata": {}, "source": "x:=1"}`)
	before, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		status := gaiden(append([]string{"fmt"}, args...), &stdout, &stderr)
		return status, stdout.String(), stderr.String()
	}
	if status, out, _ := run("-l", good, bad); status != 1 || out != bad+"\n" {
		t.Errorf("-l: got status %d, %q, want 1 and bad alone", status, out)
	}
	if text, _ := os.ReadFile(bad); !strings.Contains(string(text), "x:=1") {
		t.Error("-l has changed the file")
	}
	status, out, said := run(good, bad)
	if status != 1 || out != bad+"\n" || !strings.Contains(said, "bad.ipynb: cell 2 is left as it is") {
		t.Errorf("got status %d, %q, %q, want bad with its second cell", status, out, said)
	}
	text, _ := os.ReadFile(bad)
	for _, want := range []string{`"x := 1"`, `"y := ("`, `"x:=1"`, `"execution_count": 3`, `"k": 1.50`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want %s in it", text, want)
		}
	}
	if after, _ := os.ReadFile(good); !bytes.Equal(before, after) {
		t.Error("a notebook that was formatted has been written")
	}
	for _, tt := range []struct{ path, want string }{{filepath.Join(dir, "none.ipynb"), "no such file"}, {dir, "is a directory"}, {"", "usage"}} {
		args := []string{tt.path}
		if tt.path == "" {
			args = nil
		}
		if status, _, said := run(args...); status == 0 || !strings.Contains(said, tt.want) {
			t.Errorf("%q: got status %d, %q, want %q", tt.path, status, said, tt.want)
		}
	}
}
