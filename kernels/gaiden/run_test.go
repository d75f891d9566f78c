package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestRunRefuses: what is no notebook to be run is left as it is.
func TestRunRefuses(t *testing.T) {
	t.Setenv("JPY_SESSION_NAME", "run") // and it is restored, whatever runMain does
	dir := t.TempDir()
	tests := []struct{ name, text, want string }{
		{"missing", "", "no such file"},
		{"garbage", "{", "want a notebook"},
		{"python", `{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "python"}}}`, "want one in Go"},
	}
	for _, tt := range tests {
		path := filepath.Join(dir, tt.name+".ipynb")
		if tt.text != "" {
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		err := runMain([]string{path}, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
		if got, _ := os.ReadFile(path); string(got) != tt.text {
			t.Errorf("%s: the file was changed", tt.name)
		}
	}
	pipe := filepath.Join(dir, "pipe.ipynb")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runMain([]string{pipe}, &out, &out); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("pipe: got %v, want it refused", err)
	}
}

// TestRunSameNames has two notebooks of one name for one folder, of which
// nothing may be written.
func TestRunSameNames(t *testing.T) {
	t.Setenv("JPY_SESSION_NAME", "run")
	dir, out := t.TempDir(), t.TempDir()
	var paths []string
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name, "same.ipynb")
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	var stdout, stderr bytes.Buffer
	err := runMain(append([]string{"-html", "-as-is", "-o", out}, paths...), &stdout, &stderr)
	if err == nil || !strings.Contains(err.Error(), "for one folder, want notebooks of different names") {
		t.Errorf("got error %v, want the two names", err)
	}
	if l, _ := os.ReadDir(out); len(l) > 0 {
		t.Errorf("got %v in the folder, want nothing", l)
	}
	if err := runMain([]string{"-html", "-as-is", "-o", out, paths[0], paths[0]}, &stdout, &stderr); err != nil {
		t.Errorf("one notebook twice: %v", err)
	}
}

// TestRunAsIs writes pages of notebooks that are not run.
func TestRunAsIs(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.ipynb"), filepath.Join(dir, "bad.ipynb")
	os.WriteFile(good, []byte(`{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "markdown", "source": "# Hello"}]}`), 0o600)
	os.WriteFile(bad, []byte(`{`), 0o600)
	if err := os.MkdirAll(filepath.Join(dir, "taken", "good.html"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		args  []string
		err   string // part of it; "" = none
		files string
	}{
		{"beside it", []string{"-html", "-as-is", good}, "", "good.html"},
		{"a folder that is not there", []string{"-html", "-as-is", good, "-o", filepath.Join(dir, "new") + "/"}, "", "new/good.html"},
		{"one bad, one good", []string{"-html", "-as-is", "-o", dir, bad, good}, "bad.ipynb: webpage: no notebook", "good.html"},
		{"a folder that cannot be", []string{"-html", "-as-is", "-o", good + "/", good}, "file exists", ""},
		{"a place that cannot be written", []string{"-html", "-as-is", "-o", "/proc/gaiden/x.ipynb", good}, "write /proc/gaiden/x.html: no such file or directory", ""},
		{"a folder in the page's place", []string{"-html", "-as-is", "-o", filepath.Join(dir, "taken") + "/", good}, "write " + filepath.Join(dir, "taken", "good.html") + ": got a directory", ""},
		{"two for one file", []string{"-html", "-as-is", "-o", filepath.Join(dir, "x.ipynb"), good, good}, "want a folder", ""},
		{"as it is, without a page", []string{"-as-is", good}, "usage", ""},
		{"a page on standard output", []string{"-html", "-o", "-", good}, "usage", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range []string{"good.html", "new/good.html"} {
				os.Remove(filepath.Join(dir, f))
			}
			var stdout, stderr bytes.Buffer
			err := runMain(tt.args, &stdout, &stderr)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if tt.files == "" {
				return
			}
			page, err := os.ReadFile(filepath.Join(dir, tt.files))
			if err != nil || !strings.Contains(string(page), `<h1 id="Hello">Hello</h1>`) {
				t.Errorf("got page %.200q, %v", page, err)
			}
			if !strings.Contains(stdout.String(), tt.files) {
				t.Errorf("got output %q, want the page's name", stdout.String())
			}
		})
	}
}

