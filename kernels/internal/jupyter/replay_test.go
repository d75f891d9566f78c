package jupyter

import (
	"fmt"
	"testing"
)

func TestSignatures(t *testing.T) {
	s := signatures{limit: 3}
	for _, tt := range []struct {
		signature string
		want      bool
	}{
		{"aa", true}, {"aa", false}, {"AA", false}, {"bb", true}, {"cc", true}, {"aa", false},
		{"dd", true}, // aa is forgotten
		{"aa", true}, {"cc", false}, {"dd", false}, {"", true}, {"", true},
	} {
		if got := s.add([]byte(tt.signature)); got != tt.want {
			t.Errorf("add(%q): got %t, want %t", tt.signature, got, tt.want)
		}
	}
	var all signatures
	for i := range 3 * remembered {
		all.add(fmt.Append(nil, i))
	}
	if len(all.known) != remembered || len(all.ring) != remembered {
		t.Errorf("got %d and %d signatures, want %d", len(all.known), len(all.ring), remembered)
	}
}
