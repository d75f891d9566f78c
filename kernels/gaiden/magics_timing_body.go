package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/magic"
)

// timed is code that goes into a loop with a clock around it. Its lines keep
// their numbers, so that what Go says about them is about the user's own.
type timed struct {
	setup  string // statements that are run once, on the line of the magic
	body   string
	first  int    // line of the set-up in the cell, from 1
	line   int    // line of the body
	before string // what begins the loop, and what ends it
	after  string
	keep   bool // what the body declares and changes is there for later cells

	parts []part
	text  stitched
}

// part is a piece of the body whose value would go unused: an expression, or
// what := defines. The compiler must neither refuse it nor leave it out.
type part struct {
	start, end int      // in the body
	values     int      // of an expression; 0 leaves it as it is
	names      []string // that are defined; nil for an expression
	fails      bool     // an expression whose last value, if it is an error, has to be nil
}

const timedImports = `import (gaidenreport "gaiden/lib/report"; gaidenruntime "runtime"); `

// run compiles and runs it. How many values a call has only the type checker
// knows: each is taken to have one, until it says otherwise.
func (t *timed) run(ctx context.Context, h magic.Host) error {
	if err := t.parse(); err != nil {
		return err
	}
	for {
		t.write()
		err := h.Go(ctx, t.text.String())
		var build *parse.BuildError
		if !errors.As(err, &build) {
			return err
		}
		if !t.learn(build) {
			t.restore(build)
			return err
		}
	}
}

// once compiles and runs it as it is, between the statements before and after.
func (t *timed) once(ctx context.Context, h magic.Host) error {
	t.text.ours(strings.Repeat("\n", t.first-1) + t.before + strings.Repeat("\n", t.line-t.first))
	t.text.users(t.body, 0, len(t.body), true)
	t.text.ours(t.after)
	program := h.Go
	if t.keep {
		program = h.Keep
	}
	err := program(ctx, t.text.String())
	if build, is := errors.AsType[*parse.BuildError](err); is {
		t.restore(build)
	}
	if err != nil {
		if message, ours := strings.CutPrefix(err.Error(), failureMark); ours {
			return errors.New(strings.ReplaceAll(message, "\n\t", "\n"))
		}
	}
	return err
}

// failureMark begins what a program of a magic panics with when the magic has
// failed: that is no panic of the user's, and its place is nobody's line. fail
// is the statement.
const (
	failureMark = "gaiden magic: "
	fail        = `panic("` + failureMark + `" + err.Error())`
)

// parse finds the pieces, and the mistakes that the loop would hide.
func (t *timed) parse() error {
	const prefix = "package p;func _(){"
	fset := token.NewFileSet()
	offset := func(p token.Pos) int { return min(fset.Position(p).Offset-len(prefix), len(t.body)) }
	file, err := parser.ParseFile(fset, "", prefix+t.body+"\n}", 0)
	if err != nil || len(file.Decls) != 1 {
		e := &parse.BuildError{}
		var list scanner.ErrorList
		errors.As(err, &list)
		for _, s := range list {
			e.Diagnostics = append(e.Diagnostics, t.diagnostic(s.Pos.Offset-len(prefix), "syntax error: "+s.Msg, declarationHint(t.body)))
		}
		if list == nil {
			e.Diagnostics = append(e.Diagnostics, t.diagnostic(len(t.body), "syntax error: more is closed than was opened", ""))
		}
		return e
	}
	for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List {
		if at := leaves(s); at.IsValid() {
			return &parse.BuildError{Diagnostics: []parse.Diagnostic{t.diagnostic(offset(at), "this would leave the loop that is timed", "put it into a function, and time a call of that")}}
		}
		p := part{start: offset(s.Pos()), end: offset(s.End()), values: 1}
		switch s := s.(type) {
		case *ast.ExprStmt:
			p.fails = mayFail(s.X)
			t.parts = append(t.parts, p)
		case *ast.AssignStmt:
			for _, l := range s.Lhs {
				if id, ok := l.(*ast.Ident); ok && id.Name != "_" && s.Tok == token.DEFINE {
					p.names = append(p.names, id.Name)
				}
			}
			if id, ok := s.Lhs[0].(*ast.Ident); ok && id.Name == "_" && s.Tok == token.ASSIGN && len(s.Lhs) == 1 && len(s.Rhs) == 1 {
				from := p.start
				p.start = offset(s.Rhs[0].Pos())
				t.body = t.body[:from] + strings.Repeat(" ", p.start-from) + t.body[p.start:]
			} else if p.names == nil {
				continue
			}
			t.parts = append(t.parts, p)
		}
	}
	return nil
}

