package notebook

import (
	"context"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// named completes a name in quotes, which means something to the function that
// is called with it, or the argument of a magic that takes such names.
func (n *Notebook) named(ctx context.Context, plain, before string) (word string, matches []string) {
	if n.Named == nil {
		return "", nil
	}
	var call string
	if strings.HasPrefix(plain, "%") {
		call, _, _ = strings.Cut(plain, " ")
		word = plain[strings.LastIndexAny(plain, " \t")+1:]
		if row := n.table().Find(call); row != nil && optionValue(row.Args, plain, word) != "" {
			return "", nil
		}
	} else if call, word = quoted(before); call == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, tabPatience)
	defer cancel()
	known := make(chan []string, 1)
	go func() { known <- n.Named(ctx, call) }()
	select {
	case names := <-known:
		for _, name := range names {
			if name != "" && strings.HasPrefix(name, word) && !slices.Contains(matches, name) {
				matches = append(matches, name)
			}
		}
	case <-ctx.Done(): // the front end has stopped waiting
	}
	slices.Sort(matches)
	return word, matches
}

// What a row's Args tell of a magic's arguments: its options, the words that it
// takes one of, and whether it takes code or the name of a variable.
var (
	options = regexp.MustCompile(`-[a-z]+`)
	choices = regexp.MustCompile(`\[([a-z]+(?:\|[a-z]+)+)\]`)
	valued  = regexp.MustCompile(`(-[a-z]+) ([A-Z]+|[a-z]+(?:\|[a-z]+)+)\b`)
	goCode  = regexp.MustCompile(`\b(statement|function|NET)\b`)
)

// arguments are those of a magic that begin with word: options, choices, and
// names of the cells' own where it takes such.
func (n *Notebook) arguments(plain, word string) (matches []string) {
	name, _, _ := strings.Cut(plain, " ")
	row := n.table().Find(name)
	if row == nil {
		return nil
	}
	var all []string
	value := optionValue(row.Args, plain, word)
	switch {
	case value != "":
		if strings.Contains(value, "|") {
			all = strings.Split(value, "|")
		}
	case strings.HasPrefix(word, "-"):
		all = options.FindAllString(row.Args, -1)
	case goCode.MatchString(row.Args):
		nets := strings.Contains(row.Args, "NET")
		for _, e := range n.memory.Entries() {
			if e.Kind == "var" || e.Kind == "func" && !nets {
				all = append(all, e.Name)
			}
		}
	case strings.HasPrefix(row.Args, "name …"):
		for _, e := range n.memory.Entries() {
			all = append(all, e.Name)
		}
	default:
		if m := choices.FindStringSubmatch(row.Args); m != nil {
			all = strings.Split(m[1], "|")
		}
	}
	for _, a := range all {
		if strings.HasPrefix(a, word) && !slices.Contains(matches, a) {
			matches = append(matches, a)
		}
	}
	slices.Sort(matches)
	return matches
}

// optionValue is what the option before a word takes, as a row's Args say it: "N",
// "relu|tanh"; "" where there is none.
func optionValue(args, plain, word string) (value string) {
	before := strings.Fields(strings.TrimSuffix(plain, word))
	for _, m := range valued.FindAllStringSubmatch(args, -1) {
		if m[1] == before[len(before)-1] {
			value = m[2]
		}
	}
	return value
}

// What stands before the cursor in an import's path: of an import on a line of its
// own, and of one in brackets, which have not been closed.
var (
	importLine  = regexp.MustCompile("(?:^|\\n|;)[ \t]*import[ \t]+(?:[\\pL\\pN_.]+[ \t]+)?[\"`]([^\"`\\n]*)$")
	importGroup = regexp.MustCompile("(?:^|\\n|;)[ \t]*import[ \t]*\\([^)]*[\\n(;][ \t]*(?:[\\pL\\pN_.]+[ \t]+)?[\"`]([^\"`\\n]*)$")
)

// importPath returns the beginning of an import's path that code breaks off in.
func importPath(code string) (word string, ok bool) {
	for _, r := range []*regexp.Regexp{importLine, importGroup} {
		if m := r.FindStringSubmatch(code); m != nil {
			return m[1], true
		}
	}
	return "", false
}

// quoted returns the beginning of a string that code breaks off in, and the name
// of the function or method whose argument it is; no call where it is none.
func quoted(code string) (call, word string) {
	file := token.NewFileSet().AddFile("", -1, len(code))
	var s scanner.Scanner
	s.Init(file, []byte(code), func(token.Position, string) {}, 0)
	type item struct {
		tok token.Token
		lit string
	}
	var items []item
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.SEMICOLON || lit == ";" {
			items = append(items, item{tok, lit})
		}
	}
	last := len(items) - 1
	if last < 0 || items[last].tok != token.STRING {
		return "", ""
	}
	lit := items[last].lit
	if quote := lit[:1]; len(lit) > 1 && strings.HasSuffix(lit, quote) || quote == `"` && strings.Contains(lit, `\`) {
		return "", "" // it has its end; or it is not what it says
	}
	for i, depth := last-1, 0; i > 0; i-- {
		switch items[i].tok {
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth++
		case token.LBRACK, token.LBRACE:
			depth--
		case token.SEMICOLON:
			if depth == 0 {
				return "", ""
			}
		case token.LPAREN:
			if depth--; depth < 0 {
				if items[i-1].tok == token.IDENT {
					return items[i-1].lit, lit[1:]
				}
				return "", ""
			}
		}
	}
	return "", ""
}
