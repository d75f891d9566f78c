package webpage

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// formulas are the formulas of a text, in the order of their numbers.
type formulas []string

// Marks for a formula's number in the text without formulas. They are no
// characters, and printable drops them, so no text has them.
const openMark, closeMark = "\uFDD0", "\uFDD1"

var (
	numbered        = regexp.MustCompile(openMark + `(\d+)` + closeMark)
	numberedAddress = regexp.MustCompile(url.PathEscape(openMark) + `(\d+)` + url.PathEscape(closeMark))
)

// What takeFormulas steps over, and what it looks for inside a formula.
var (
	fenceLine    = regexp.MustCompile("^[ \t>*+-]*(?:\\d+[.)] +)?(?:(```+)[^`\n]*(?:\n|$)|(~~~+))")
	addressThere = regexp.MustCompile(`^(?:</?[A-Za-z][^<>]*>|\]\([^\s()]*\)|https?://[^\s<>]*)`)
	beginsMath   = regexp.MustCompile(`^\\begin\{([a-zA-Z]*\*?)\}`)
	blankLine    = regexp.MustCompile(`^\n[ \t]*\n`)
)

// takeFormulas takes the formulas out of Markdown, so that it does not read
// their characters as its own. Formulas are what JupyterLab takes for one: from
// $ to $, $$ to $$, \\( to \\), \\[ to \\], \begin{…} to \end{…}, within one
// paragraph, with braces in balance, and not in code.
func takeFormulas(text string) (string, formulas) {
	var b strings.Builder
	var found formulas
	numbers := map[string]int{}
	after := map[string]int{} // where no such formula ends any more
	lineBegins := true
	for i := 0; i < len(text); {
		n := 0
		switch rest := text[i:]; {
		case lineBegins && fenceLine.MatchString(rest):
			n = fencedCode(rest)
		case rest[0] == '`':
			n = codeSpan(rest)
		case rest[0] == '<', rest[0] == ']', rest[0] == 'h':
			n = len(addressThere.FindString(rest))
		case rest[0] == '$', rest[0] == '\\':
			opens, closes := delimiters(rest)
			end := 0
			if from, known := after[closes]; opens != "" && (!known || i >= from) {
				if end = formulaEnd(rest[len(opens):], closes); end == 0 {
					after[closes] = i + paragraph(rest)
				}
			}
			if end > 0 {
				formula := rest[:len(opens)+end]
				if _, known := numbers[formula]; !known {
					numbers[formula] = len(found)
					found = append(found, formula)
				}
				b.WriteString(openMark + strconv.Itoa(numbers[formula]) + closeMark)
				i += len(formula)
				lineBegins = false
				continue
			}
			if n = len(opens); rest[0] == '\\' && n == 0 {
				n = min(2, len(rest)) // what it escapes opens nothing
			}
		}
		n = max(n, 1)
		b.WriteString(text[i : i+n])
		i += n
		lineBegins = text[i-1] == '\n'
	}
	return b.String(), found
}

// restore puts the formulas back, escaped for where they stand.
func (f formulas) restore(text string, escape func(string) string) string {
	if len(f) == 0 {
		return text
	}
	put := func(marks *regexp.Regexp, escape func(string) string) {
		text = marks.ReplaceAllStringFunc(text, func(m string) string {
			if n, err := strconv.Atoi(marks.FindStringSubmatch(m)[1]); err == nil && n < len(f) {
				return escape(f[n])
			}
			return m
		})
	}
	put(numbered, escape)
	put(numberedAddress, url.PathEscape)
	return text
}

// delimiters returns what opens a formula at the beginning of s, and what
// closes it; "" where none begins.
func delimiters(s string) (opens, closes string) {
	for _, d := range [][2]string{{"$$", "$$"}, {"$", "$"}, {`\\(`, `\\)`}, {`\\[`, `\\]`}} {
		if strings.HasPrefix(s, d[0]) {
			return d[0], d[1]
		}
	}
	if m := beginsMath.FindStringSubmatch(s); m != nil {
		return m[0], fmt.Sprintf(`\end{%s}`, m[1])
	}
	return "", ""
}

// formulaEnd returns the length of a formula's rest, its end included; 0 = it
// does not end in this paragraph.
func formulaEnd(s, closes string) int {
	braces, inBraces := 0, 0
	for i := 0; i < len(s); {
		rest := s[i:]
		switch {
		case strings.HasPrefix(rest, closes):
			if braces == 0 {
				return i + len(closes)
			}
			inBraces = i + len(closes)
			i += len(closes)
			continue
		case rest[0] == '\\' && len(rest) > 1 && rest[1] != '\n', closes == "$" && strings.HasPrefix(rest, "$$"):
			i += 2
			continue
		case rest[0] == '\n' && blankLine.MatchString(rest):
			return inBraces
		case rest[0] == '{':
			braces++
		case rest[0] == '}' && braces > 0:
			braces--
		}
		i++
	}
	return inBraces
}

// paragraph returns the length of the paragraph at the beginning of s.
func paragraph(s string) int {
	for i := range len(s) {
		if s[i] == '\n' && blankLine.MatchString(s[i:]) {
			return i
		}
	}
	return len(s)
}

// codeSpan returns the length of the code span at the beginning of s, or of its
// backticks where it does not end.
func codeSpan(s string) int {
	ticks := len(s) - len(strings.TrimLeft(s, "`"))
	for i := ticks; i < len(s); {
		if s[i] == '\n' && blankLine.MatchString(s[i:]) {
			break
		}
		if s[i] != '`' {
			i++
			continue
		}
		n := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if i += n; n == ticks {
			return i
		}
	}
	return ticks
}

// fencedCode returns the length of the code block at the beginning of s.
func fencedCode(s string) int {
	m := fenceLine.FindStringSubmatch(s)
	fence := m[1] + m[2] // one of them is empty
	at := 0
	for line := range strings.Lines(s) {
		first := at == 0
		at += len(line)
		if t := strings.Trim(line, "> \t\r\n"); !first && strings.HasPrefix(t, fence) && strings.Trim(t, fence[:1]) == "" {
			break
		}
	}
	return at
}
