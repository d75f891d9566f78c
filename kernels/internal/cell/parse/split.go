package parse

import (
	"go/scanner"
	"go/token"
)

// A chunk is one top-level piece of a cell: a declaration, or a statement.
// Its text is src[start:end].
type chunk struct {
	start, end int
	upto       int  // behind the semicolon that somebody typed, else end
	decl       bool // import, type, const, var, func or method
	pkg        bool // a package clause, which a cell may have and nobody reads
	silent     bool // ended by a semicolon that somebody typed
}

// A lexeme is a token with its place, kept because the scanner cannot look ahead.
type lexeme struct {
	Tok   token.Token
	Lit   string
	start int
	end   int
}

// Lex turns src into tokens. Text that no Go program could hold comes out as
// ILLEGAL tokens: the parser, not lex, complains about it.
func Lex(src string) []lexeme {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, []byte(src), func(token.Position, string) {}, 0)
	var out []lexeme
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		start := file.Offset(pos)
		end := start + len(lit)
		switch {
		case tok == token.SEMICOLON && lit == "\n":
			end = start
		case tok.IsOperator() && tok != token.SEMICOLON:
			end = start + len(tok.String())
		}
		out = append(out, lexeme{tok, lit, start, min(end, len(src))})
	}
}

// split cuts a cell's text at its top-level semicolons, typed or implied, and
// says of each piece whether it declares something. Comments belong to no
// chunk: the caller finds them between two.
func split(src string) []chunk {
	var (
		chunks []chunk
		first  = -1 // index of the chunk's first token
		depth  int
		header bool // between for, if, switch or select and the brace of its block
	)
	tokens := Lex(src)
	finish := func(last int, silent bool) {
		if first < 0 {
			return
		}
		c := chunk{start: tokens[first].start, end: tokens[last].end, upto: tokens[last].end, silent: silent}
		if silent {
			c.upto = tokens[last+1].end
		}
		c.decl = declares(tokens[first : last+1])
		c.pkg = tokens[first].Tok == token.PACKAGE
		chunks = append(chunks, c)
		first, depth, header = -1, 0, false
	}
	for i, t := range tokens {
		if t.Tok == token.SEMICOLON && depth <= 0 && !header {
			if first >= 0 {
				finish(i-1, t.Lit == ";")
			} else if n := len(chunks); n > 0 && t.Lit == ";" {
				chunks[n-1].silent, chunks[n-1].upto = true, t.end
			}
			continue
		}
		if first < 0 && t.Tok != token.SEMICOLON {
			first = i
		}
		switch t.Tok {
		case token.FOR, token.IF, token.SWITCH, token.SELECT:
			// Only at the top: inside brackets every semicolon is skipped anyway.
			header = header || depth == 0
		case token.LPAREN, token.LBRACK:
			depth++
		case token.LBRACE:
			depth++
			if depth == 1 {
				header = false
			}
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
	}
	finish(len(tokens)-1, false)
	return chunks
}

// declares reports whether the tokens of a chunk begin a declaration.
func declares(t []lexeme) bool {
	switch t[0].Tok {
	case token.IMPORT, token.TYPE, token.CONST, token.VAR:
		return true
	case token.FUNC:
	default:
		return false
	}
	if len(t) < 2 || t[1].Tok == token.IDENT {
		return true
	}
	if t[1].Tok != token.LPAREN {
		return false
	}
	// func (r T) Name( declares a method; func (a int) int { is a literal.
	depth, i := 0, 1
	for ; i < len(t); i++ {
		if t[i].Tok == token.LPAREN {
			depth++
		} else if t[i].Tok == token.RPAREN {
			if depth--; depth == 0 {
				break
			}
		}
	}
	return i+2 < len(t) && t[i+1].Tok == token.IDENT && t[i+2].Tok == token.LPAREN
}
