package magic

import (
	"context"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gaiden/lib/engine/typo"
)

// A Row describes one magic.
type Row struct {
	Name    string   // with its marks: "%env", "%%bash"
	Aliases []string // other names, with their marks
	Args    string   // "[-n N] statement"; empty if it takes none
	Help    string   // one line
	More    string   // what else `?` shows
	Code    bool     // it is given Go: behind its options, or below its line
	Role    Role     // what it does to the plan
	Run     Run      // what it does; nil where Role says it all
}

// Run is what a magic does. An error is the cell's error: the Go code below is
// not run.
type Run func(ctx context.Context, host Host, c Command) error

// A Host is the notebook that a magic runs in.
type Host interface {
	// Stdout and Stderr show text.
	Stdout() io.Writer
	Stderr() io.Writer

	// Show shows the same thing in several forms, by MIME type. "text/plain"
	// must be among them.
	Show(data map[string]any)

	// Live returns what shows something that changes: each call replaces what the one
	// before has shown. It may be called from any goroutine. more says that another
	// call follows.
	Live() func(data map[string]any, more bool)

	// Progress is what shows the progress of the notebook's running cells, such as bars
	// and curves of training; without a running cell, of the one that ran last.
	Progress() []map[string]any

	// Left is closed when a cell of another page waits, since the one that shows this cell
	// may have been loaded again: what only shows something ends. It may be nil.
	Left() <-chan struct{}

	// Page shows help next to the notebook instead of in it, where the front
	// end can.
	Page(data map[string]any)

	// Go runs text as if it were a cell of its own, without magics.
	Go(ctx context.Context, text string) error

	// Keep runs text, which has the cell's lines at their lines, as the cell's
	// own: what it declares and changes is there for later cells.
	Keep(ctx context.Context, text string) error

	// Next puts text into a new cell below.
	Next(text string)
}

// A Role says what a magic does to the plan of its cell.
type Role int

const (
	// Line magics are run before the Go code.
	Line Role = iota
	// Main begins the body of func main; its arguments are the program's.
	Main
	// Exec makes a func main that calls the function named first; further
	// arguments are the program's.
	Exec
	// Arguments are the program's arguments.
	Arguments
	// Test makes the cell a test; its arguments are those of the test binary.
	Test
	// Format has the cell formatted, and nothing of it run.
	Format
	// Body magics take the text of the whole cell (and begin with %%).
	Body
)

// Names returns the row's name and its aliases.
func (r *Row) Names() []string { return append([]string{r.Name}, r.Aliases...) }

// Usage returns the name and the arguments.
func (r *Row) Usage() string { return strings.TrimSpace(r.Name + " " + r.Args) }

// String returns what `?` shows of the magic.
func (r *Row) String() string {
	s := r.Usage() + "\n    " + r.Help
	if len(r.Aliases) > 0 {
		s += "\n    also: " + strings.Join(r.Aliases, ", ")
	}
	if r.More != "" {
		s += "\n\n" + strings.Trim(r.More, "\n")
	}
	return s
}

// A Table is a set of magics, in the order in which help shows them.
type Table []Row

// Find returns the row of a magic by its name or an alias, nil if there is none.
func (t Table) Find(name string) *Row {
	for i := range t {
		if slices.Contains(t[i].Names(), name) {
			return &t[i]
		}
	}
	return nil
}

// Complete returns the names that begin with prefix, sorted.
func (t Table) Complete(prefix string) []string {
	var out []string
	for i := range t {
		for _, name := range t[i].Names() {
			if strings.HasPrefix(name, prefix) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// String lists all magics with a line each.
func (t Table) String() string {
	width := 0
	for i := range t {
		if n := len(t[i].Usage()); n <= usageColumn {
			width = max(width, n)
		}
	}
	var b strings.Builder
	for i := range t {
		usage := t[i].Usage()
		if len(usage) > width {
			usage += "\n" + strings.Repeat(" ", width)
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, usage, t[i].Help)
	}
	return b.String()
}

// usageColumn is how wide the usage may make its column.
const usageColumn = 36

// HTML lists all magics as a table.
func (t Table) HTML() string {
	var b strings.Builder
	b.WriteString("<table>\n")
	for i := range t {
		fmt.Fprintf(&b, "<tr><td style=\"text-align:left\"><code>%s</code></td><td style=\"text-align:left\">%s</td></tr>\n",
			html.EscapeString(t[i].Usage()), html.EscapeString(t[i].Help))
	}
	b.WriteString("</table>")
	return b.String()
}

// An UnknownError reports a magic that is not in the table.
type UnknownError struct {
	Name    string
	Line    int    // of the cell, from 1
	Nearest string // what was probably meant, or empty
}

func (e *UnknownError) Error() string {
	s := e.Name + ": no such magic"
	if e.Nearest != "" {
		s += "; did you mean " + e.Nearest + "?"
	}
	return s
}

func (e *UnknownError) Hint() string {
	if text := instead(e.Name); text != "" {
		return text
	}
	const all = "%help lists all magics"
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(e.Name, "%")); !unicode.IsLetter(first) && first != '_' {
		return "Go ends a statement with its line: an operator stands at the end of the line above, not at the beginning of the next; " + all
	}
	if program, ok := strings.CutPrefix(e.Name, "%%"); ok && e.Nearest == "" {
		return "%%script " + program + " gives the cell to the program " + program + "; " + all
	}
	return all
}

// unknown makes the error for a name.
func (t Table) unknown(name string, line int) error {
	if instead(name) != "" {
		return &UnknownError{Name: name, Line: line}
	}
	var all []string
	for i := range t {
		all = append(all, t[i].Names()...)
	}
	return &UnknownError{Name: name, Line: line, Nearest: typo.Nearest(name, all)}
}
