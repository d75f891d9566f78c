package webpage

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

var (
	notWord  = regexp.MustCompile(`[^\pL\pN_]+`)
	reserved = regexp.MustCompile(`^(?:fold|cell-\d+|[ot]\d+-.*)$`) // for the page's own ids
	urlOwn   = regexp.MustCompile(`(?i)(url\(["']?)#`)
)

// name gives ids to what links may lead to. A heading of a text cell has the id
// that it has in JupyterLab, Its-Title, and stands in the contents. Ids inside
// an output or a drawing get a prefix: another may use the same.
func (w *writer) name(p *part) {
	if p.body == nil {
		return
	}
	text := strings.HasPrefix(p.own, "t")
	elements(p.body, func(n *html.Node) {
		id := attribute(n, "id")
		if n.Data == "a" {
			id = cmp.Or(id, attribute(n, "name"))
			removeAttribute(n, "name")
		}
		removeAttribute(n, "id")
		switch {
		case !text || n.Namespace == "svg":
			if id != "" {
				id = p.own + id
			}
		case len(n.Data) == 2 && n.Data[0] == 'h' && n.Data != "hr":
			w.heading(n)
			return
		case reserved.MatchString(id):
			id = ""
		}
		if id != "" && !w.names[id] {
			w.names[id] = true
			setAttribute(n, "id", id)
		}
	})
}

// heading names a heading of a text cell and puts it into the contents.
func (w *writer) heading(n *html.Node) {
	title := strings.TrimSpace(textOf(n))
	id := strings.Join(strings.Fields(title), "-")
	if id == "" || reserved.MatchString(id) {
		id = strings.TrimSuffix("part-"+id, "-")
	}
	for first := id; w.names[id]; id = fmt.Sprint(first, "-", w.taken[first]+1) {
		w.taken[first]++
	}
	w.names[id] = true
	if s := slug(title); w.slugs[s] == "" {
		w.slugs[s] = id
	}
	setAttribute(n, "id", id)
	if level := int(n.Data[1] - '0'); level <= 4 {
		w.contents = append(w.contents, heading{level, id, title})
	}
}

// slug is a title without what programs that name headings disagree about.
func slug(title string) string {
	return strings.Trim(notWord.ReplaceAllString(strings.ToLower(title), "-"), "-")
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// link lets what refers to a part of the page lead there, and says what of
// images is left out. All parts have their names.
func (w *writer) link(p *part) {
	elements(p.body, func(n *html.Node) {
		for i := range n.Attr {
			a := &n.Attr[i]
			switch {
			case a.Key == "aria-labelledby", a.Key == "aria-describedby", a.Key == "headers":
				ids := strings.Fields(a.Val)
				for k := range ids {
					ids[k] = p.own + ids[k]
				}
				a.Val = strings.Join(ids, " ")
			case a.Key == "href" && n.Data != "a" && strings.HasPrefix(a.Val, "#"):
				a.Val = "#" + p.own + a.Val[1:]
			default:
				if strings.Contains(a.Val, "(") && a.Key != "title" && a.Key != "alt" && a.Key != "aria-label" {
					a.Val = urlOwn.ReplaceAllString(a.Val, "${1}#"+p.own)
				}
			}
		}
		switch n.Data {
		case "a":
			if part, ok := strings.CutPrefix(attribute(n, "href"), "#"); ok {
				if id := w.target(part, p.own); id != "" {
					setAttribute(n, "href", "#"+id)
				} else {
					removeAttribute(n, "href")
				}
			}
		case "img":
			switch alt := attribute(n, "alt"); {
			case !has(n, "src"):
				leftOut(n, alt)
			case !has(n, "alt"):
				setAttribute(n, "alt", p.alt)
			}
		}
	})
}

// target returns the id that a link's #part means, "" if there is none.
func (w *writer) target(part, own string) string {
	plain := part
	if s, err := url.PathUnescape(part); err == nil {
		plain = s
	}
	for _, id := range []string{own + part, own + plain, part, plain} {
		if w.names[id] {
			return id
		}
	}
	return w.slugs[slug(plain)]
}

// leftOut puts a note in the place of an image that would have to be fetched.
func leftOut(n *html.Node, alt string) {
	note := "[an image is left out: this page loads nothing from elsewhere]"
	if alt != "" {
		note = fmt.Sprintf("[an image is left out, %s: this page loads nothing from elsewhere]", alt)
	}
	n.Data, n.DataAtom, n.Attr = "span", 0, slices.Clone([]html.Attribute{{Key: "class", Val: "note"}})
	n.AppendChild(&html.Node{Type: html.TextNode, Data: note})
}
