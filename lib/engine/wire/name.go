package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Shown is a name as people read it: what nobody sees, or what turns the
// letters beside it round, is written as Go writes it, in quotes, so that no
// name looks like another one. Most names are shown as they are.
func Shown(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.TrimSpace(name) != name || name == "" {
		return quoted
	}
	return name
}

// ShownBriefly is Shown for a line of many: of more than width characters the
// middle is left out.
func ShownBriefly(name string, width int) string {
	s := Shown(name)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	tail := (width - 1) / 2
	return string(r[:width-1-tail]) + "…" + string(r[len(r)-tail:])
}
