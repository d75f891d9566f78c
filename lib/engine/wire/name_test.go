package wire

import (
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		width int // 0: whole
		want  string
	}{
		{"cnn/conv1/weights", 0, "cnn/conv1/weights"},
		{"Gewicht ö 雪 ☃", 0, "Gewicht ö 雪 ☃"},
		{"wei\u202eghts", 0, `"wei\u202eghts"`},
		{"zero\u200bwidth", 0, `"zero\u200bwidth"`},
		{"\ufeffmark", 0, `"\ufeffmark"`},
		{"\u0085line\u2028", 0, `"\u0085line\u2028"`},
		{"no\u00a0break", 0, `"no\u00a0break"`},
		{"tab\tline\n", 0, `"tab\tline\n"`},
		{" space", 0, `" space"`},
		{`"wei\u202eghts"`, 0, `"\"wei\\u202eghts\""`}, // not what the name with the character itself looks like
		{"", 0, `""`},
		{"0123456789", 10, "0123456789"},
		{"0123456789a", 10, "01234…789a"},
		{"雪雪雪雪雪", 4, "雪雪…雪"},
		{strings.Repeat("x", 512), 5, "xx…xx"},
	} {
		got := Shown(tt.name)
		if tt.width > 0 {
			got = ShownBriefly(tt.name, tt.width)
		}
		if got != tt.want {
			t.Errorf("%q, width %d: got %s, want %s", tt.name, tt.width, got, tt.want)
		}
	}
}

// TestCheckName holds which names an array can have.
func TestCheckName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"cnn/conv1/weights", ""},
		{"Gewicht ö 雪 ☃", ""},
		{"a*b", ""},
		{"__metadata", ""},
		{"net/__metadata__", ""},
		{strings.Repeat("ö", 256), ""},
		{"", "empty"},
		{"__metadata__", "reserved"},
		{strings.Repeat("ö", 257), "514 bytes: limit is 512"},
		{"two\nlines", "control character"},
		{"nul\x00", "control character"},
		{"delete\x7f", "control character"},
		{"next line\u0085", "control character"},
		{"separator\u2028", "control character"},
		{"bytes\xff", "not UTF-8"},
		{"cut \xe9\x9b", "not UTF-8"},
		{"surrogate \xed\xa0\x80", "not UTF-8"},
		{"replaced \ufffd", "not UTF-8"},
		{" w", ""}, // shown and typed in quotes
		{"cnn/*", "prefix"},
		{"*", "prefix"},
	} {
		why := CheckName(tt.name)
		switch {
		case tt.want == "" && why != nil:
			t.Errorf("%q: got %v, want that it is taken", tt.name, why)
		case tt.want != "" && (why == nil || why.Code != Invalid || why.Next == "" || !strings.Contains(why.Text, tt.want)):
			t.Errorf("%q: got %v, want %q", tt.name, why, tt.want)
		}
	}
}
