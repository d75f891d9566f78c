package cell

import (
	"context"
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// A Sketch is a cell that is being typed, made into a Go file as far as it
// can be: for gopls, and for finding names without it. It need not compile.
type Sketch struct {
	Text         string // a Go file
	Line, Column int    // of the cursor in Text, from 0, the column in bytes
	Word         string // the name before the cursor, from where it begins
	Qualifier    string // what stands before the dot before Word, if it is one name
}

// Sketch makes a file of a cell whose cursor is at a byte offset. The second
// file holds the remembered declarations that the cell does not declare anew.
func (c *Composer) Sketch(ctx context.Context, src Source, cursor int) (s Sketch, remembered string) {
	u := &Unit{Source: src}
	cursor = min(max(cursor, 0), len(src.Text))
	decls, body := u.divide()
	line, column := place(src.Text, cursor)
	s.Word, s.Qualifier = wordAt(src.Text, cursor)

	// Which half the cursor is in shows in which half its line's text survives;
	// on an empty line it is among the statements, unless there are none.
	inBody := strings.TrimSpace(body) != ""
	if at := tokenBefore(src.Text, cursor); at >= 0 && inBody {
		inBody = body[at] != ' '
	}
	own := map[string]bool{}
	if parsed, err := Parse(Source{ID: src.ID, Text: decls}); err == nil {
		for _, d := range parsed.Decls {
			for _, name := range d.Names {
				own[name] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("package main\n")
	kept, imports := c.Memory.all(own)
	declared := maps.Clone(own)
	for _, d := range kept {
		for _, name := range d.Names {
			declared[name] = true
		}
	}
	for _, im := range c.sketchImports(ctx, src.Text, imports, declared) {
		fmt.Fprintf(&b, "import %s %q\n", im.Name, im.Path)
	}
	// Lines above the declarations are imports only: a cell's own imports may follow.
	s.Line = strings.Count(b.String(), "\n") + line - 1
	s.Column = column - 1
	b.WriteString(decls + "\n")
	if strings.TrimSpace(body) != "" {
		b.WriteString("func main() {\n")
		if inBody {
			s.Line = strings.Count(b.String(), "\n") + line - 1
		}
		b.WriteString(body + "\n}\n")
	}
	s.Text = b.String()

	var r strings.Builder
	r.WriteString("package main\n")
	var text strings.Builder
	for _, d := range kept {
		if d.Kind == Func || d.Kind == Method {
			text.WriteString(d.Text + "\n")
		} else {
			text.WriteString(d.Kind.String() + " (\n" + d.Text + "\n)\n")
		}
	}
	for _, im := range c.sketchImports(ctx, text.String(), imports, declared) {
		fmt.Fprintf(&r, "import %s %q\n", im.Name, im.Path)
	}
	return s, r.String() + text.String()
}

// tokenBefore returns the offset of the last byte before cursor on its line
// that is no space, or -1.
func tokenBefore(text string, cursor int) int {
	for i := cursor - 1; i >= 0 && text[i] != '\n'; i-- {
		if text[i] != ' ' && text[i] != '\t' {
			return i
		}
	}
	return -1
}

// wordAt returns the name that ends at the cursor, and the name before its dot.
func wordAt(text string, cursor int) (word, qualifier string) {
	start := nameStart(text, cursor)
	word = text[start:cursor]
	if start > 0 && text[start-1] == '.' {
		q := nameStart(text, start-1)
		if q == 0 || text[q-1] != '.' {
			qualifier = text[q : start-1]
		}
	}
	return word, qualifier
}

func nameStart(text string, end int) int {
	for end > 0 {
		c := text[end-1]
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80 {
			break
		}
		end--
	}
	return end
}

// sketchImports finds imports for the names that stand before a dot, but for those that
// are declared: a variable net is not package net.
func (c *Composer) sketchImports(ctx context.Context, text string, remembered map[string]*Import, declared map[string]bool) []Import {
	quals := map[string][]string{}
	imported := map[string]bool{}
	tokens := lex(text)
	for i, t := range tokens {
		switch {
		case t.tok == token.STRING && len(t.lit) > 2:
			imported[strings.Trim(t.lit, "\"`")] = true
		case t.tok == token.IDENT && i+1 < len(tokens) && tokens[i+1].tok == token.PERIOD && (i == 0 || tokens[i-1].tok != token.PERIOD):
			quals[t.lit] = append(quals[t.lit], "")
			if i+2 < len(tokens) && tokens[i+2].tok == token.IDENT {
				quals[t.lit] = append(quals[t.lit], tokens[i+2].lit)
			}
		}
	}
	var out []Import
	for _, name := range slices.Sorted(maps.Keys(quals)) {
		path := ""
		if declared[name] {
			continue
		}
		if im := remembered[name]; im != nil {
			path = im.Path
		} else if p, ok := c.Module.Resolve(ctx, name, quals[name]); ok {
			path = p
		}
		if path != "" && !imported[path] {
			out = append(out, Import{Name: name, Path: path})
		}
	}
	return out
}

// all returns what is remembered, in order, without the given names.
func (m *Memory) all(but map[string]bool) ([]*Decl, map[string]*Import) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[*Decl]bool{}
	var out []*Decl
	for name, d := range m.decls {
		if seen[d] || but[name] {
			continue
		}
		seen[d] = true
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *Decl) int {
		if a.Cell != b.Cell {
			return a.Cell - b.Cell
		}
		return a.start - b.start
	})
	return out, maps.Clone(m.imports)
}

// Paths lists what an import's path may continue with behind word: one element at
// a time, as files are, with a slash behind it where packages lie below it.
func (c *Composer) Paths(ctx context.Context, word string) []string {
	var out []string
	for _, path := range c.Module.Paths(ctx) {
		rest, ok := strings.CutPrefix(path, word)
		if !ok {
			continue
		}
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			rest = rest[:i+1]
		}
		out = append(out, word+rest)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Names lists what a cell's text may continue with at the cursor, as far as is
// known without gopls: after a package and a dot its exported names, else
// declarations, packages and words of Go.
func (c *Composer) Names(ctx context.Context, s Sketch) []string {
	var all []string
	if s.Qualifier != "" {
		path, ok := "", false
		kept, imports := c.Memory.all(nil)
		if slices.ContainsFunc(kept, func(d *Decl) bool { return slices.Contains(d.Names, s.Qualifier) }) {
			return nil // a variable, say: what it has only gopls knows
		}
		if im := imports[s.Qualifier]; im != nil {
			path, ok = im.Path, true
		} else {
			path, ok = c.Module.Resolve(ctx, s.Qualifier, nil)
		}
		if p := c.Module.typesOf(ctx, path); ok && p != nil {
			for _, name := range p.Scope().Names() {
				if token.IsExported(name) {
					all = append(all, name)
				}
			}
		}
	} else {
		all = append(c.Memory.names(), c.Module.Names(ctx)...)
		for t := token.BREAK; t <= token.VAR; t++ {
			all = append(all, t.String())
		}
		for _, t := range lex(s.Text) {
			if t.tok == token.IDENT && t.lit != s.Word {
				all = append(all, t.lit)
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return !strings.HasPrefix(name, s.Word) || strings.Contains(name, ".")
	})
}
