package webpage

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed page.css
var style string

// A heading is a line of the table of contents.
type heading struct {
	level       int
	name, title string
}

// A writer collects a page.
type writer struct {
	strings.Builder
	contents []heading
	names    map[string]bool // ids that are taken
	number   int             // of the last code cell
	failed   string          // what the page says of the first error; "" = none
}

// Page returns the page of a notebook file. The name stands where the notebook
// has no title of its own.
func Page(data []byte, name string) (string, error) {
	nb, err := read(data)
	if err != nil {
		return "", err
	}
	w := &writer{names: map[string]bool{"fold": true}}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		switch {
		case c.Type == "markdown":
			w.WriteString("<section>" + w.headings(clean(Markdown(c.attached()), "", "picture")) + "</section>\n")
		case c.Type != "code":
			w.WriteString("<pre>" + html.EscapeString(printable(string(c.Source))) + "</pre>\n")
		case strings.TrimSpace(string(c.Source)) != "":
			w.code(c)
		}
	}
	title := name
	if i := slices.IndexFunc(w.contents, func(h heading) bool { return h.level == 1 }); i >= 0 {
		title = w.contents[i].title
	}
	var toc strings.Builder
	for _, h := range w.contents {
		fmt.Fprintf(&toc, `<li class="h%d"><a href="#%s">%s</a></li>`, h.level, html.EscapeString(h.name), html.EscapeString(h.title))
	}
	if toc.Len() == 0 {
		toc.WriteString("<li>no headings</li>")
	}
	return fmt.Sprintf(frame, html.EscapeString(printable(title)), style, toc.String(), html.EscapeString(printable(name)), nb.facts(), w.failed, w.String()), nil
}

const frame = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Gaiden">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<nav aria-label="Contents"><details open><summary>Contents</summary><ol>%s</ol>
<label><input type="checkbox" id="fold"> hide all code</label></details></nav>
<main>
<header><dl><dt>notebook</dt><dd>%s</dd>%s</dl>%s</header>
%s</main>
</body>
</html>
`

// code writes a code cell and its outputs.
func (w *writer) code(c *cell) {
	w.number++
	note := fmt.Sprint("cell ", w.number)
	if from, to, ok := c.when(); ok {
		note += " · " + span(to.Sub(from))
	} else if c.Count == nil {
		note += " · not run"
	}
	fmt.Fprintf(w, `<section id="cell-%d"><details class="code" open><summary>%s</summary><pre>%s</pre></details>`+"\n", w.number, note, coloured(printable(string(c.Source))))
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.Type == "error" && w.failed == "" {
			why, _, _ := strings.Cut(escapes.ReplaceAllString(string(o.Value), ""), "\n")
			w.failed = fmt.Sprintf(`<p class="stopped"><b>This run stopped at <a href="#cell-%d">cell %d</a>:</b> %s What is below it has not run, or is of an earlier run.</p>`,
				w.number, w.number, html.EscapeString(printable(fmt.Sprintf("%s: %s", o.Name, cut(why, 300))))+".")
		}
		w.WriteString(o.html(w.number, i))
	}
	w.WriteString("</section>\n")
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

var (
	headingElement = regexp.MustCompile(`(?s)<h([1-4])[^>]*>(.*?)</h([1-4])>`)
	element        = regexp.MustCompile(`<[^>]*>`)
	notWord        = regexp.MustCompile(`[^\pL\pN_]+`)
)

// headings names the headings of a text cell and puts them into the contents.
func (w *writer) headings(markup string) string {
	return headingElement.ReplaceAllStringFunc(markup, func(m string) string {
		parts := headingElement.FindStringSubmatch(m)
		title := strings.TrimSpace(html.UnescapeString(element.ReplaceAllString(parts[2], "")))
		slug := strings.Trim(notWord.ReplaceAllString(strings.ToLower(title), "-"), "-")
		if slug == "" {
			slug = "part"
		}
		name := slug
		for n := 2; w.names[name]; n++ {
			name = fmt.Sprint(slug, "-", n)
		}
		w.names[name] = true
		level, _ := strconv.Atoi(parts[1])
		w.contents = append(w.contents, heading{level, name, title})
		return fmt.Sprintf(`<h%d id="%s">%s</h%[1]d>`, level, html.EscapeString(name), parts[2])
	})
}

var seed = regexp.MustCompile(`\bSeed:\s*(\d+)`)

// facts says of the run what the page begins with.
func (nb *notebook) facts() string {
	var first time.Time
	var took time.Duration
	cells, done := 0, 0
	seeds := map[string]bool{}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		if c.Type != "code" || strings.TrimSpace(string(c.Source)) == "" {
			continue
		}
		cells++
		if c.Count != nil {
			done++
		}
		if from, to, ok := c.when(); ok {
			took += to.Sub(from)
			if first.IsZero() || from.Before(first) {
				first = from
			}
		}
		for _, m := range seed.FindAllStringSubmatch(string(c.Source), -1) {
			seeds[m[1]] = true
		}
	}
	var b strings.Builder
	row := func(name, value string) {
		fmt.Fprintf(&b, "<dt>%s</dt><dd>%s</dd>", name, html.EscapeString(printable(value)))
	}
	if first.IsZero() {
		row("run", "the notebook does not say when")
	} else {
		row("run", fmt.Sprintf("%s UTC, %s in cells", first.UTC().Format("2006-01-02 15:04"), span(took)))
	}
	row("kernel", strings.TrimSpace(nb.kernel()))
	if machine, versions := nb.machine(); machine != "" {
		row("machine", machine)
		row("versions", versions)
	}
	if len(seeds) > 0 {
		var list []string
		for s := range seeds {
			list = append(list, s)
		}
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		row("seed", strings.Join(list, ", "))
	}
	row("cells", fmt.Sprintf("%d of %d have run", done, cells))
	return b.String()
}

// span returns a duration as people say it.
func span(d time.Duration) string {
	if s := d.Seconds(); s < 60 {
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
