// Package parse takes a notebook cell apart: its declarations, imports and statements,
// what they use, and where each stands. A [Diagnostic] says what is wrong at which
// line. Whether the names mean anything it does not know.
package parse

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A Source is the Go part of a notebook cell, as the user typed it. Lines that
// are not Go (magics, shell commands) are to be blanked and not cut out, so
// that every line keeps its number.
type Source struct {
	ID   int    // execution number, named in messages; the same number must not be used for another text
	Text string // Go text

	// Shown is what the user typed where a magic has made Text of it, line by
	// line; empty where that is Text itself.
	Shown string

	// Main is the number of the line, from 1, that started the main function
	// (%% or %main). Everything below it is main's body. With 0 the cell's
	// statements are found among its declarations.
	Main int

	Call string   // name of a function that main calls (%exec), or empty
	Args []string // the program's arguments
	Test bool     // build a test binary and run its tests (%test)

	// Loose lets the cell import what cannot be found and is not used.
	Loose bool

	// Keep says that the values of the cell's variables are to be there for
	// later cells.
	Keep bool
}

// A Kind says which sort of declaration a Decl is.
type Kind int

// The kinds of declaration that are remembered from cell to cell.
const (
	Const Kind = iota
	Type
	Var
	Func
	Method
)

func (k Kind) String() string {
	return [...]string{"const", "type", "var", "func", "method"}[k]
}

// A Decl is one declaration: the smallest piece that can be replaced by a
// later cell. Grouped specs are separate, except consts that count with iota
// and names that share one initial value.
type Decl struct {
	Kind  Kind
	Names []string // a method's name is "T.Method"; several for var a, b = f()
	Cell  int      // the cell that declared it
	Line  int      // where Text starts in that cell, from 1
	Text  string   // the declaration without its keyword, for func with it

	Column      int                 // of Text's first byte, from 1
	Source      string              // the cell's text
	Start       int                 // byte offset in the cell: keeps the order inside a cell
	NameOffsets []int               // offset of each name in Text
	Uses        map[string]bool     // every name that Text may refer to
	Quals       map[string][]string // package-like names and what is selected from them
	Calls       bool                // a var whose initial value calls something
	Repeats     bool                // a var whose initial value may be computed again, see package repeat
	Short       bool                // it was a := among a cell's statements
	Exits       []int               // offsets in Text of calls that end the program
}

// An Import is one import of a cell.
type Import struct {
	Name   string // as written: "", a name, "." or "_"
	Path   string
	Cell   int
	Line   int
	Column int
	Source string // the cell's text
	Doc    string // the comment above it, which is C source for import "C"
}

// A Unit is a parsed cell.
type Unit struct {
	Source
	Decls   []*Decl
	Imports []*Import

	Body        string // Text with everything but main's statements blanked; empty if there are none
	OwnMain     *Decl  // a func main that the user wrote
	Last        *lastExpr
	Definitions []Definition
	Exits       []int // offsets in Text of main's calls that end the program
	Uses        map[string]bool
	Quals       map[string][]string
}

// A lastExpr is the expression statement that ends a cell.
type lastExpr struct {
	Start, End int  // offsets in Text
	Call       bool // a call, which may have no value
	Silent     bool // a semicolon behind it: the value is not wanted
}

// A Definition is a top-level := of a cell without %%: the names, where the
// statement ends, and the declaration that it would be in a later cell, nil if
// it needs a value of its own that is no longer there.
type Definition struct {
	Names   []string
	Offsets []int // of the names in the cell
	End     int
	Decl    *Decl
}

// Alone reports whether the cell is a program of its own, as in GoNB: one with a
// main function. All its variables begin with their initial values, and end
// with it.
func (u *Unit) Alone() bool { return u.Main > 0 || u.OwnMain != nil || u.Call != "" || u.Test }

// HasMain reports whether the cell has statements or a main function of its own.
func (u *Unit) HasMain() bool { return u.Body != "" || u.OwnMain != nil || u.Call != "" }

// undirected is text in which no comment is a line directive of the compiler's: after one, errors
// would be at lines of another file.
func undirected(text string) string {
	if !strings.Contains(text, "//line ") && !strings.Contains(text, "/*line ") {
		return text
	}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, scanner.ScanComments)
	b := []byte(text)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return string(b)
		}
		if tok == token.COMMENT && (strings.HasPrefix(lit, "//line ") || strings.HasPrefix(lit, "/*line ")) {
			b[int(pos)-file.Base()+2] = 'L'
		}
	}
}