// mayFail reports whether an expression is a call that may return an error that is
// about the call: not one that prints, or that makes errors.
func mayFail(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	f, _ := call.Fun.(*ast.SelectorExpr)
	if f == nil {
		return true
	}
	pkg, _ := f.X.(*ast.Ident)
	return pkg == nil || pkg.Name != "errors" && (pkg.Name != "fmt" || strings.Contains(f.Sel.Name, "scan"))
}

// leaves returns where a statement leaves the loop that it will stand in.
func leaves(s ast.Stmt) (at token.Pos) {
	inside := 0 // loops, switches and selects, which break stays in
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			at = cmp.Or(at, n.Pos())
		case *ast.BranchStmt:
			if n.Tok == token.BREAK && n.Label == nil && inside == 0 {
				at = cmp.Or(at, n.Pos())
			}
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			inside++
			ast.Inspect(n, func(m ast.Node) bool { return m == n || m == nil || visit(m) })
			inside--
			return false
		}
		return true
	}
	ast.Inspect(s, visit)
	return at
}

var declaration = regexp.MustCompile(`(?m)^\s*(func\s+\w|func\s*\(\w+\s|import\b)`)

// declarationHint helps those who declare something where only statements can
// stand.
func declarationHint(body string) string {
	if declaration.MatchString(body) {
		return "functions and imports go into a cell of their own, before this one"
	}
	return ""
}

// diagnostic is about a place in the body.
func (t *timed) diagnostic(at int, message, hint string) parse.Diagnostic {
	d := parse.Diagnostic{Message: message, Hint: hint}
	d.Line, d.Column, d.Text = lineAt(t.body, at)
	d.Line += t.line - 1
	return d
}

// lineAt is the line of an offset, its column and its text.
func lineAt(text string, at int) (line, column int, content string) {
	at = min(max(at, 0), len(text))
	start := strings.LastIndexByte(text[:at], '\n') + 1
	content, _, _ = strings.Cut(text[start:], "\n")
	return 1 + strings.Count(text[:start], "\n"), 1 + at - start, content
}

// stitched is text made of the user's and of ours, which knows which is which.
type stitched struct {
	strings.Builder
	seams []seam
}

// seam is where a piece of the user's text begins or ends.
type seam struct {
	at   int // in the whole
	from int // in the user's text; -1: what follows is ours
	body bool
}

func (s *stitched) ours(text string) {
	s.seams = append(s.seams, seam{at: s.Len(), from: -1})
	s.WriteString(text)
}

func (s *stitched) users(text string, from, to int, body bool) {
	s.seams = append(s.seams, seam{s.Len(), from, body})
	s.WriteString(text[from:to])
}

// origin is where in the user's text a place of the whole comes from; ours is
// taken for what follows it.
func (s *stitched) origin(line, column int) (at int, body, ok bool) {
	place := 0
	for range line - 1 {
		i := strings.IndexByte(s.String()[place:], '\n')
		if i < 0 {
			return 0, false, false
		}
		place += i + 1
	}
	place += max(column, 1) - 1
	for i := len(s.seams) - 1; i >= 0; i-- {
		m := s.seams[i]
		if m.at > place {
			continue
		}
		if m.from >= 0 {
			return m.from + place - m.at, m.body, true
		}
		for _, next := range s.seams[i+1:] {
			if next.from >= 0 {
				return next.from, next.body, true
			}
		}
		break
	}
	return 0, false, false
}

