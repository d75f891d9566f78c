package complete

import (
	"context"
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/parse"
)

// A Sketch is a cell that is being typed, made into a Go file as far as it
// can be: for gopls, and for finding names without it. It need not compile.
type Sketch struct {
	Text         string // a Go file
	Line, Column int    // of the cursor in Text, from 0, the column in bytes
	Word         string // the name before the cursor, from where it begins
	Qualifier    string // what stands before the dot before Word, if it is one name
	Dotted       bool   // Word stands behind a dot
}

// NewSketch makes a file of a cell whose cursor is at a byte offset. The second
// file holds the remembered declarations that the cell does not declare again, and the
// names that every cell has.
func NewSketch(ctx context.Context, c *keep.Composer, src parse.Source, cursor int) (s Sketch, remembered string) {
	u := &parse.Unit{Source: src}
	cursor = min(max(cursor, 0), len(src.Text))
	decls, body := u.Divide()
	line, column := parse.Place(src.Text, cursor)
	s.Word, s.Qualifier = wordAt(src.Text, cursor)
	if start := cursor - len(s.Word); start > 0 && src.Text[start-1] == '.' {
		s.Dotted = true
	}

	// Which half the cursor is in shows in which half its line's text survives;
	// on an empty line it is among the statements, unless there are none.
	inBody := strings.TrimSpace(body) != ""
	if at := tokenBefore(src.Text, cursor); at >= 0 && inBody {
		inBody = body[at] != ' '
	}
	own := map[string]bool{}
	if parsed, err := parse.Parse(parse.Source{ID: src.ID, Text: decls}); err == nil {
		for _, d := range parsed.Decls {
			for _, name := range d.Names {
				own[name] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("package main\n")
	kept, imports := c.Memory.All(own)
	declared := maps.Clone(own)
	for _, d := range kept {
		for _, name := range d.Names {
			declared[name] = true
		}
	}
	var text strings.Builder // of the second file
	for _, b := range cell.Builtins {
		if !declared[b.Name] && imports[b.Name] == nil {
			declared[b.Name] = true
			text.WriteString(b.Text)
		}
	}
	for _, im := range sketchImports(ctx, c, src.Text, imports, declared) {
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
	for _, d := range kept {
		if d.Kind == parse.Func || d.Kind == parse.Method {
			text.WriteString(d.Text + "\n")
		} else {
			text.WriteString(d.Kind.String() + " (\n" + d.Text + "\n)\n")
		}
	}
	for _, im := range sketchImports(ctx, c, text.String(), imports, declared) {
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
func sketchImports(ctx context.Context, c *keep.Composer, text string, remembered map[string]*parse.Import, declared map[string]bool) []parse.Import {
	quals := map[string][]string{}
	imported := map[string]bool{}
	tokens := parse.Lex(text)
	for i, t := range tokens {
		switch {
		case t.Tok == token.STRING && len(t.Lit) > 2:
			imported[strings.Trim(t.Lit, "\"`")] = true
		case t.Tok == token.IDENT && i+1 < len(tokens) && tokens[i+1].Tok == token.PERIOD && (i == 0 || tokens[i-1].Tok != token.PERIOD):
			quals[t.Lit] = append(quals[t.Lit], "")
			if i+2 < len(tokens) && tokens[i+2].Tok == token.IDENT {
				quals[t.Lit] = append(quals[t.Lit], tokens[i+2].Lit)
			}
		}
	}
	var out []parse.Import
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
			out = append(out, parse.Import{Name: name, Path: path})
		}
	}
	return out
}

// Paths lists what an import's path may continue with behind word: one element at
// a time, as files are, with a slash behind it where packages lie below it.
func Paths(ctx context.Context, m *build.Module, word string) []string {
	var out []string
	for _, path := range m.Paths(ctx) {
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

// Package returns the import path of the package that a name of the cell means, ok false
// if it means none: something is declared with that name.
func (s Sketch) Package(ctx context.Context, c *keep.Composer, name string) (path string, ok bool) {
	kept, imports := c.Memory.All(nil)
	if name == "" || slices.ContainsFunc(kept, func(d *parse.Decl) bool { return slices.Contains(d.Names, name) }) {
		return "", false
	}
	tokens := parse.Lex(s.Text)
	tok := func(i int) token.Token {
		if i < 0 || i >= len(tokens) {
			return token.ILLEGAL
		}
		return tokens[i].Tok
	}
	for i, t := range tokens {
		if t.Tok != token.IDENT || t.Lit != name || tok(i-1) == token.PERIOD {
			continue
		}
		before, next := tok(i-1), tok(i+1)
		typed := next == token.IDENT || next == token.MUL || next == token.FUNC || next == token.MAP || next == token.CHAN || next == token.ELLIPSIS || next == token.LBRACK && tok(i+2) == token.RBRACK
		if before == token.VAR || next == token.DEFINE || next == token.COMMA || (before == token.LPAREN || before == token.COMMA) && (typed || next == token.DEFINE) {
			return "", false
		}
	}
	if im := imports[name]; im != nil {
		return im.Path, true
	}
	if slices.ContainsFunc(cell.Builtins, func(b cell.Builtin) bool { return b.Name == name }) {
		return "", false
	}
	return c.Module.Resolve(ctx, name, nil)
}

// Names lists what a cell's text may continue with at the cursor, as far as is
// known without gopls: after a package and a dot its exported names, else
// declarations, packages and words of Go. Known is false after another dot: what is
// behind it only gopls knows.
func Names(ctx context.Context, c *keep.Composer, s Sketch) (names []string, known bool) {
	var all []string
	if s.Dotted {
		path, ok := s.Package(ctx, c, s.Qualifier)
		if !ok {
			return nil, false
		}
		if p := c.Module.TypesOf(ctx, path); p != nil {
			for _, name := range p.Scope().Names() {
				if token.IsExported(name) {
					all = append(all, name)
				}
			}
		}
	} else {
		all = append(c.Memory.Names(), c.Module.Names(ctx)...)
		for _, b := range cell.Builtins {
			all = append(all, b.Name)
		}
		for t := token.BREAK; t <= token.VAR; t++ {
			all = append(all, t.String())
		}
		for _, t := range parse.Lex(s.Text) {
			if t.Tok == token.IDENT && t.Lit != s.Word {
				all = append(all, t.Lit)
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return !strings.HasPrefix(name, s.Word) || strings.Contains(name, ".")
	}), true
}
