package trial

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWalk holds which nets and ways a walk takes, that it saves the report after each, and
// what its error says.
func TestWalk(t *testing.T) {
	nets := []training{{name: "A b1"}, {name: "B b2"}, {name: "C b3"}}
	for _, tt := range []struct {
		name   string
		only   string
		ways   []string
		budget time.Duration
		bad    string // walked so, these are bad
		want   []string
		err    string
	}{
		{"all", "", once, time.Minute, "none", []string{"A b1", "B b2", "C b3"}, ""},
		{"one net", "^B", once, time.Minute, "none", []string{"B b2"}, ""},
		{"one way", "^[AC] .*, plain$", []string{"plain", "other"}, time.Minute, "none", []string{"A b1, plain", "C b3, plain"}, ""},
		{"two are bad", "", once, time.Minute, "[AC]", []string{"A b1", "B b2", "C b3"}, "2 pairs differ, or failed"},
		{"no time", "", once, -1, "none", nil, ""},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		r := &report{}
		var got []string
		err := r.walk(settings{json: file, only: regexp.MustCompile(tt.only), budget: tt.budget}, nets, tt.ways, "pairs differ", func(n training, way string) bool {
			name := strings.TrimSuffix(n.name+", "+way, ", ")
			got = append(got, name)
			r.Restarts = append(r.Restarts, restarted{Case: name})
			return !regexp.MustCompile(tt.bad).MatchString(name)
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if text := ""; err != nil || tt.err != "" {
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("%s: got error %q, want %q", tt.name, text, tt.err)
			}
		}
		b, err := os.ReadFile(file)
		if tt.want == nil {
			continue
		}
		var saved report
		if err != nil || json.Unmarshal(b, &saved) != nil || len(saved.Restarts) != len(tt.want) {
			t.Errorf("%s: got a file of %d, %v, want %d", tt.name, len(saved.Restarts), err, len(tt.want))
		}
	}
}
