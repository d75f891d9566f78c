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
