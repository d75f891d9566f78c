package webpage

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	htmlTag   = regexp.MustCompile(`^</?[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:@][\w:.@-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>` + "`" + `]+))?)*\s*/?>|^<!--.*?-->`)
	address   = regexp.MustCompile(`^<((?:https?|mailto):[^\s<>]*)>`)
	linkEnd   = regexp.MustCompile(`^\(\s*(?:<([^<>\n]*)>|([^\s()]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+(?:"([^"]*)"|'([^']*)'))?\s*\)`)
	marked    = regexp.MustCompile(`^[!-/:-@\[-` + "`" + `{-~]`)
	lineBreak = regexp.MustCompile(` {2,}\n`)
)

// farthest is how far a mark's other end is looked for, in bytes: marks without
// one must not make a long text slow.
const farthest = 2048

// inline returns a paragraph's text as HTML.
func inline(s string) string {
	var b strings.Builder
	inlineTo(&b, lineBreak.ReplaceAllString(s, "<br>\n"), 0)
	return b.String()
}

func inlineTo(b *strings.Builder, s string, depth int) {
	if depth > deepest {
		b.WriteString(escapeText(s))
		return
	}
	var before rune // the character before s
	for s != "" {
		n := strings.IndexAny(s, "\\`*_~[!<")
		if n < 0 {
			n = len(s)
		}
		if n > 0 {
			b.WriteString(escapeLoose(s[:n]))
			before, _ = utf8.DecodeLastRuneInString(s[:n])
			if s = s[n:]; s == "" {
				return
			}
		}
		taken := inlineMark(b, s, before, depth)
		if taken == 0 {
			taken = 1
			b.WriteString(escapeText(s[:1]))
		}
		before = rune(s[taken-1])
		s = s[taken:]
	}
}

// escapeLoose escapes text that may have references in it; clean judges them.
func escapeLoose(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "<", "&lt;"), ">", "&gt;")
}

// inlineMark writes what a mark at the beginning of s stands for, and returns
// how much of s that is; 0 = it is a character like others.
func inlineMark(b *strings.Builder, s string, before rune, depth int) int {
	switch s[0] {
	case '\\':
		if len(s) > 1 && s[1] == '\n' {
			b.WriteString("<br>\n")
			return 2
		}
		if m := marked.FindString(s[1:]); m != "" {
			b.WriteString(html.EscapeString(m))
			return 1 + len(m)
		}
	case '`':
		n := len(s) - len(strings.TrimLeft(s, "`"))
		for at := n; at < len(s); {
			i := strings.Index(s[at:max(at, min(len(s), farthest))], s[:n])
			if i < 0 {
				break
			}
			from := at + i
			end := from + len(s[from:]) - len(strings.TrimLeft(s[from:], "`"))
			if end-from == n {
				code := strings.ReplaceAll(s[n:from], "\n", " ")
				if t := strings.TrimSpace(code); t != "" && strings.HasPrefix(code, " ") && strings.HasSuffix(code, " ") {
					code = code[1 : len(code)-1]
				}
				b.WriteString("<code>" + escapeText(code) + "</code>")
				return end
			}
			at = end
		}
		b.WriteString(s[:n])
		return n
	case '*', '_', '~':
		return emphasis(b, s, before, depth)
	case '!':
		if len(s) > 1 && s[1] == '[' {
			if text, to, title, n := linked(s[1:]); n > 0 {
				b.WriteString(`<img alt="` + html.EscapeString(text) + `" src="` + html.EscapeString(to) + `"` + titled(title) + ">")
				return 1 + n
			}
		}
	case '[':
		if text, to, title, n := linked(s); n > 0 {
			b.WriteString(`<a href="` + html.EscapeString(to) + `"` + titled(title) + ">")
			inlineTo(b, text, depth+1)
			b.WriteString("</a>")
			return n
		}
	case '<':
		near := s[:min(len(s), farthest)]
		if !strings.Contains(near, ">") {
			return 0
		}
		if m := address.FindStringSubmatch(near); m != nil {
			b.WriteString(`<a href="` + html.EscapeString(m[1]) + `">` + escapeText(m[1]) + "</a>")
			return len(m[0])
		}
		if m := htmlTag.FindString(near); m != "" {
			b.WriteString(m)
			return len(m)
		}
	}
	return 0
}

func titled(title string) string {
	if title == "" {
		return ""
	}
	return ` title="` + html.EscapeString(title) + `"`
}

// linked reads [text](to "title") at the beginning of s and returns its length.
func linked(s string) (text, to, title string, n int) {
	deep := 0
	for i := 0; i < min(len(s), farthest); i++ {
		switch s[i] {
		case '\\':
			i++
		case '`':
			if end := strings.IndexByte(s[i+1:], '`'); end >= 0 {
				i += end + 1
			}
		case '[':
			deep++
		case ']':
			if deep--; deep > 0 {
				continue
			}
			m := linkEnd.FindStringSubmatch(s[i+1:])
			if m == nil {
				return "", "", "", 0
			}
			return s[1:i], m[1] + m[2], m[3] + m[4], i + 1 + len(m[0])
		}
	}
	return "", "", "", 0
}

// emphasis writes *text*, **text**, _text_, __text__ and ~~text~~.
func emphasis(b *strings.Builder, s string, before rune, depth int) int {
	mark := s[0]
	run := len(s) - len(strings.TrimLeft(s, s[:1]))
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	next, _ := utf8.DecodeRuneInString(s[run:])
	if run < len(s) && !unicode.IsSpace(next) && !(mark == '_' && word(before)) {
		for _, n := range []int{3, 2, 1} {
			if n > run || mark == '~' && n != 2 {
				continue
			}
			if end := emphasisEnd(s, n); end > 0 {
				open, shut := "<em>", "</em>"
				switch {
				case mark == '~':
					open, shut = "<del>", "</del>"
				case n == 2:
					open, shut = "<strong>", "</strong>"
				case n == 3:
					open, shut = "<strong><em>", "</em></strong>"
				}
				b.WriteString(open)
				inlineTo(b, s[n:end], depth+1)
				b.WriteString(shut)
				return end + n
			}
		}
	}
	b.WriteString(s[:run])
	return run
}

// emphasisEnd returns where the n marks stand that end the text which n marks
// begin; 0 = nowhere.
func emphasisEnd(s string, n int) int {
	mark := s[0]
	s = s[:min(len(s), farthest)]
	for i := n; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '`':
			if end := strings.IndexByte(s[i+1:], '`'); end >= 0 {
				i += end + 1
			}
		case mark:
			run := len(s[i:]) - len(strings.TrimLeft(s[i:], s[:1]))
			last, _ := utf8.DecodeLastRuneInString(s[:i])
			next, _ := utf8.DecodeRuneInString(s[i+run:])
			if run >= n && i > n && !unicode.IsSpace(last) && (run == n || run == 3) && !(mark == '_' && (unicode.IsLetter(next) || unicode.IsDigit(next))) {
				return i + run - n
			}
			i += run - 1
		}
	}
	return 0
}
