package build

import (
	"context"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compilerMissing says why C cannot be compiled, "" if it can.
func (m *Module) compilerMissing() string {
	words := strings.Fields(m.tool.CC)
	if len(words) == 0 {
		return "Go knows no C compiler (go env CC)"
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return "there is no C compiler: " + words[0] + " is not in PATH"
	}
	return ""
}

// CompilerMissing is the error of import "C" where C cannot be compiled.
func (m *Module) CompilerMissing() error {
	if why := m.compilerMissing(); why != "" {
		return &ImportError{Path: "C", Reason: "cgo compiles it, and " + why, hint: getCompiler}
	}
	return nil
}

// getCompiler says what to do when there is none.
const getCompiler = "install one (sudo apt-get install gcc), or name it: !go env -w CC=COMPILER"

// listCgo is goList, with those packages built with cgo that have a part in C.
func (m *Module) listCgo(ctx context.Context, paths []string) (got map[string]*Package, problem *ImportError, err error) {
	got, problem, err = m.goList(ctx, paths, m.Environ())
	if err != nil {
		return nil, nil, err
	}
	own := map[string]bool{} // packages with files in C of their own
	for path, p := range got {
		if p.Cgo {
			own[path] = true
		}
		p.Cgo = false
	}
	if problem != nil && problem.inC {
		own[problem.Path] = true
	}
	if len(own) == 0 {
		return got, problem, nil
	}
	if why := m.compilerMissing(); why != "" {
		for path := range own {
			if p := got[path]; p != nil {
				p.WithoutC = why
			}
		}
		if problem != nil && problem.inC {
			problem.Reason, problem.hint = "it is written in C in part (cgo), and "+why, getCompiler
		}
		return got, problem, nil
	}
	with, problem, err := m.goList(ctx, paths, append(m.Environ(), "CGO_ENABLED=1"))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	var inC func(path string) bool // it, or what it imports
	inC = func(path string) bool {
		is, seen := known[path]
		if p := with[path]; p != nil && !seen {
			is = own[path] || p.Cgo || slices.ContainsFunc(p.Imports, inC)
			known[path] = is
		}
		return is
	}
	for path := range with {
		inC(path)
	}
	for path, is := range known {
		if with[path].Cgo = is; is {
			got[path] = with[path]
		}
	}
	return got, problem, nil
}

// usesC reports whether one of the files would be compiled with cgo.
func usesC(dir string, files []string) bool {
	machine := build.Default
	machine.CgoEnabled = true
	for _, name := range files {
		if match, err := machine.MatchFile(dir, name); err != nil || !match {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ImportsOnly)
		if err == nil && slices.ContainsFunc(file.Imports, func(im *ast.ImportSpec) bool { return im.Path.Value == `"C"` }) {
			return true
		}
	}
	return false
}
