package magic

import "strings"

// A goState knows, between two lines of Go, whether the next one continues
// something in which % and ! are no commands: a raw string, a comment, an open
// round or square bracket. It need not understand Go better than that: what is
// wrong, the parser finds.
type goState struct {
	raw, comment bool
	depth        int
}

func (s *goState) open() bool { return s.raw || s.comment || s.depth > 0 }

// feed reads one line.
func (s *goState) feed(line string) {
	for i := 0; i < len(line); {
		rest := line[i:]
		switch {
		case s.raw:
			end := strings.IndexByte(rest, '`')
			if end < 0 {
				return
			}
			s.raw = false
			i += end + 1
		case s.comment:
			end := strings.Index(rest, "*/")
			if end < 0 {
				return
			}
			s.comment = false
			i += end + 2
		case strings.HasPrefix(rest, "//"):
			return
		case strings.HasPrefix(rest, "/*"):
			s.comment = true
			i += 2
		case rest[0] == '`':
			s.raw = true
			i++
		case rest[0] == '"' || rest[0] == '\'':
			i += quoted(rest)
		case rest[0] == '(' || rest[0] == '[':
			s.depth++
			i++
		case rest[0] == ')' || rest[0] == ']':
			s.depth = max(s.depth-1, 0)
			i++
		default:
			i++
		}
	}
}

// quoted returns the length of the literal at the beginning of s; one that is
// not closed ends with the line.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}