// Parse takes a cell apart. The error is a *BuildError with Go's syntax errors.
func Parse(src Source) (*Unit, error) {
	u := &Unit{Source: src, Uses: map[string]bool{}, Quals: map[string][]string{}}
	u.Text = undirected(strings.ToValidUTF8(strings.ReplaceAll(src.Text, "\r\n", " \n"), "\uFFFD"))
	decls, body := u.Divide()
	var problems []Diagnostic
	if strings.TrimSpace(decls) != "" {
		problems = append(problems, u.parseDecls(decls)...)
	}
	if strings.TrimSpace(body) != "" {
		u.Body = body
		problems = append(problems, u.parseBody(body)...)
	}
	problems = append(problems, u.redeclared()...)
	if len(problems) > 0 {
		return nil, NewBuildError(problems)
	}
	line := strings.Count(body[:len(body)-len(strings.TrimLeft(body, " \t\n"))], "\n") + 1
	switch {
	case u.Test && u.Body != "":
		return nil, NewBuildError([]Diagnostic{u.at(line, 0, "statements in a cell with %test, which runs tests and benchmarks only",
			"move them into a function such as func TestIt(t *testing.T), or into a cell of their own")})
	case u.OwnMain != nil && u.Body != "":
		return nil, NewBuildError([]Diagnostic{u.at(line, 0, "statements next to the cell's own func main",
			"move them into func main, or leave out func main")})
	case u.Call != "":
		u.Uses[u.Call] = true
	}
	return u, nil
}

// redeclared finds what a cell's := defines and its declarations declare, too: in a function
// both would be of one block, and Go would refuse it. Of several names of a := some may be
// those of variables above it.
func (u *Unit) redeclared() (problems []Diagnostic) {
	declared := map[string]*Decl{}
	for _, d := range u.Decls {
		for _, name := range d.Names {
			declared[name] = d
		}
	}
	for _, def := range u.Definitions {
		fresh := false
		for i, name := range def.Names {
			d := declared[name]
			at := def.Offsets[i]
			line, column := Place(u.Text, at)
			switch {
			case d == nil:
				fresh = true
			case d.Kind != Var || d.Start > at:
				problems = append(problems, u.at(line, column, name+" redeclared in this cell", "the other one is the "+d.Kind.String()+" of line "+strconv.Itoa(d.Line)+": give one of them another name"))
				fresh = true
			}
		}
		if !fresh {
			line, column := Place(u.Text, def.Offsets[0])
			name := def.Names[0]
			problems = append(problems, u.at(line, column, "no new variables on left side of :=", name+" is the var of line "+strconv.Itoa(declared[name].Line)+": write "+name+" = …"))
		}
	}
	return problems
}

// Divide returns the cell's text twice: once with only its declarations, once
// with only its statements, the rest blanked so that every offset stays true.
func (u *Unit) Divide() (decls, body string) {
	if u.Main > 0 {
		cut := 0
		for n := u.Main; n > 0 && cut < len(u.Text); n-- {
			i := strings.IndexByte(u.Text[cut:], '\n')
			if i < 0 {
				cut = len(u.Text)
				break
			}
			cut += i + 1
		}
		head := []byte(u.Text[:cut])
		for _, c := range split(u.Text[:cut]) {
			if c.pkg {
				wipe(head, c.start, c.end)
			}
		}
		u.findLast(split(u.Text[cut:]), cut)
		if strings.TrimSpace(u.Text[cut:]) == "" {
			return string(head), ""
		}
		return string(head), blank(u.Text[:cut]) + u.Text[cut:]
	}
	d, b := []byte(u.Text), []byte(u.Text)
	chunks := split(u.Text)
	statements := 0
	for i, c := range chunks {
		// The comments above a declaration go with it: they may be directives.
		from := 0
		if i > 0 {
			from = chunks[i-1].end
		}
		switch {
		case c.pkg:
			wipe(d, c.start, c.end)
			wipe(b, from, c.end)
		case c.decl:
			wipe(b, from, c.end)
		default:
			wipe(d, c.start, c.upto)
			statements++
		}
	}
	if statements == 0 {
		return string(d), ""
	}
	u.findLast(chunks, 0)
	for _, c := range chunks {
		if !c.decl && !c.pkg {
			u.findDefinition(c)
		}
	}
	return string(d), string(b)
}

