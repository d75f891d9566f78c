package parse

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Diagnostic is one complaint about a cell, at the cell's own line.
type Diagnostic struct {
	Cell    int    // execution number of the cell; 0 where the place is in no cell
	Line    int    // from 1; 0 where no line is known
	Column  int    // from 1, in bytes as Go counts; 0 where none is known
	Message string // Go's own words
	Text    string // the line complained about, empty when it is not known
	Hint    string // what to do next, may be empty
}

// String returns the complaint with its line and a caret below the column.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(d.Place())
	b.WriteString(d.Message)
	if d.Text != "" {
		b.WriteByte('\n')
		b.WriteString(Excerpt(d.Line, d.Column, d.Text))
	}
	if d.Hint != "" {
		b.WriteString("\n    " + d.Hint)
	}
	return b.String()
}

// Place returns "cell 3, line 5: ", as much of it as is known.
func (d Diagnostic) Place() string {
	switch {
	case d.Cell == 0 && d.Line == 0:
		return ""
	case d.Cell == 0:
		return fmt.Sprintf("line %d: ", d.Line)
	case d.Line == 0:
		return fmt.Sprintf("cell %d: ", d.Cell)
	}
	return fmt.Sprintf("cell %d, line %d: ", d.Cell, d.Line)
}

// excerptWidth is how many characters of a line are shown next to a caret: a front
// end that wraps the line would set the caret anywhere.
const excerptWidth = 72

// Excerpt shows one line of a cell with its number, and below it a caret at
// column (counted in bytes from 1; none is drawn for 0). Of a long line the part
// around the caret is shown. Tabs are kept in the caret's line, so that it stands
// right however wide a tab is drawn.
func Excerpt(line, column int, text string) string {
	margin := fmt.Sprintf("%5d | ", line)
	if column < 1 {
		return margin + text
	}
	before := []rune(text[:min(column-1, len(text))])
	after := []rune(text[min(column-1, len(text)):])
	if len(before)+len(after) > excerptWidth {
		left := max(0, len(before)-max(excerptWidth-len(after), excerptWidth/2))
		if left > 0 {
			before = append([]rune{'…'}, before[left+1:]...)
		}
		if room := excerptWidth - len(before); len(after) > room {
			after = append(after[:room-1:room-1], '…')
		}
	}
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(before))
	return margin + string(before) + string(after) + "\n" + strings.Repeat(" ", len(margin)-2) + "| " + pad + "^"
}

// A BuildError reports why a cell could not become a program.
type BuildError struct {
	Diagnostics []Diagnostic // never empty
	Dropped     int          // how many more there were
}

func (e *BuildError) Error() string {
	var b strings.Builder
	for i, d := range e.Diagnostics {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.String())
	}
	if e.Dropped > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.Dropped)
	}
	return b.String()
}

// Summary returns the first complaint on one line, without its excerpt.
func (e *BuildError) Summary() string {
	d := e.Diagnostics[0]
	return d.Place() + d.Message
}

// diagnosticsLimit is how many complaints are worth reading at once; the
// compiler stops at ten too.
const diagnosticsLimit = 10

// messageLimit is how many bytes of a complaint are worth reading: a name in it
// may be as long as the cell.
const messageLimit = 2000

// short cuts text that is longer than limit, between two characters.
func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// Complaints gathers diagnostics, none twice. The zero value is empty.
type Complaints struct {
	All  []Diagnostic
	seen map[string]bool
}

// Add takes a diagnostic. details completes it if it will be read: garbage has as
// many mistakes as characters, and looking for each one's line takes its time.
func (c *Complaints) Add(d Diagnostic, details func(*Diagnostic)) {
	key := fmt.Sprint(d.Cell, ":", d.Line, ":", d.Message)
	if c.seen[key] {
		return
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[key] = true
	if len(c.All) < diagnosticsLimit {
		details(&d)
	}
	c.All = append(c.All, d)
}

// NewBuildError sorts out what a reader needs: no complaint twice, no more
// than diagnosticsLimit.
func NewBuildError(all []Diagnostic) *BuildError {
	var found Complaints
	for _, d := range all {
		found.Add(d, func(d *Diagnostic) { d.Message = short(d.Message, messageLimit) })
	}
	n := min(len(found.All), diagnosticsLimit)
	return &BuildError{Diagnostics: found.All[:n], Dropped: len(found.All) - n}
}

// LineOf returns line n, counted from 1, of text, fit to be shown: valid
// UTF-8, no carriage return, not endless.
func LineOf(text string, n int) string {
	for ; n > 1; n-- {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			return ""
		}
		text = text[i+1:]
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	text = short(strings.TrimRight(text, "\r"), 300)
	return strings.ToValidUTF8(text, "\uFFFD")
}

// FileName is what the compiler and run-time tracebacks call a cell.
func FileName(id int) string { return "cell[" + strconv.Itoa(id) + "]" }

// GlueName is the file name given to lines that no cell wrote.
const GlueName = "gaiden.go"

// CellOfFile is the inverse of FileName. The name may have a directory before it.
func CellOfFile(name string) (id int, ok bool) {
	i := strings.LastIndex(name, "cell[")
	if i < 0 || !strings.HasSuffix(name, "]") {
		return 0, false
	}
	id, err := strconv.Atoi(name[i+len("cell[") : len(name)-1])
	return id, err == nil
}

// Place returns the line and column of a byte offset in text, both from 1.
func Place(text string, offset int) (line, column int) {
	offset = min(max(offset, 0), len(text))
	before := text[:offset]
	return 1 + strings.Count(before, "\n"), offset - strings.LastIndexByte(before, '\n')
}
