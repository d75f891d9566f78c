package report

import (
	"time"

	"github.com/janpfeifer/gonb/gonbui"

	"gaiden/lib/fit/result"
)

// textDelay is how long a text is being generated before it is displayed: a short one is there
// at once, for whoever prints it.
const textDelay = 300 * time.Millisecond

// generated shows a text while a net generates it. At the end a line remains that says how fast it
// was, for the text is the value of the call, or all of the text if the call fails or is stopped.
func generated(net string) (show func(text string), end func(*result.Generated, error)) {
	began, id, text := time.Now(), "", ""
	var shown time.Time
	draw := func(s string) {
		display(s, `<div style="font-family:monospace;white-space:pre-wrap">`+escape(s)+"</div>", id)
	}
	show = func(s string) {
		text = s
		now := time.Now()
		if now.Sub(began) < textDelay || now.Sub(shown) < renewal {
			return
		}
		if id == "" {
			id = "gaiden_text_" + gonbui.UniqueId()
		}
		shown = now
		draw(text)
	}
	return show, func(g *result.Generated, err error) {
		switch {
		case id == "":
			return
		case g != nil && g.Stopped == "" && err == nil:
			draw(net + ": " + g.Speed())
		case g != nil:
			draw(text + "\n" + net + ": " + g.Speed())
		default:
			draw(text)
		}
		flush()
	}
}
