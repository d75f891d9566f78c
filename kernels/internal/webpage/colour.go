package webpage

import (
	"go/scanner"
	"go/token"
	"html"
	"strings"
)

// builtin are the names that Go declares in every program.
var builtin = map[string]bool{"any": true, "append": true, "bool": true, "byte": true, "cap": true, "clear": true, "close": true, "comparable": true, "complex64": true,
	"complex128": true, "copy": true, "delete": true, "error": true, "false": true, "float32": true, "float64": true, "int": true, "int8": true, "int16": true,
	"int32": true, "int64": true, "iota": true, "len": true, "make": true, "max": true, "min": true, "new": true, "nil": true, "panic": true, "print": true,
	"println": true, "recover": true, "rune": true, "string": true, "true": true, "uint": true, "uint8": true, "uint16": true, "uint32": true, "uint64": true, "uintptr": true}

// coloured returns a cell's Go as HTML, its words marked by what they are:
// k keyword, b built in, s string, n number, c comment, m magic.
func coloured(source string) string {
	// Magics are no Go; the scanner sees blanks there.
	masked := []byte(source)
	type mark struct {
		from, to int
		class    string
	}
	var marks []mark
	at := 0
	for line := range strings.Lines(source) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "%") || strings.HasPrefix(t, "!") && !strings.Contains(t, "=") {
			end := at + len(strings.TrimRight(line, "\n"))
			marks = append(marks, mark{at, end, "m"})
			for i := at; i < end; i++ {
				masked[i] = ' '
			}
		}
		at += len(line)
	}
	magics := marks
	marks = nil
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(masked))
	s.Init(file, masked, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		from, class := file.Offset(pos), ""
		switch {
		case tok == token.COMMENT:
			class = "c"
		case tok == token.STRING, tok == token.CHAR:
			class = "s"
		case tok == token.INT, tok == token.FLOAT, tok == token.IMAG:
			class = "n"
		case tok.IsKeyword():
			class = "k"
		case tok == token.IDENT && builtin[literal]:
			class = "b"
		}
		if class != "" {
			// The scanner drops carriage returns from literals.
			marks = append(marks, mark{from, min(from+len(literal), len(source)), class})
		}
	}
	var b strings.Builder
	at = 0
	for len(marks) > 0 || len(magics) > 0 {
		var m mark
		if len(marks) == 0 || len(magics) > 0 && magics[0].from < marks[0].to {
			m, magics = magics[0], magics[1:]
		} else {
			m, marks = marks[0], marks[1:]
		}
		if m.from < at {
			continue // a magic's look-alike inside a long string
		}
		b.WriteString(html.EscapeString(source[at:m.from]))
		b.WriteString(`<span class="` + m.class + `">` + html.EscapeString(source[m.from:m.to]) + `</span>`)
		at = m.to
	}
	b.WriteString(html.EscapeString(source[at:]))
	return b.String()
}
