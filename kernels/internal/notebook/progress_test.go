package notebook

import (
	"strings"
	"testing"
)

// What runs is there for other cells as it was sent, and its plots change form: fast ones
// while they change, and PNG in the end.
func TestProgress(t *testing.T) {
	const plot = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" width="40" height="20" role="img" aria-label="Plot: loss &amp; more"><path d="M0 0L40 20" stroke="#0072B2" fill="none"/></svg>`
	page := func(state string) map[string]any { return map[string]any{"text/html": "<b>" + state + "</b>" + plot} }
	html := func(data map[string]any) string { s, _ := data["text/html"].(string); return s }
	var p progress
	for _, tt := range []struct {
		id, state string
		more      bool
		form      string   // of the plot
		all       []string // what other cells see
	}{
		{"a", "1", true, `<img src="data:image/svg+xml;base64,`, []string{"1"}},
		{"b", "2", true, `<img src="data:image/svg+xml;base64,`, []string{"1", "2"}},
		{"a", "3", true, `<img src="data:image/svg+xml;base64,`, []string{"3", "2"}},
		{"c", "4", false, `<img src="data:image/png;base64,`, []string{"3", "2"}}, // never ran
		{"a", "5", false, `<img src="data:image/png;base64,`, []string{"2"}},
		{"b", "6", false, `<img src="data:image/png;base64,`, []string{"6"}},
	} {
		data, _ := p.form(tt.id, page(tt.state), nil, tt.more)
		if got := html(data); !strings.Contains(got, tt.form) || !strings.Contains(got, `alt="Plot: loss &amp; more" width="40" height="20"`) || strings.Contains(got, "<svg") {
			t.Errorf("%s of %s: got %q, want %s", tt.state, tt.id, got, tt.form)
		}
		all := p.all()
		if len(all) != len(tt.all) {
			t.Fatalf("after %s: got %d states, want %v", tt.state, len(all), tt.all)
		}
		for i, state := range tt.all {
			if got := html(all[i]); !strings.HasPrefix(got, "<b>"+state+"</b>") {
				t.Errorf("after %s: got %.20q as state %d, want %s", tt.state, got, i, state)
			}
		}
	}
}
