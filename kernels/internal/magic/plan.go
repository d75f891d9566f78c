package magic

import (
	"fmt"
	"regexp"
	"strings"
)

// A Plan is a cell taken apart.
type Plan struct {
	Commands []Command // magics and shell commands, to be run in this order before the Go code
	Go       string    // the cell with everything that is not Go blanked; every line keeps its number
	Main     int       // number of the line, from 1, below which stands the body of main; 0 if there is none
	Call     string    // function that main calls (%exec)
	Args     []string  // the program's arguments
	Test     bool      // the cell is a test
	Format   int       // number of the line, from 1, that wants the cell formatted (%fmt) and not run; 0 if there is none
}

// HasGo reports whether any Go code is left to run.
func (p *Plan) HasGo() bool {
	return p.Main > 0 || p.Call != "" || p.Test || strings.TrimSpace(p.Go) != ""
}

// A Command is a line that is not Go: a magic, a shell command or a question.
type Command struct {
	Kind Kind
	Line int      // of the cell, from 1
	Row  *Row     // of a magic; of a question about one
	Name string   // the magic's name as it was typed; what a question is about
	Text string   // all after the name; the shell command
	Args []string // Text taken apart at spaces, see Split
	Body string   // of a cell magic: the cell below its first line
}

// A Kind tells commands apart.
type Kind int

const (
	// Magic runs Row.Run.
	Magic Kind = iota
	// Shell runs Text with a shell, in the notebook's directory.
	Shell
	// ModuleShell runs Text with a shell, in the directory of the cells' module.
	ModuleShell
	// Question asks what Name is: a magic if Row is set, else something of Go.
	Question
)

// gonbPrefix may stand before a command, to hide it from tools for Go.
const gonbPrefix = "//gonb:"

var question = regexp.MustCompile(`^\s*(?:\?{1,2}\s*([%\pL_][%\pL\pN_./]*)|([%\pL_][%\pL\pN_./]*)\?{1,2})\s*$`)

// Parse takes a cell apart. The error is an *UnknownError or an *ArgumentError.
func (t Table) Parse(cell string) (*Plan, error) {
	p := &Plan{}
	lines := strings.Split(cell, "\n")
	if done, err := t.cellMagic(p, lines); done || err != nil {
		return p, err
	}
	r := newGoReader(cell)
	for i := r.next(); i >= 0; i = r.next() {
		line := strings.TrimPrefix(strings.TrimSuffix(lines[i], "\r"), gonbPrefix)
		if !r.command(i, line) {
			r.read()
			continue
		}
		first := i
		if m := question.FindStringSubmatch(line); m != nil {
			name := m[1] + m[2]
			p.Commands = append(p.Commands, Command{Kind: Question, Line: i + 1, Name: name, Row: t.Find(name)})
		} else if help := t.Find("%help"); help != nil && strings.Trim(strings.TrimSpace(line), "?") == "" {
			p.Commands = append(p.Commands, Command{Kind: Magic, Line: i + 1, Row: help, Name: help.Name})
		} else {
			for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
				i++
				line = line[:len(line)-1] + " " + strings.TrimPrefix(strings.TrimSuffix(lines[i], "\r"), gonbPrefix)
			}
			if err := t.command(p, line, first+1, i+1); err != nil {
				return nil, err
			}
		}
		for j := first; j <= i; j++ {
			lines[j] = ""
		}
		r.skip(first, i)
	}
	p.Go = strings.Join(lines, "\n")
	return p, nil
}

// cellMagic deals with a cell that begins with a cell magic.
func (t Table) cellMagic(p *Plan, lines []string) (done bool, err error) {
	at := 0
	for at < len(lines)-1 && strings.TrimSpace(lines[at]) == "" {
		at++
	}
	first := strings.TrimPrefix(strings.TrimSuffix(lines[at], "\r"), gonbPrefix)
	if !strings.HasPrefix(first, "%%") || question.MatchString(first) {
		return false, nil
	}
	name, rest := cutName(first)
	row := t.Find(name)
	switch {
	case row == nil:
		return false, t.unknown(name, at+1)
	case row.Role != Body:
		return false, nil
	}
	p.Commands = []Command{{Kind: Magic, Line: at + 1, Row: row, Name: name, Text: rest, Args: Split(rest),
		Body: strings.Join(lines[at+1:], "\n")}}
	return true, nil
}

// command adds one magic or shell command; last is the number of its last line.
func (t Table) command(p *Plan, text string, line, last int) error {
	if text[0] == '!' {
		kind := Shell
		rest := text[1:]
		if strings.HasPrefix(rest, "*") {
			kind, rest = ModuleShell, rest[1:]
		}
		if rest = strings.TrimSpace(rest); rest != "" {
			p.Commands = append(p.Commands, Command{Kind: kind, Line: line, Text: rest})
		}
		return nil
	}
	name, rest := cutName(text)
	if name == "%" {
		// GoNB allows spaces after the mark.
		name, rest = cutName("%" + rest)
		if name == "%" {
			return nil
		}
	}
	row := t.Find(name)
	if row == nil {
		return t.unknown(name, line)
	}
	c := Command{Kind: Magic, Line: line, Row: row, Name: name, Text: rest, Args: Split(rest)}
	switch row.Role {
	case Body:
		return &ArgumentError{name, line, "stands below the first line, want it first: the whole cell is its text"}
	case Main:
		if p.Main > 0 {
			return &ArgumentError{name, line, "the cell has a main function already"}
		}
		p.Main = last
		p.arguments(c.Args)
	case Exec:
		if len(c.Args) == 0 {
			return &ArgumentError{name, line, "got no function, want " + row.Usage()}
		}
		p.Call = c.Args[0]
		p.arguments(c.Args[1:])
	case Arguments:
		p.Args = c.Args
	case Test:
		p.Test = true
		p.arguments(c.Args)
	case Format:
		if len(c.Args) > 0 {
			return Usage(c)
		}
		p.Format = line
	}
	if row.Run != nil {
		p.Commands = append(p.Commands, c)
	}
	return nil
}

func (p *Plan) arguments(args []string) {
	if len(args) > 0 {
		p.Args = args
	}
}

// cutName splits "%env A=1" into "%env" and "A=1".
func cutName(s string) (name, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// An ArgumentError reports a magic that is used in a way that makes no sense.
type ArgumentError struct {
	Name   string
	Line   int // of the cell, from 1
	Reason string
}

func (e *ArgumentError) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// Usage returns the error for a magic that was given the wrong arguments; a
// magic's Run returns it.
func Usage(c Command) error {
	if c.Row.Role == Body && strings.TrimSpace(c.Body) == "" {
		return &ArgumentError{c.Name, c.Line, "got no lines below it, want the code there that it is for: " + c.Row.Usage()}
	}
	return &ArgumentError{c.Name, c.Line, fmt.Sprintf("got %.80q, want %s", c.Text, c.Row.Usage())}
}

// Split takes arguments apart at spaces. Double quotes keep spaces together;
// inside them a backslash makes the next character plain, \n and \t what they
// are in Go.
func Split(s string) (args []string) {
	var arg []byte
	started, quoted := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			if started {
				args = append(args, string(arg))
			}
			arg, started = nil, false
			continue
		case c == '"':
			quoted = !quoted
			started = true // "" is an argument, too
			continue
		case c == '\\' && quoted && i+1 < len(s):
			i++
			switch c = s[i]; c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			}
		}
		arg = append(arg, c)
		started = true
	}
	if started {
		args = append(args, string(arg))
	}
	return args
}
