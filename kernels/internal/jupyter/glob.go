package jupyter

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// setPattern is a set of characters in a pattern. A ] at the start is a member.
var setPattern = regexp.MustCompile(`^\[(\^?)(\]?[^\]]*)\]`)

// glob is a pattern as SQLite's GLOB has it, by which IPython searches its history, as a
// regular expression for a whole text: * is any text, ? any character, [a-z] one of a set and
// [^a-z] one not of it; all else, case included, is itself. Unlike path.Match it gives / no
// meaning. It is nil where that matches nothing, as a [ without its ].
func glob(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for pattern != "" {
		r, n := utf8.DecodeRuneInString(pattern)
		switch r {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			m := setPattern.FindStringSubmatch(pattern)
			if m == nil {
				return nil
			}
			n = len(m[0])
			switch in := members([]rune(m[2])); {
			case in != "":
				b.WriteString("[" + m[1] + in + "]")
			case m[1] == "": // z-a
				return nil
			default:
				b.WriteString(".")
			}
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
		pattern = pattern[n:]
	}
	return regexp.MustCompile(b.String() + `\z`)
}

// members are those of a set, as a regular expression has them.
func members(set []rune) string {
	s := ""
	for i := 0; i < len(set); i++ {
		low, high := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' {
			high = set[i+2]
			i += 2
		}
		if low <= high { // else no character is
			s += fmt.Sprintf(`\x{%x}-\x{%x}`, low, high)
		}
	}
	return s
}
