package parse

import (
	"errors"
	"go/token"
	"strings"
)

// The states that Complete knows.
const (
	Whole   = "complete"
	Partial = "incomplete"
	Broken  = "invalid"
)

// Complete says whether a cell's Go text can run as it is, needs more lines, or
// is wrong whatever follows. indent is what the next line of a partial text
// begins with.
func Complete(src Source) (state, indent string) {
	_, err := Parse(src)
	if err == nil {
		return Whole, ""
	}
	depth := 0
	for _, t := range Lex(src.Text) {
		switch t.Tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
	}
	var be *BuildError
	if !errors.As(err, &be) {
		return Broken, ""
	}
	first := be.Diagnostics[0] // what is wrong there is wrong whatever follows
	switch {
	case strings.Contains(first.Message, "raw string literal not terminated"),
		strings.Contains(first.Message, "comment not terminated"):
		return Partial, ""
	case depth >= 0 && strings.Contains(first.Message, foundEnd):
		return Partial, strings.Repeat("\t", depth)
	}
	return Broken, ""
}