// wipe blanks b[start:end], line ends excepted.
func wipe(b []byte, start, end int) {
	for i := start; i < end; i++ {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
}

func blank(s string) string {
	b := []byte(s)
	wipe(b, 0, len(b))
	return string(b)
}

// findLast looks whether the last chunk is an expression whose value is wanted.
func (u *Unit) findLast(chunks []chunk, shift int) {
	if len(chunks) == 0 {
		return
	}
	c := chunks[len(chunks)-1]
	if c.decl || c.pkg {
		return
	}
	start, end := c.start+shift, c.end+shift
	expr, err := parser.ParseExpr(u.Text[start:end])
	if err != nil {
		return
	}
	bare := ast.Unparen(expr)
	_, call := bare.(*ast.CallExpr)
	if un, ok := bare.(*ast.UnaryExpr); ok && un.Op == token.ARROW {
		call = true // a receive may stand alone, too
	}
	if call && (c.silent || u.Main > 0) {
		return // below %% a call is a statement, as in GoNB
	}
	u.Last = &lastExpr{Start: start, End: end, Call: call, Silent: c.silent}
}

// findDefinition notes what a top-level statement defines.
func (u *Unit) findDefinition(c chunk) {
	const prefix = "package p;func _(){"
	file, err := parser.ParseFile(token.NewFileSet(), "", prefix+u.Text[c.start:c.end]+"\n}", 0)
	if err != nil || len(file.Decls) != 1 {
		return
	}
	list := file.Decls[0].(*ast.FuncDecl).Body.List
	if len(list) != 1 {
		return
	}
	assign, ok := list[0].(*ast.AssignStmt)
	if !ok || assign.Tok != token.DEFINE {
		return
	}
	d := Definition{End: c.end}
	offset := func(p token.Pos) int { return int(p-file.FileStart) - len(prefix) }
	decl := &Decl{Kind: Var, Cell: u.ID, Text: u.Text[c.start:c.end], Start: c.start, Source: u.Text, Short: true,
		Uses: map[string]bool{}, Quals: map[string][]string{}}
	decl.Line, decl.Column = Place(u.Text, c.start)
	for _, l := range assign.Lhs {
		id, ok := l.(*ast.Ident)
		if !ok {
			return // the type checker will complain
		}
		if id.Name != "_" {
			d.Names, d.Offsets = append(d.Names, id.Name), append(d.Offsets, c.start+offset(id.Pos()))
		}
		decl.Names = append(decl.Names, id.Name)
		decl.NameOffsets = append(decl.NameOffsets, offset(id.Pos()))
	}
	if len(d.Names) == 0 {
		return
	}
	for _, r := range assign.Rhs {
		collect(file, r, decl.Uses, decl.Quals)
	}
	// As a declaration it has = for :=, and every column stays true.
	at := offset(assign.TokPos)
	decl.Text = decl.Text[:at] + " =" + decl.Text[at+2:]
	if !slices.ContainsFunc(d.Names, func(name string) bool { return decl.Uses[name] }) {
		d.Decl = decl
	}
	u.Definitions = append(u.Definitions, d)
}

// parseBody checks the syntax of main's statements and collects what they use.
func (u *Unit) parseBody(body string) []Diagnostic {
	const prefix = "package p;func _(){"
	// On a line of its own the closing brace ends no comment of the cell.
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", prefix+body+"\n}", 0)
	if err != nil || len(file.Decls) > 1 {
		if at := superfluous(body); at >= 0 {
			line, column := Place(u.Text, at)
			return []Diagnostic{u.at(line, column, "syntax error: "+body[at:at+1]+" closes nothing", "")}
		}
		return u.syntax(err, len(prefix))
	}
	collect(file, file.Decls[0], u.Uses, u.Quals)
	u.Exits = exits(file.Decls[0], func(p token.Pos) int { return int(p-file.FileStart) - len(prefix) })
	return nil
}

// exits finds the statements that end the program by a call: os.Exit and its
// relatives in package log.
func exits(node ast.Node, offset func(token.Pos) int) (at []int) {
	ast.Inspect(node, func(n ast.Node) bool {
		s, ok := n.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok {
			pkg, _ := f.X.(*ast.Ident)
			if pkg != nil && (pkg.Name == "os" && f.Sel.Name == "Exit" || pkg.Name == "log" && strings.HasPrefix(f.Sel.Name, "Fatal")) {
				at = append(at, offset(s.Pos()))
			}
		}
		return true
	})
	return at
}

// superfluous returns the offset of the first bracket that closes nothing, or -1.
func superfluous(text string) int {
	depth := 0
	for _, t := range Lex(text) {
		switch t.Tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if depth--; depth < 0 {
				return t.start
			}
		}
	}
	return -1
}

// importOf reads an import spec.
func (u *Unit) importOf(spec *ast.ImportSpec, offset int) *Import {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		path = strings.Trim(spec.Path.Value, "\"`")
	}
	im := &Import{Path: path, Cell: u.ID, Source: u.Text}
	if spec.Name != nil {
		im.Name = spec.Name.Name
	}
	im.Line, im.Column = Place(u.Text, offset)
	return im
}

// Without returns the declaration with one of its names blank, and spaces after
// it, so that every column stays true.
func (d *Decl) Without(name string) *Decl {
	c := *d
	c.Names = slices.Clone(d.Names)
	for i, n := range d.Names {
		if n == name {
			c.Names[i] = "_"
			at := d.NameOffsets[i]
			c.Text = c.Text[:at] + "_" + strings.Repeat(" ", len(name)-1) + c.Text[at+len(name):]
		}
	}
	return &c
}

// Defines reports whether the cell gives a variable its first value.
func (u *Unit) Defines(name string) bool {
	return slices.ContainsFunc(u.Decls, func(d *Decl) bool { return slices.Contains(d.Names, name) }) ||
		slices.ContainsFunc(u.Definitions, func(d Definition) bool { return slices.Contains(d.Names, name) })
}

// Defining returns the declarations that the cell's := would be in later cells.
func (u *Unit) Defining() (out []*Decl) {
	for _, def := range u.Definitions {
		if def.Decl != nil {
			out = append(out, def.Decl)
		}
	}
	return out
}

// Repeatable reports whether a variable's initializer may be evaluated again.
func (d *Decl) Repeatable() bool { return d.Repeats || !d.Calls && !d.Short }
