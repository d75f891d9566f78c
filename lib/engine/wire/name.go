package wire

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown is a name as people read it: what nobody sees, or what turns the
// letters around it, is written as Go writes it, in quotes, so that no
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

// maxName is how many bytes the name of an array may have.
const maxName = 512

// reservedName is that of a safetensors file's own entry.
const reservedName = "__metadata__"

// CheckName refuses, when an array is given a name, one that something else could not
// take later: a list, a magic, a snapshot's file, the socket. So a snapshot never fails
// for a name.
func CheckName(s string) *Error {
	bad := func(format string, args ...any) *Error {
		return Errorf(Invalid, format, args...).WithHint("give it a name such as cnn/conv1/weights")
	}
	switch {
	case s == "":
		return bad("empty array name")
	case len(s) > maxName:
		return Errorf(Invalid, "array name of %d bytes: limit is %d", len(s), maxName).WithHint("shorten it")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unwritable):
		return bad("array name %.60q has a control character or is not UTF-8", s)
	case strings.HasSuffix(s, "*"):
		return bad("array name %q ends in *, which stands for a prefix", s)
	case s == reservedName:
		return bad("array name %q is reserved: in files it is not an array's", s)
	}
	return nil
}

// unwritable are control characters, those that end a line, and what stands for bytes
// that are no character.
func unwritable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}
