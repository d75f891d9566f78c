package cell

import (
	"go/scanner"
	"regexp"
	"slices"
	"strings"
)

// inGo matches lines that give a name to what a magic or a shell command yields, as
// IPython's may.
var inGo = regexp.MustCompile(`^\s*[\pL_][\pL\pN_, ]*:?=\s*[%!][\pL_]+ ?.*$`)

// python matches lines that Python has and Go has not.
var python = regexp.MustCompile(`^\s*(import [\pL_][\w.]*( as \w+)?|from [\w.]+ import .*|(def|class) \w+.*:|(for|while|if|elif|with) .*:|(else|try):|print .*)\s*$`)

// preprocessor matches lines that C's preprocessor takes.
var preprocessor = regexp.MustCompile(`^\s*#\s*(include\s*["<]|(define|ifdef|ifndef|pragma|undef)\s+\w|(if|elif)\s|(else|endif)\b)`)

// foundEnd is what the parser's errors say where more was wanted.
const foundEnd = "found the end of the cell"

// syntax turns the parser's errors into diagnostics; prefix is the length of
// what was put before the cell's text.
func (u *Unit) syntax(err error, prefix int) []Diagnostic {
	list, ok := err.(scanner.ErrorList)
	if !ok {
		return []Diagnostic{{Cell: u.ID, Message: err.Error()}}
	}
	var found complaints
	end := len(strings.TrimRight(u.Text, " \t\n"))
	lines := starts(u.Text)
	for _, e := range list {
		offset := e.Pos.Offset - prefix
		message := e.Msg
		if offset >= end {
			// The place is below the cell: what is missing is missing at its end.
			offset = end
			message = strings.Replace(message, "found '}'", foundEnd, 1)
			message = strings.Replace(message, "found 'EOF'", foundEnd, 1)
		}
		offset = min(max(offset, 0), len(u.Text))
		line, _ := slices.BinarySearch(lines, offset+1)
		found.add(Diagnostic{Cell: u.ID, Line: line, Column: offset - lines[line-1] + 1, Message: "syntax error: " + message}, func(d *Diagnostic) {
			d.Text = lineOf(u.Text, line)
			if message == "expected 1 expression" {
				d.Hint = "a cell shows the value of one expression; fmt.Println(a, b) prints several"
			} else if inGo.MatchString(d.Text) {
				d.Hint = "a magic or a shell command is a line of its own and yields no value to Go; timing.Timer{}.Time measures as %timeit does, exec.Command runs as ! does"
			} else if python.MatchString(d.Text) {
				d.Hint = "this line is Python's, and the kernel runs Go; %%script python3 gives a cell to Python"
			} else if strings.HasPrefix(message, "illegal character U+0023") {
				d.Hint = "Go's comments begin with //"
				if preprocessor.MatchString(d.Text) {
					d.Hint = "this line is C's, and the kernel runs Go, which has no headers: packages are found by their names"
				}
			}
		})
	}
	return found.all
}

// starts returns the offset of each line's first byte.
func starts(text string) []int {
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
	return Diagnostic{Cell: u.ID, Line: line, Column: column, Message: message, Text: lineOf(u.Text, line), Hint: hint}
}
