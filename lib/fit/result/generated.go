package result

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// Generated is what a net has generated for some prompts.
type Generated struct {
	Sequences []Sequence // one for each prompt
	Stopped   string     // why it ended early, such as Stop in the cell; "": it did not
	Displayed bool       // in the notebook, as it was generated

	Prompt  time.Duration // until the prompts were processed, without Compile
	Elapsed time.Duration // until the last token, without Compile
	Compile time.Duration // until the programs were there
}

// Sequence is what has become of a prompt.
type Sequence struct {
	Prompt string  // "": it was given as tokens
	Tokens []int32 // that were generated
	Text   string  // of Tokens; "" without a tokenizer
	End    string  // the stop text or token that ended it; "": Length, or Generated.Stopped
}

// Text is what was generated for the first prompt.
func (g *Generated) Text() string { return g.Sequences[0].Text }

// Count is the number of generated tokens.
func (g *Generated) Count() (n int) {
	for _, s := range g.Sequences {
		n += len(s.Tokens)
	}
	return n
}

// String is each prompt with what follows it.
func (g *Generated) String() string {
	var all []string
	for _, s := range g.Sequences {
		if s.Text == "" && len(s.Tokens) > 0 {
			all = append(all, strings.Trim(fmt.Sprint(s.Tokens), "[]"))
			continue
		}
		all = append(all, s.Prompt+s.Text)
	}
	return strings.Join(all, "\n\n")
}

// HTML is the text, and how fast it was generated; only that where the text is displayed.
func (g *Generated) HTML() string {
	s := "<div><small>" + html.EscapeString(g.Speed()) + "</small></div>"
	if !g.Displayed {
		s = `<div style="font-family:monospace;white-space:pre-wrap">` + html.EscapeString(strings.ToValidUTF8(g.String(), "\uFFFD")) + "</div>" + s
	}
	return s
}

// Speed is a line such as: 200 tokens in 0.52 s, 385 tokens/s.
func (g *Generated) Speed() string {
	s := fmt.Sprintf("%d tokens in %.2f s", g.Count(), g.Elapsed.Seconds())
	if d := (g.Elapsed - g.Prompt).Seconds(); d > 0 {
		s += fmt.Sprintf(", %.0f tokens/s", float64(g.Count())/d)
	}
	if g.Stopped != "" {
		s += "; stopped: " + g.Stopped
	}
	return s
}

// DisplayText, if it is set, begins to show a text that a net generates: show gets all of it
// so far, and end the result. Package report sets it in notebooks.
var DisplayText func() (show func(text string), end func(*Generated, error))
