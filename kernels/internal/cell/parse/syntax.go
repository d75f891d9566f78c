package parse

import (
	"go/scanner"
	"regexp"
	"slices"
	"strings"
)

// habits are lines that are right elsewhere and not in Go, and what to write
// instead. The first that matches counts.
var habits = []struct {
	line *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`^\s*[\pL_][\pL\pN_, ]*:?=\s*[%!][\pL_]+ ?.*$`), // as IPython's may
		"a magic or a shell command is a line of its own and yields no value to Go; timing.Timer{}.Time measures as %timeit does, exec.Command runs as ! does"},
	{regexp.MustCompile(`^\s*(import [\pL_][\w.]*( as \w+)?|from [\w.]+ import .*|(def|class) \w+.*:|(while|if|elif|with) .*:|for [\w, ()]+ in .*|(else|try):|print .*|\w+\s*=\s*lambda\b.*)\s*$`),
		"this line is Python's, and the kernel runs Go; %%script python3 gives a cell to Python"},
	{regexp.MustCompile(`^\s*\w+\s*:?=\s*\[[^\]]*[^\]\d][^\]]*\]\s*$`),
		"Go's lists have a type: x := []int{1, 2, 3}, or []float32{…}, []string{…}"},
	{regexp.MustCompile(`^\s*\w+\s*:?=\s*\{.*\}\s*$`),
		"Go's maps have types: x := map[string]int{\"a\": 1}"},
	{regexp.MustCompile(`^\s*((pip3?|conda|apt|apt-get|brew|git|python3?|mkdir|rm|cp|mv|ls|cat|head|tail|grep|find|wget|curl|tar|unzip|echo|export) [-\w./~].*|go (build|env|get|install|mod|run|test|version|vet)\b.*)$`),
		"a command of the shell begins with an exclamation mark: !ls -l"},
	{regexp.MustCompile(`^\s*(!=|==|&&|\|\||%|<=|>=|/[^/*]|\.[\pL_])`),
		"Go ends a statement with its line: an operator stands at the end of the line above, not at the beginning of the next"},
	{regexp.MustCompile(`^\s*#\s*(include\s*["<]|(define|ifdef|ifndef|pragma|undef)\s+\w|(if|elif)\s|(else|endif)\b)`),
		"this line is C's, and the kernel runs Go, which has no headers: packages are found by their names"},
}

// habit is what to write instead of a line.
func habit(line string) string {
	for _, h := range habits {
		if h.line.MatchString(line) {
			return h.hint
		}
	}
	return ""
}

// foundEnd is what the parser's errors say where more was wanted.
const foundEnd = "found the end of the cell"

// syntax turns the parser's errors into diagnostics; prefix is the length of
// what was put before the cell's text.
func (u *Unit) syntax(err error, prefix int) []Diagnostic {
	list, ok := err.(scanner.ErrorList)
	if !ok {
		return []Diagnostic{{Cell: u.ID, Message: err.Error()}}
	}
	var found Complaints
	end := len(strings.TrimRight(u.Text, " \t\n"))
	lines := Starts(u.Text)
	for _, e := range list {
		offset := e.Pos.Offset - prefix
		message := e.Msg
		if offset >= end {
			// The place is below the cell: what is missing is missing at its end.
			offset = end
			message = strings.Replace(message, "found '}'", foundEnd, 1)
			message = strings.Replace(message, "found 'EOF'", foundEnd, 1)
		}
		if len(found.All) > 0 && strings.HasSuffix(message, foundEnd) {
			continue // the parser has lost its way at an earlier mistake
		}
		offset = min(max(offset, 0), len(u.Text))
		line, _ := slices.BinarySearch(lines, offset+1)
		found.Add(Diagnostic{Cell: u.ID, Line: line, Column: offset - lines[line-1] + 1, Message: "syntax error: " + message}, func(d *Diagnostic) {
			d.Text = LineOf(u.Text, line)
			switch h := habit(d.Text); {
			case message == "expected 1 expression":
				d.Hint = "a cell shows the value of one expression; fmt.Println(a, b) prints several"
			case h != "":
				d.Hint = h
			case strings.HasPrefix(message, "illegal character U+0023"):
				d.Hint = "Go's comments begin with //"
			}
		})
	}
	return found.All
}

// Starts returns the offset of each line's first byte.
func Starts(text string) []int {
	at := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			at = append(at, i+1)
		}
	}
	return at
}

// at makes a diagnostic for a place in this cell.
func (u *Unit) at(line, column int, message, hint string) Diagnostic {
	return Diagnostic{Cell: u.ID, Line: line, Column: column, Message: message, Text: LineOf(u.Text, line), Hint: hint}
}
