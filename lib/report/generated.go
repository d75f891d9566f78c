package report

import (
	"time"

	"github.com/janpfeifer/gonb/gonbui"

	"gaiden/lib/fit/result"
)

// generated shows a text while a net generates it. The text stays in the notebook.
func generated() (show func(text string), end func(*result.Generated, error)) {
	id, text := "", ""
	var shown time.Time
	draw := func() {
		if id == "" {
			id = "gaiden_text_" + gonbui.UniqueId()
		}
		shown = time.Now()
		display(text, `<div style="font-family:monospace;white-space:pre-wrap">`+escape(text)+"</div>", id)
	}
	show = func(s string) {
		text = s
		if time.Since(shown) >= renewal {
			draw()
		}
	}
	return show, func(g *result.Generated, err error) {
		if g != nil {
			text, g.Displayed = g.String(), true
		}
		if text != "" {
			draw()
			flush()
		}
	}
}