// TestRun executes a notebook with the library that is installed.
func TestRun(t *testing.T) {
	if !exists(filepath.Join(wire.DataDir(), "src", "go.mod")) {
		t.Skip("the library is not installed where cells find it; scripts/run setup does that")
	}
	t.Setenv("JPY_SESSION_NAME", "run")
	const text = `{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
		{"cell_type": "code", "metadata": {}, "source": ["x := 6"]},
		{"cell_type": "code", "metadata": {}, "source": ["x * 7"]},
		{"cell_type": "code", "metadata": {}, "source": ["fmt.Println(nowhere)"]},
		{"cell_type": "code", "metadata": {}, "source": ["x"]}]}`
	dir := t.TempDir()
	path, out := filepath.Join(dir, "in.ipynb"), filepath.Join(dir, "out.ipynb")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err := runMain([]string{path, "-html", "-o", out}, &stdout, &stderr) // flags behind the notebook, too
	if err == nil || !strings.Contains(err.Error(), "cell 3 failed: BuildError") {
		t.Errorf("got error %v, want that of cell 3", err)
	}
	for _, want := range []string{"cell 2 of 4: ", "cell 3 of 4: BuildError after", "undefined: nowhere"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("got progress %q, want %q in it", stderr.String(), want)
		}
	}
	if strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("got escape sequences in what is no terminal: %q", stderr.String())
	}
	got, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(got), `"42"`) || !strings.Contains(string(got), `"ename": "BuildError"`) {
		t.Errorf("got %s, %v; want 42 and the error", got, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "out.html"))
	for _, want := range []string{`This run stopped at <a href="#cell-3">cell 3</a>:</b> BuildError`, "undefined: nowhere", "cell 4 · not run", "3 of 4 have run", `<pre class="output">42</pre>`} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("got a page without %q, %v", want, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("got %q left behind", left)
	}
	if in, _ := os.ReadFile(path); string(in) != text {
		t.Error("the notebook was changed, though -o names another file")
	}
}

