package parse

import (
	"fmt"
	"go/format"
	"go/parser"
	"go/printer"
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// Format returns a cell as gofmt would write it: declarations and statements, in the
// order in which they stand, with their comments. src is its Go; lines of shown, the
// whole cell, that are blank there are not Go and stay as they are. The error is
// Parse's.
func Format(src Source, shown string) (string, error) {
	src.Text, shown = strings.ReplaceAll(src.Text, "\r\n", "\n"), strings.ReplaceAll(shown, "\r\n", "\n")
	if _, err := Parse(src); err != nil {
		return "", err
	}
	lines, fixed := strings.Split(src.Text, "\n"), strings.Split(shown, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" && strings.TrimSpace(fixed[i]) != "" {
			lines[i] = fmt.Sprintf("//%s%d%[1]s", fixedMark, i)
		}
	}
	f := formatter{}
	if src.Main > 0 {
		f.section(strings.Join(lines[:src.Main], "\n")+"\n", false)
		lines = lines[src.Main:]
	}
	f.section(strings.Join(lines, "\n"), src.Main > 0)
	if f.err != nil {
		return "", f.err
	}
	out := strings.Split(f.out.String(), "\n")
	for i, line := range out {
		if m := fixedLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			out[i] = fixed[n]
		}
	}
	return strings.Join(out, "\n"), nil
}

// fixedMark stands around the number of a line that is not Go, in a comment in its place.
const fixedMark = "¤"

var fixedLine = regexp.MustCompile(`^\s*// ?` + fixedMark + `(\d+)` + fixedMark + `\s*$`)

// A formatter writes a cell piece by piece: what go/format takes at once is either
// declarations or statements.
type formatter struct {
	out      strings.Builder
	newlines int // between what was written and what comes
	err      error
}

// section writes a part of the cell. In a body everything is a statement.
func (f *formatter) section(text string, body bool) {
	chunks := split(text)
	kind := func(i int) string {
		c := chunks[i]
		switch {
		case c.pkg:
			return ""
		case i == len(chunks)-1 && c.silent && (body || !c.decl):
			return "silent"
		case !body && strings.HasPrefix(text[c.start:], "import"):
			return "import"
		case !body && c.decl:
			return "declaration"
		}
		return "statement"
	}
	// end is where a chunk ends with the comment that follows it on its line.
	end := func(i int) int {
		at := chunks[i].upto
		line, _, _ := strings.Cut(text[at:], "\n")
		if i+1 < len(chunks) && chunks[i+1].start < at+len(line) || strings.LastIndex(line, "/*") > strings.LastIndex(line, "*/") {
			return at
		}
		return at + len(line)
	}
	at := 0
	for i := 0; i < len(chunks); {
		if n := strings.LastIndex(text[at:chunks[i].start], fixedMark); n >= 0 {
			n += strings.IndexByte(text[at+n:], '\n') + 1
			f.add("", text[at:at+n], "")
			at += n
		}
		last := i
		for last+1 < len(chunks) && kind(last+1) == kind(i) && !strings.Contains(text[end(last):chunks[last+1].start], fixedMark) {
			last++
		}
		if c := chunks[last]; kind(last) == "silent" { // its semicolon means something
			f.add("statement", text[at:c.end], strings.TrimRight("; "+strings.TrimSpace(text[c.upto:end(last)]), " "))
		} else {
			f.add(kind(i), text[at:end(last)], "")
		}
		at, i = end(last), last+1
	}
	f.add("", text[at:], "")
}

// add writes a piece of a kind, "" as it stands, and what follows it on its line. One
// empty line is kept before it where there are some.
func (f *formatter) add(kind, piece, behind string) {
	text := strings.TrimSpace(piece)
	above, _, _ := strings.Cut(piece, text)
	f.newlines += strings.Count(above, "\n")
	if text == "" {
		return
	}
	if f.out.Len() > 0 {
		f.out.WriteString("\n\n"[:min(max(f.newlines, 1), 2)])
	}
	f.newlines = strings.Count(piece[len(above)+len(text):], "\n")
	if kind == "" {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = strings.TrimRight(line, " \t")
		}
		f.out.WriteString(strings.Join(lines, "\n"))
		return
	}
	done, err := formatted(text, kind == "statement")
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("format: %w", err)
	}
	f.out.WriteString(done + behind)
}

// formatted is go/format for a list of declarations, or of statements, in a file: as
// parts of files it changes comments, and takes function literals for declarations.
func formatted(text string, statements bool) (string, error) {
	if !statements {
		out, err := format.Source([]byte("package p\n\n" + text + "\n"))
		return strings.Trim(strings.TrimPrefix(string(out), "package p\n"), "\n"), err
	}
	const first = "\n_ = 0\n" // without a statement before it a comment moves
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", "package p\n\nfunc _() {"+first+indented(text)+"\n}\n", parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	const numbers = 1 << 30 // as go/format has it: 0X1P3 is 0x1p3
	c := printer.Config{Mode: printer.UseSpaces | printer.TabIndent | numbers, Tabwidth: 8, Indent: -1}
	err = c.Fprint(&out, fset, file)
	_, list, _ := strings.Cut(out.String(), first)
	return strings.Trim(list[:strings.LastIndexByte(list, '}')], "\n"), err
}

// indented is a text whose comments begin in no line's first column: there go/printer
// takes them for documentation, and changes them.
func indented(text string) string {
	var s scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	var out strings.Builder
	at := 0
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return out.String() + text[at:]
		}
		if n := file.Offset(pos); tok == token.COMMENT && (n == 0 || text[n-1] == '\n') {
			out.WriteString(text[at:n] + " ")
			at = n
		}
	}
}
