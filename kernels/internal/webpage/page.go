package webpage

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"gaiden/lib/timing/units"
)

//go:embed page.css
var style string

//go:embed page.js
var script string

// scriptHash lets a page's own script run, and no other.
var scriptHash = func() string {
	sum := sha256.Sum256([]byte(script))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// A heading is a line of the table of contents.
type heading struct {
	level       int
	name, title string
}

// A part is a piece of a page: markup of ours around what clean returned.
type part struct {
	before, after string
	body          *html.Node // nil = none
	own           string     // begins the ids inside
	alt           string     // stands for images that have no text
}

// A writer collects a page.
type writer struct {
	parts    []part
	contents []heading
	names    map[string]bool   // ids of text cells and outputs
	taken    map[string]int    // how often a heading's id was taken
	slugs    map[string]string // ids of the headings by their titles in short
	number   int               // of the last code cell
	failed   int               // the first code cell with an error; 0 = none
	why      string            // its error
	later    bool              // a cell below it has run, too
}

func (w *writer) add(p part) { w.parts = append(w.parts, p) }

// Page returns the page of a notebook file. The name stands where the notebook
// has no title of its own.
func Page(data []byte, name string) (string, error) {
	nb, err := read(data)
	if err != nil {
		return "", err
	}
	w := &writer{names: map[string]bool{}, taken: map[string]int{}, slugs: map[string]string{}}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		switch {
		case c.Type == "markdown":
			w.add(part{
				before: `<section class="text">`, body: clean(fromMarkdown(string(c.Source)), c.Attachments), after: "</section>\n",
				own: fmt.Sprintf("t%d-", i), alt: "image",
			})
		case c.Type != "code":
			w.add(part{before: "<pre>" + html.EscapeString(printable(string(c.Source))) + "</pre>\n"})
		case strings.TrimSpace(string(c.Source)) != "":
			w.code(c)
		}
	}
	titled := w.splitTitle()
	for i := range w.parts {
		w.name(&w.parts[i])
	}
	texts := make([]string, len(w.parts))
	for i := range w.parts {
		p := &w.parts[i]
		texts[i] = p.before + p.after
		if p.body != nil {
			w.link(p)
			texts[i] = p.before + printable(inner(p.body)) + p.after
		}
	}
	top := "<h1>" + html.EscapeString(printable(name)) + "</h1>\n"
	if titled {
		top, texts = texts[0], texts[1:]
	}
	title := name
	if i := slices.IndexFunc(w.contents, func(h heading) bool { return h.level == 1 }); i >= 0 {
		title = w.contents[i].title
	}
	var toc strings.Builder
	for _, h := range w.contents {
		fmt.Fprintf(&toc, `<li class="h%d"><a href="#%s">%s</a></li>`, h.level, html.EscapeString(h.name), html.EscapeString(h.title))
	}
	contents := "<summary>Contents</summary><ol>" + toc.String() + "</ol>"
	if toc.Len() == 0 {
		contents = "<summary>Code</summary>"
	}
	return fmt.Sprintf(frame, scriptHash, html.EscapeString(printable(title)), style, top, html.EscapeString(printable(name)), nb.facts(), w.failure(), contents, strings.Join(texts, ""), script), nil
}

// failure is what the page says of the first error.
func (w *writer) failure() string {
	if w.failed == 0 {
		return ""
	}
	cell := fmt.Sprintf(`<a href="#cell-%d">cell %[1]d</a>`, w.failed)
	first, last := "This run stopped at "+cell, " The cells below it have not run."
	switch {
	case w.later:
		first, last = "An error in "+cell, " The cells below it may have run earlier or later."
	case w.failed == w.number:
		last = ""
	}
	return `<p class="stopped"><b>` + first + ":</b> " + html.EscapeString(printable(w.why)) + "." + last + "</p>"
}

// splitTitle makes the title that the notebook begins with a part of its own, if there is one.
func (w *writer) splitTitle() bool {
	if len(w.parts) == 0 || w.parts[0].body == nil {
		return false
	}
	p := w.parts[0]
	h := p.body.FirstChild
	if h == nil || h.Data != "h1" || h.Namespace != "" {
		return false
	}
	p.body.RemoveChild(h)
	title := p
	title.body = &html.Node{Type: html.ElementNode, Data: "div"}
	title.body.AppendChild(h)
	w.parts = slices.Insert(w.parts, 0, title)
	return true
}

const frame = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Gaiden">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-%s'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<main>
%s<header><dl><dt>notebook</dt><dd>%s</dd>%s</dl>%s</header>
<nav aria-label="Contents"><details open>%s
<label><input type="checkbox" id="fold"> hide all code</label></details></nav>
%s</main>
<script>%s</script>
</body>
</html>
`

// code writes a code cell and its outputs.
func (w *writer) code(c *cell) {
	w.number++
	note := fmt.Sprint("cell ", w.number)
	w.later = w.later || w.failed > 0 && c.Count != nil
	if from, to, ok := c.when(); ok {
		note += " · " + units.Clock(to.Sub(from).Seconds())
	} else if c.Count == nil {
		note += " · not run"
	}
	w.add(part{before: fmt.Sprintf(`<section id="cell-%d"><details class="code" open><summary>%s</summary><pre>%s</pre></details>`+"\n", w.number, note, coloured(printable(string(c.Source))))})
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.Type == "error" && w.failed == 0 {
			why, _, _ := strings.Cut(escapes.ReplaceAllString(string(o.Value), ""), "\n")
			w.failed, w.why = w.number, fmt.Sprintf("%s: %s", o.Name, cut(why, 300))
		}
		w.add(o.part(w.number, i))
	}
	w.add(part{before: "</section>\n"})
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
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
	machine, versions, when := nb.machine()
	switch {
	case !first.IsZero():
		row("executed", fmt.Sprintf("%s UTC, %s in cells", first.UTC().Format("2006-01-02 15:04"), units.Clock(took.Seconds())))
	case when != "":
		row("executed", when)
	case done > 0:
		row("executed", "the notebook does not record when")
	}
	row("kernel", strings.TrimSpace(nb.kernel()))
	if machine != "" {
		row("machine", machine)
		row("versions", versions)
	}
	if len(seeds) > 0 {
		list := slices.SortedFunc(maps.Keys(seeds), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		row("seed", strings.Join(list, ", "))
	}
	row("cells", fmt.Sprintf("%d of %d have run", done, cells))
	return b.String()
}
