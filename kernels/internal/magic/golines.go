package magic

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// A goReader reads the Go of a cell with Go's own scanner, and stops at each line
// that might be a command instead. Lines inside raw strings and comments are
// never reached: the scanner returns those as one token.
type goReader struct {
	src   []byte // the cell; commands are blanked as they are found
	lines []int  // offset of each line's first byte
	from  int    // where the scanner began
	file  *token.File
	s     scanner.Scanner

	// The tokens since the last end of a top-level statement.
	start    int // offset of the first; -1 if there is none
	function bool
	last     token.Token // ILLEGAL if there is none
	header   bool        // between for, if, switch or select and its block
	brackets []token.Token
}

func newGoReader(cell string) *goReader {
	r := &goReader{src: []byte(strings.ReplaceAll(cell, "\r", " ")), lines: []int{0}, start: -1}
	for i, c := range r.src {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	r.restart(0)
	return r
}

func (r *goReader) restart(at int) {
	r.from = at
	fset := token.NewFileSet()
	r.file = fset.AddFile("", -1, len(r.src)-at)
	r.s.Init(r.file, r.src[at:], func(token.Position, string) {}, scanner.ScanComments)
}

// next returns the index of the next line that a token or a comment begins; -1 at
// the end. If it is a command, [goReader.skip] must be called, else
// [goReader.read].
func (r *goReader) next() int {
	for {
		pos, tok, lit := r.s.Scan()
		if tok == token.EOF {
			return -1
		}
		at := r.from + r.file.Offset(pos)
		line, found := slices.BinarySearch(r.lines, at)
		if !found {
			line--
		}
		before := at
		for before > 0 && (r.src[before-1] == ' ' || r.src[before-1] == '\t') {
			before--
		}
		newline := tok == token.SEMICOLON && lit == "\n"
		if !newline && before <= r.lines[line] {
			// Scanned again if it is Go.
			r.restart(at)
			return line
		}
		r.addToken(at, tok)
	}
}

func (r *goReader) read() {
	pos, tok, _ := r.s.Scan()
	r.addToken(r.from+r.file.Offset(pos), tok)
}

// skip continues after next: the lines first to last are a command.
func (r *goReader) skip(first, last int) {
	end := len(r.src)
	if last+1 < len(r.lines) {
		end = r.lines[last+1]
	}
	for i := r.lines[first]; i < end; i++ {
		if r.src[i] != '\n' {
			r.src[i] = ' '
		}
	}
	r.restart(end)
}

// addToken notes a token.
func (r *goReader) addToken(at int, tok token.Token) {
	switch {
	case tok == token.COMMENT:
		return
	case tok == token.SEMICOLON && len(r.brackets) == 0 && !r.header:
		r.start, r.last, r.function = -1, token.ILLEGAL, false
		return
	case r.start < 0:
		r.start = at
		r.function = tok == token.FUNC
	}
	switch tok {
	case token.FOR, token.IF, token.SWITCH, token.SELECT:
		r.header = r.header || len(r.brackets) == 0
	case token.LBRACE:
		if len(r.brackets) == 0 && r.header {
			r.header = r.literal(at)
		}
		fallthrough
	case token.LPAREN, token.LBRACK:
		r.brackets = append(r.brackets, tok)
	case token.RPAREN, token.RBRACK, token.RBRACE:
		if n := len(r.brackets); n > 0 {
			r.brackets = r.brackets[:n-1]
		}
	}
	r.last = tok
}

// command reports whether a line, of which only the beginning has been looked at,
// is a command: a line is Go wherever Go allows what it begins with.
func (r *goReader) command(i int, line string) bool {
	switch {
	case question.MatchString(line), line != "" && len(strings.Trim(strings.TrimSpace(line), "?")) == 0 && len(strings.TrimSpace(line)) <= 2:
		return !r.open() && !r.element(i) // no Go has a question mark
	case strings.HasPrefix(line, "%"):
		return !r.open() && !r.element(i) // an operator stands at the end of a line
	case strings.HasPrefix(line, "!="):
		return false
	case strings.HasPrefix(line, "!"):
		return !r.expression(i)
	}
	return false
}

// open reports whether the innermost open bracket is a round or square one.
func (r *goReader) open() bool {
	n := len(r.brackets)
	return n > 0 && r.brackets[n-1] != token.LBRACE
}

// expression reports whether a line that begins with ! and stands behind what has
// been read is part of a Go expression: an operand may stand there, or brackets
// are open inside of which no statement can be. A statement cannot begin with !.
func (r *goReader) expression(line int) bool {
	switch {
	case r.open():
		return true
	case r.last == token.ILLEGAL: // the beginning of a top-level statement
		return false
	case r.last == token.COMMA, r.last == token.ARROW, token.ADD <= r.last && r.last <= token.LOR, token.EQL <= r.last && r.last <= token.DEFINE:
		return true // an operand is missing, and no statement could begin
	}
	switch r.probe(r.lines[line], probe).(type) {
	case nil:
		return false
	case *ast.ExprStmt: // a statement of its own, or part of an unfinished header
		return r.header && len(r.brackets) == 0
	}
	return true
}

// element reports whether a line stands inside the braces of a composite literal.
func (r *goReader) element(line int) bool {
	if len(r.brackets) == 0 || r.open() {
		return false
	}
	switch r.probe(r.lines[line], probe).(type) {
	case *ast.CompositeLit, *ast.KeyValueExpr:
		return true
	}
	return false
}

// literal reports whether the brace at an offset begins a composite literal, and
// not the block of a statement.
func (r *goReader) literal(at int) bool {
	if r.last == token.STRUCT || r.last == token.INTERFACE {
		return true // a type
	}
	_, literal := r.probe(at, "{"+probe).(*ast.CompositeLit)
	return literal
}

// probe is an expression that could stand wherever an operand can.
const probe = "!gaiden_probe"

// probe parses the unfinished statement up to an offset with text behind it that
// ends with the expression probe, and returns the syntax around that: nil where
// Go allows none.
func (r *goReader) probe(at int, text string) ast.Node {
	before := string(r.src[r.start:at])
	if r.function {
		if around := surrounding("package p;" + before + text); around != nil {
			return around
		}
	}
	return surrounding("package p;func _(){" + before + text)
}

// surrounding returns the syntax around the unary expression that ends a source.
func surrounding(source string) (around ast.Node) {
	file, _ := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution|parser.AllErrors)
	if file == nil {
		return nil
	}
	want := file.FileStart + token.Pos(len(source)-len(probe))
	var path []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		if u, ok := n.(*ast.UnaryExpr); ok && u.Op == token.NOT && u.OpPos == want && around == nil {
			around = path[len(path)-1]
		}
		path = append(path, n)
		return true
	})
	return around
}
