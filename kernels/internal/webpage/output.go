package webpage

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	base64Text  = regexp.MustCompile(`^[A-Za-z0-9+/=]*$`)
	declaration = regexp.MustCompile(`(?s)<[?!].*?>`)
)

// part returns output i of a cell: its richest form that a page without
// JavaScript can show.
func (o *output) part(number, i int) part {
	plain := func(markup string) part { return part{before: markup} }
	switch o.Type {
	case "stream":
		class := "output"
		if o.Stream == "stderr" {
			class += " stderr"
		}
		return plain(fmt.Sprintf("<pre class=\"%s\">%s</pre>\n", class, terminal(string(o.Text))))
	case "error":
		var trace []string
		for _, l := range o.Traceback {
			trace = append(trace, string(l))
		}
		if len(trace) == 0 {
			trace = []string{fmt.Sprintf("%s: %s", o.Name, o.Value)}
		}
		return plain(fmt.Sprintf("<pre class=\"output error\">%s</pre>\n", terminal(strings.Join(trace, "\n"))))
	}
	rich := func(markup string) part {
		return part{
			before: `<div class="output">`, body: clean(markup, nil), after: "</div>\n",
			own: fmt.Sprintf("o%d-%d-", number, i), alt: fmt.Sprintf("image, output of cell %d", number),
		}
	}
	if s, ok := o.Data["text/html"]; ok {
		return rich(string(s))
	}
	if s, ok := o.Data["image/svg+xml"]; ok {
		return rich(declaration.ReplaceAllString(string(s), ""))
	}
	for _, mime := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		picture := strings.Join(strings.Fields(string(o.Data[mime])), "")
		if picture != "" && base64Text.MatchString(picture) {
			facts := o.Metadata.PNG
			size := ""
			if facts.Width >= 1 && facts.Width <= 1e4 { // its pixels may be finer than those of the page
				size = fmt.Sprintf(` width="%.0f"`, facts.Width)
			}
			p := rich(fmt.Sprintf(`<img src="data:%s;base64,%s"%s>`, mime, picture, size))
			if caption(facts.Alt) != "" {
				p.alt = facts.Alt
				p.before = `<figure class="output">`
				p.after = "<figcaption>" + html.EscapeString(printable(caption(facts.Alt))) + "</figcaption></figure>\n"
			}
			return p
		}
	}
	if s, ok := o.Data["text/markdown"]; ok {
		return rich(fromMarkdown(string(s)))
	}
	if s, ok := o.Data["text/plain"]; ok {
		return plain("<pre class=\"output\">" + terminal(string(s)) + "</pre>\n")
	}
	if len(o.Data) == 0 {
		return part{}
	}
	mimes := slices.Sorted(maps.Keys(o.Data))
	return plain(fmt.Sprintf("<p class=\"note\">An output of %s is left out: a page without JavaScript cannot show it.</p>\n", html.EscapeString(printable(strings.Join(mimes, ", ")))))
}

// caption is what stands below an image: what it shows, without the numbers that its
// alternative text has for readers who do not see them.
func caption(alt string) string {
	what, _, _ := strings.Cut(alt, ";")
	what = strings.TrimPrefix(what, "Plot: ")
	if what == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(what)
	return strings.ToUpper(string(first)) + what[size:]
}
