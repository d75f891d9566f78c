package keep

import (
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/parse"
)

// TestRefused: the hint has a name for a function that makes the value, whatever
// letter the variable's begins with.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"file", "func newFile() int { … }"},
		{"über", "func newÜber() int { … }"},
		{"ångström", "func newÅngström() int { … }"},
		{"世界", "func new世界() int { … }"},
		{"_x", "func new_x() int { … }"},
		{"X", "func newX() int { … }"},
	} {
		m := &Memory{}
		m.makeMaps()
		m.unkept[tt.name] = unkept{typ: "int", why: "it holds a channel", cell: 3}
		if _, hint := m.refused(tt.name, &parse.Unit{}); !strings.HasSuffix(hint, tt.want) {
			t.Errorf("got hint %q, want %q at its end", hint, tt.want)
		}
	}
}
