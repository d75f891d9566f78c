package build

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Resolve finds the package that a cell means by name, from which it selects
// the given names. Where several packages have the name, the first that has
// all of them wins, then the one that has most; one of a module that only other modules
// require must have all. It compiles none of them: XLA's bindings in Go have a package math,
// too, and take half a minute.
func (m *Module) Resolve(ctx context.Context, name string, selected []string) (path string, ok bool) {
	m.mu.Lock()
	if m.open(ctx) != nil {
		m.mu.Unlock()
		return "", false
	}
	candidates := m.names(ctx)[name]
	own := map[string]bool{}
	for _, c := range candidates {
		own[c] = m.mod.rank(c) < len(c)+othersRank
	}
	m.mu.Unlock()
	if len(candidates) == 1 && own[candidates[0]] {
		return candidates[0], true
	}
	best := -1
	for i, c := range candidates {
		has := m.exported(ctx, candidates[i:])
		n := 0
		for _, s := range selected {
			if has(s) {
				n++
			}
		}
		if n == len(selected) {
			return c, true
		}
		if n > best && own[c] {
			best, path = n, c
		}
	}
	return path, path != ""
}

// Rival returns the package that a user may have meant instead of the library's package
// at path, "" if there is none: it has the same name and all that the cell selects, and is
// of the standard library or of a module that the notebook requires itself.
func (m *Module) Rival(ctx context.Context, path, name string, selected []string) string {
	library := m.LibraryPath()
	if library == "" || !strings.HasPrefix(path, library+"/") {
		return ""
	}
	m.mu.Lock()
	if len(m.named[name])+len(m.local[name]) < 2 {
		m.mu.Unlock()
		return ""
	}
	candidates := m.names(ctx)[name]
	candidates = slices.DeleteFunc(candidates, func(c string) bool { return m.mod.rank(c) > len(c)+1000 || strings.HasPrefix(c, library+"/") })
	m.mu.Unlock()
	for i, c := range candidates {
		has := m.exported(ctx, candidates[i:])
		if !slices.ContainsFunc(selected, func(s string) bool { return !has(s) }) {
			return c
		}
	}
	return ""
}

// exported tells what the first package exports: as it was compiled, or else by its
// source, which is read together with that of the others, to ask the go command once.
func (m *Module) exported(ctx context.Context, paths []string) func(name string) bool {
	m.mu.Lock()
	compiled := m.state.Packages[paths[0]] != nil
	m.mu.Unlock()
	if compiled {
		p := m.TypesOf(ctx, paths[0])
		return func(name string) bool { return Exports(p, name) }
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.declared[paths[0]]; !known {
		m.declare(ctx, paths)
	}
	names := m.declared[paths[0]]
	return func(name string) bool { return slices.Contains(names, name) }
}

// declare reads what packages export from their sources. What cannot be read
// exports nothing. m.mu is held.
func (m *Module) declare(ctx context.Context, paths []string) {
	out, _, err := m.run(ctx, m.Environ(), append([]string{"list", "-e", "-json=ImportPath,Dir,GoFiles"}, paths...)...)
	if err != nil {
		return
	}
	for _, p := range paths {
		m.declared[p] = nil
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if dec.Decode(&p) != nil {
			return
		}
		for _, f := range p.GoFiles {
			file, _ := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			if file != nil {
				m.declared[p.ImportPath] = append(m.declared[p.ImportPath], declaredNames(file)...)
			}
		}
	}
}

// declaredNames lists the exported names that a file declares.
func declaredNames(file *ast.File) []string {
	var names []string
	add := func(l ...*ast.Ident) {
		for _, n := range l {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
	return names
}