// line is a line of the whole.
func (s *stitched) line(n int) string {
	lines := strings.SplitN(s.String(), "\n", n+1)
	return lines[min(n, len(lines))-1]
}

// write makes the program.
func (t *timed) write() {
	t.text = stitched{}
	t.text.ours(strings.Repeat("\n", t.first-1) + timedImports)
	if t.setup != "" {
		t.text.users(t.setup, 0, len(t.setup), false)
		t.text.ours("; ")
	}
	t.text.ours(t.before + strings.Repeat("\n", t.line-t.first))
	from := 0
	for i, p := range t.parts {
		var names, kept []string
		for v := range p.values {
			names = append(names, fmt.Sprintf("gaiden%d_%d", i, v))
		}
		if p.names != nil {
			names = p.names
		}
		for _, name := range names {
			kept = append(kept, "; gaidenruntime.KeepAlive(&"+name+")")
		}
		open, shut := "", strings.Join(kept, "")
		if p.names == nil && p.values > 0 {
			if p.fails {
				shut += "; " + cell.Check(1).Name + "(" + names[len(names)-1] + ")"
			}
			open, shut = "{ "+strings.Join(names, ", ")+" := ", shut+" }"
		}
		t.text.users(t.body, from, p.start, true)
		t.text.ours(open)
		t.text.users(t.body, p.start, p.end, true)
		t.text.ours(shut)
		from = p.end
	}
	t.text.users(t.body, from, len(t.body), true)
	t.text.ours("\n" + t.after)
}

var valueCount = regexp.MustCompile(`^assignment mismatch: \d+ variables? but .* returns? (\d+) values?$`)

// noError is what the type checker says of a call whose last value is no error.
var noError = regexp.MustCompile(`gaiden(\d+)_\d+ \(.* as error value in argument to ` + cell.Check(1).Name)

// learn takes from the type checker how many values the calls have, and whether the last
// is an error.
func (t *timed) learn(build *parse.BuildError) (learned bool) {
	for _, d := range build.Diagnostics {
		if m := noError.FindStringSubmatch(d.Message); m != nil {
			i, _ := strconv.Atoi(m[1])
			t.parts[i].fails, learned = false, true
			continue
		}
		at, body, ok := t.text.origin(d.Line, d.Column)
		for i := range t.parts {
			p := &t.parts[i]
			if !ok || !body || d.Cell != 0 || p.names != nil || p.values != 1 || at < p.start || at >= p.end {
				continue
			}
			if m := valueCount.FindStringSubmatch(d.Message); m != nil {
				p.values, _ = strconv.Atoi(m[1])
				learned = true
			} else if strings.HasSuffix(d.Message, "(no value) used as value") {
				p.values, learned = 0, true
			}
		}
	}
	return learned
}

// restore makes complaints about the program complaints about what the user
// typed.
func (t *timed) restore(build *parse.BuildError) {
	whole := "%%timeit"
	if t.keep {
		whole = "%%time"
	}
	for i := range build.Diagnostics {
		d := &build.Diagnostics[i]
		if d.Line == 0 || d.Cell != 0 && !(t.keep && strings.HasPrefix(t.text.line(d.Line), strings.TrimSuffix(d.Text, "…"))) {
			continue // an earlier cell's
		}
		at, body, ok := t.text.origin(d.Line, d.Column)
		text, first := t.setup, t.first
		if body {
			text, first = t.body, t.line
		}
		if !ok {
			d.Line, d.Column, d.Text = 0, 0, ""
			continue
		}
		d.Line, d.Column, d.Text = lineAt(text, at)
		d.Line += first - 1
		if t.line == t.first && strings.HasPrefix(d.Message, "undefined: ") && d.Hint == "" {
			d.Hint = "it sees what earlier cells declared, and not its own: " + whole + " times a whole cell"
		}
	}
}
