package typo

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"strings", "strconv", "sort", "fmt"}
	tests := []struct{ word, want string }{
		{"strngs", "strings"}, {"stirngs", "strings"}, {"srot", "sort"}, {"ftm", "fmt"},
		{"x", ""}, {"", ""}, {"database", ""}, {"fmt", ""},
	}
	for _, tt := range tests {
		if got := Nearest(tt.word, names); got != tt.want {
			t.Errorf("Nearest(%q): got %q, want %q", tt.word, got, tt.want)
		}
	}
}
