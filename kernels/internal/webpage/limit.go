package webpage

import (
	"bytes"
	"errors"
	"strings"
)

// Limits of Markdown, all beyond what anybody writes: goldmark takes the cube of the
// depth of lists and the square of that of quotes, fills up the rows of a table, and
// repeats an address for each link that names it. What exceeds a limit is shown as
// text.
const (
	maxDepth  = 100
	maxFilled = 100_000 // cells that tables do not write
	maxGrowth = 64      // bytes of HTML for a byte of Markdown
)

// excessive reports whether lists and quotes are too deep, or tables too empty.
func excessive(text string) bool {
	var columns []int // of the markers of the lists around a line
	width, filled := 0, 0
	for line := range strings.Lines(text) {
		if strings.Trim(line, "- \t\r\n") != "" && strings.Trim(line, "* \t\r\n") != "" { // else a rule
			depth := 0
			columns, depth = markers(line, columns)
			if depth > maxDepth {
				return true
			}
		}
		bars := strings.Count(line, "|")
		switch {
		case bars > 0 && strings.Contains(line, "-") && strings.Trim(line, "|-: \t>\r\n") == "":
			width = bars
		case strings.TrimSpace(line) == "":
			width = 0
		default:
			filled += max(width-bars, 0)
		}
	}
	return filled > maxFilled
}

// markers reads the markers of lists and quotes that a line begins with. It returns
// the columns of the lists that the next line may continue, and how deep this line is.
func markers(line string, columns []int) (_ []int, depth int) {
	column, quotes := 0, 0
	for line != "" {
		switch c := line[0]; {
		case c == '\t':
			column += 4
		case c == ' ':
			column++
		case c == '>':
			column++
			quotes++
		default:
			digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
			rest := line[digits:]
			if len(rest) < 2 || rest[1] != ' ' && rest[1] != '\t' || !(digits == 0 && strings.IndexByte("-*+", rest[0]) >= 0 || digits > 0 && strings.IndexByte(".)", rest[0]) >= 0) {
				return columns, len(columns) + quotes
			}
			for len(columns) > 0 && columns[len(columns)-1] >= column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, column)
			column += digits
			line = rest
			column++
		}
		line = line[1:]
	}
	return columns, len(columns) + quotes
}

// errGrown reports HTML that is out of proportion to its Markdown.
var errGrown = errors.New("webpage: a text cell grows too large")

// A bounded buffer refuses what exceeds its limit.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errGrown
	}
	return b.Buffer.Write(p)
}
