package report

import (
	"fmt"
	"html"
	"strings"
	"time"
	"unicode"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
)

// Rich is a value with a text form for terminals and an HTML form for notebooks.
type Rich interface {
	String() string
	HTML() string
}

// Show displays values, one below the other: a [Rich] value as HTML in a notebook and
// as text elsewhere, any other value as fmt.Println prints it. In a notebook, it
// returns after the kernel has received the displays.
func Show(values ...any) {
	sent := false
	for _, v := range values {
		rich, isRich := v.(Rich)
		if !isRich || !gonbui.IsNotebook {
			fmt.Println(v)
			continue
		}
		display(rich.String(), rich.HTML(), "")
		sent = true
	}
	if sent {
		flush()
	}
}

// display sends both forms; with an id, it replaces what had that id before.
func display(text, rich, id string) {
	gonbui.SendData(&protocol.DisplayData{
		Data:      map[protocol.MIMEType]any{protocol.MIMETextPlain: text, protocol.MIMETextHTML: rich},
		DisplayID: id,
	})
}

// flush waits until the kernel has what was sent: GoNB loses displays of the
// last moments of a cell that does not wait. A kernel that does not answer
// must not hold the cell, though.
func flush() {
	done := make(chan struct{})
	go func() {
		gonbui.Sync()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

// small is notes below a table or plot.
func small(notes ...string) string {
	var b strings.Builder
	for _, note := range notes {
		fmt.Fprintf(&b, "<div><small>%s</small></div>", escape(note))
	}
	return b.String()
}

// A column shows values one below the other.
type column []Rich

func (c column) String() string {
	var parts []string
	for _, v := range c {
		parts = append(parts, v.String())
	}
	return strings.Join(parts, "\n\n")
}

func (c column) HTML() string {
	s := ""
	for _, v := range c {
		s += v.HTML()
	}
	return "<div>" + s + "</div>"
}

// escape makes any text safe inside HTML and SVG, attributes included. Control
// characters, which XML does not allow, become spaces.
func escape(s string) string { return html.EscapeString(clean(s)) }

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