// TestRunPlaceFirst: where the outputs cannot be kept, no cell is run for them.
func TestRunPlaceFirst(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.ipynb")
	if err := os.WriteFile(path, []byte(`{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"cell_type":"code","id":"a","source":"!touch ran","metadata":{},"outputs":[],"execution_count":null}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	err := runMain([]string{"-o", filepath.Join(dir, "none", "y.ipynb"), path}, io.Discard, &stderr)
	if err == nil || !strings.Contains(err.Error(), "y.ipynb: no such file or directory") {
		t.Errorf("got %v, want that y.ipynb cannot be written", err)
	}
	if exists(filepath.Join(dir, "ran")) || stderr.Len() > 0 {
		t.Errorf("a cell has run: %s", &stderr)
	}
}

// TestRunRescued: outputs whose place went away while the cells ran are kept elsewhere.
func TestRunRescued(t *testing.T) {
	t.Setenv("JPY_SESSION_NAME", "run")
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	path, out := filepath.Join(dir, "x.ipynb"), filepath.Join(dir, "out")
	err := errors.Join(os.Mkdir(out, 0o700), os.WriteFile(path, []byte(`{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"cell_type":"code","id":"a","source":"!rm -r out; echo hard-won","metadata":{},"outputs":[],"execution_count":null}]}`), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	err = runMain([]string{"-o", filepath.Join(out, "y.ipynb"), path}, io.Discard, &stderr)
	kept, _ := filepath.Glob(os.Getenv("TMPDIR") + "/gaiden-run-*.ipynb")
	if err == nil || len(kept) != 1 || !strings.Contains(err.Error(), "y.ipynb: no such file or directory; the notebook with its outputs is "+kept[0]) {
		t.Fatalf("got %v, and files %q; want why y.ipynb was not written, and one file with the outputs", err, kept)
	}
	if got, err := os.ReadFile(kept[0]); err != nil || !strings.Contains(string(got), "hard-won") {
		t.Errorf("got %s, %v; want the cell's output in it", got, err)
	}
}

// TestRunTargets: what gaiden run writes, in place of what is there. Package
// files tests all else about it.
func TestRunTargets(t *testing.T) {
	const notebook = `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[]}`
	const ran = `"language_info"` // a run notes it
	tests := []struct {
		name  string
		setUp func(dir string) error
		args  []string
		runs  string // the file that has the run's outputs
		page  string
		mode  os.FileMode
		err   string
	}{
		{"the notebook", nil, []string{"-html", "real.ipynb"}, "real.ipynb", "real.html", 0o600, ""},
		{"a link to a notebook", func(d string) error { return os.Symlink("real.ipynb", d+"/l.ipynb") }, []string{"-html", "l.ipynb"}, "real.ipynb", "l.html", 0o600, ""},
		{"a link as -o", func(d string) error {
			return errors.Join(os.WriteFile(d+"/out.ipynb", nil, 0o640), os.Symlink("out.ipynb", d+"/l.ipynb"))
		}, []string{"-o", "l.ipynb", "real.ipynb"}, "out.ipynb", "", 0, ""},
		{"a link as the page", func(d string) error {
			return errors.Join(os.WriteFile(d+"/page", nil, 0o600), os.Chmod(d+"/page", 0o640), os.Symlink("page", d+"/real.html"))
		}, []string{"-html", "real.ipynb"}, "real.ipynb", "page", 0o640, ""},
		{"new files", nil, []string{"-html", "-o", "new.ipynb", "real.ipynb"}, "new.ipynb", "new.html", 0o600, ""},
		{"a pipe", func(d string) error { return syscall.Mkfifo(d+"/pipe", 0o600) }, []string{"-o", "pipe", "real.ipynb"}, "", "", 0, "got a named pipe"},
		{"a pipe as the page", func(d string) error { return syscall.Mkfifo(d+"/real.html", 0o600) }, []string{"-html", "real.ipynb"}, "", "", 0, "got a named pipe"},
		{"a directory as the page", func(d string) error { return os.Mkdir(d+"/real.html", 0o700) }, []string{"-html", "-as-is", "real.ipynb"}, "", "", 0, "got a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			defer syscall.Umask(syscall.Umask(0o077))
			if err := os.WriteFile("real.ipynb", []byte(notebook), 0o644); err != nil {
				t.Fatal(err)
			}
			if tt.setUp != nil {
				if err := tt.setUp(dir); err != nil {
					t.Fatal(err)
				}
			}
			var links []string
			entries, _ := os.ReadDir(".")
			for _, e := range entries {
				if e.Type()&os.ModeSymlink != 0 {
					links = append(links, e.Name())
				}
			}
			err := runMain(append([]string{"-q"}, tt.args...), io.Discard, io.Discard)
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || tt.err == "" && err != nil {
				t.Fatalf("got error %v, want %q", err, tt.err)
			}
			for _, name := range []string{"real.ipynb", "out.ipynb", "new.ipynb"} {
				b, _ := os.ReadFile(name)
				if got, want := strings.Contains(string(b), ran), name == tt.runs; got != want {
					t.Errorf("%s has the outputs of the run: got %v, want %v", name, got, want)
				}
			}
			if tt.page != "" {
				info, err := os.Stat(tt.page)
				if err != nil || info.Mode() != tt.mode || info.Size() == 0 {
					t.Errorf("page %s: got %v, %v; want mode %v and contents", tt.page, info, err, tt.mode)
				}
			}
			for _, link := range links {
				if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
					t.Errorf("%s is a link no more: %v", link, err)
				}
			}
		})
	}
}
