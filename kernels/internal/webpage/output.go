package webpage

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
)

var (
	base64Text  = regexp.MustCompile(`^[A-Za-z0-9+/=]*$`)
	declaration = regexp.MustCompile(`(?s)<[?!].*?>`)
)

// html returns output i of a cell: its richest form that a page without
// JavaScript can show.
func (o *output) html(number, i int) string {
	switch o.Type {
	case "stream":
		class := "output"
		if o.Stream == "stderr" {
			class += " stderr"
		}
		return fmt.Sprintf("<pre class=\"%s\">%s</pre>\n", class, terminal(string(o.Text)))
	case "error":
		var trace []string
		for _, l := range o.Traceback {
			trace = append(trace, string(l))
		}
		if len(trace) == 0 {
			trace = []string{fmt.Sprintf("%s: %s", o.Name, o.Value)}
		}
		return fmt.Sprintf("<pre class=\"output error\">%s</pre>\n", terminal(strings.Join(trace, "\n")))
	}
	alt := fmt.Sprintf("picture, output of cell %d", number)
	// Names inside an output are its own: another may use the same.
	own := fmt.Sprintf("o%d-%d-", number, i)
	div := func(markup string) string { return "<div class=\"output\">" + markup + "</div>\n" }
	if s, ok := o.Data["text/html"]; ok {
		return div(clean(string(s), own, alt))
	}
	if s, ok := o.Data["image/svg+xml"]; ok {
		return div(clean(declaration.ReplaceAllString(string(s), ""), own, alt))
	}
	for _, mime := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		picture := strings.Join(strings.Fields(string(o.Data[mime])), "")
		if picture != "" && base64Text.MatchString(picture) {
			return div(fmt.Sprintf(`<img alt="%s" src="data:%s;base64,%s">`, alt, mime, picture))
		}
	}
	if s, ok := o.Data["text/markdown"]; ok {
		return div(clean(Markdown(string(s)), own, alt))
	}
	if s, ok := o.Data["text/plain"]; ok {
		return "<pre class=\"output\">" + terminal(string(s)) + "</pre>\n"
	}
	if len(o.Data) == 0 {
		return ""
	}
	var mimes []string
	for mime := range o.Data {
		mimes = append(mimes, mime)
	}
	slices.Sort(mimes)
	return fmt.Sprintf("<p class=\"note\">An output of %s is left out: a page without JavaScript cannot show it.</p>\n", html.EscapeString(printable(strings.Join(mimes, ", "))))
}
