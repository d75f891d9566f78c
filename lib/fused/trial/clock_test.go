package main

import (
	"encoding/json"
	"strings"
	"testing"

	"gaiden/lib/fused/tiling"
)

// TestTilings holds that every tiling of a timed op is one to be compared, and what is
// said of one that is wrong.
func TestTilings(t *testing.T) {
	d := &desk{cuda: true}
	for _, c := range timeCases() {
		var compared []variant
		for _, v := range d.variants(c, true) {
			if v.op != nil {
				compared = append(compared, v)
			}
		}
		want := 0
		if c.op != nil {
			want = len(c.op.Tiles())
		}
		if len(compared) != want {
			t.Errorf("%s: got %d tilings compared, want all %d", c.name, len(compared), want)
		}
		for _, v := range d.variants(c, false) {
			if v.op != nil {
				t.Errorf("%s: got %s compared without -tilings", c.name, v.name)
			}
		}
	}
	for _, tt := range []struct {
		name string
		t    timed
		want bool
	}{
		{"right", timed{tiling: true, FromPlain: &tiling.Distance{Outputs: []float64{1e-4}, Mark: 2e-3}}, false},
		{"wrong", timed{tiling: true, FromPlain: &tiling.Distance{Outputs: []float64{3e-3}, Mark: 2e-3}}, true},
		{"failed", timed{tiling: true, Note: "lost"}, true},
		{"no tiling", timed{}, false},
		{"a failure of no tiling", timed{Note: "lost"}, false},
	} {
		tt.t.Samples = []float64{1}
		if got := tt.t.Bad(); got != tt.want || got != strings.HasPrefix(tt.t.String(), "BAD ") {
			t.Errorf("%s: got bad %t, want %t: %s", tt.name, got, tt.want, tt.t)
		}
		b, err := json.Marshal(tt.t)
		if err != nil || strings.Contains(string(b), `"from_plain":{"outputs":[`) != (tt.t.FromPlain != nil) {
			t.Errorf("%s: got %s and %v, want the distance if there is one", tt.name, b, err)
		}
	}
}
