package webpage

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var (
	isHTML    = set(htmlElements)
	isSVG     = set(svgElements)
	isDropped = set(droppedElements)
)

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(names) {
		m[name] = true
	}
	return m
}

// clean parses HTML as browsers do and returns the content that a page may
// hold, in a div. Attachments are the images of its cell.
//
// What it returns has passed the policy, and a browser that reads it sees the
// elements that the policy saw: both are repeated until nothing changes any
// more. What does not get there is shown as text.
func clean(markup string, attachments map[string]forms) *html.Node {
	root, err := parse(markup)
	if err != nil {
		return asText(markup)
	}
	prepare(root, attachments)
	text := inner(root)
	for range 6 {
		if root, err = parse(policy.Sanitize(text)); err != nil {
			break
		}
		structure(root, false)
		again := inner(root)
		if again == text {
			return root
		}
		text = again
	}
	return asText(markup)
}

// asText is markup that is shown as it was written.
func asText(markup string) *html.Node {
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	pre := &html.Node{Type: html.ElementNode, Data: "pre", DataAtom: atom.Pre}
	pre.AppendChild(&html.Node{Type: html.TextNode, Data: printable(markup)})
	root.AppendChild(pre)
	return root
}

func parse(markup string) (*html.Node, error) {
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(strings.NewReader(printable(markup)), root)
	for _, n := range nodes {
		root.AppendChild(n)
	}
	return root, err
}

// inner returns what is inside of a node.
func inner(root *html.Node) string {
	var b strings.Builder
	for n := range root.ChildNodes() {
		if err := html.Render(&b, n); err != nil { // of a tree that no markup gives
			return ""
		}
	}
	return b.String()
}

// prepare removes what is nobody's to see, and turns into a page's terms what
// only a notebook has: attachments and the boxes of task lists.
func prepare(n *html.Node, attachments map[string]forms) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case c.Type == html.CommentNode, c.Type == html.ElementNode && isDropped[strings.ToLower(c.Data)]:
			n.RemoveChild(c)
		case c.Type == html.ElementNode && c.Data == "input":
			if attribute(c, "type") == "checkbox" {
				box := "☐"
				if has(c, "checked") {
					box = "☑"
				}
				n.InsertBefore(&html.Node{Type: html.TextNode, Data: box}, c)
			}
			n.RemoveChild(c)
		case c.Type == html.ElementNode && c.Data == "a" && strings.Contains(attribute(c, "href"), " "):
			setAttribute(c, "href", strings.ReplaceAll(strings.TrimSpace(attribute(c, "href")), " ", "%20"))
		case c.Type == html.ElementNode && c.Data == "img":
			if name, ok := strings.CutPrefix(strings.TrimSpace(attribute(c, "src")), "attachment:"); ok {
				setAttribute(c, "src", attachment(attachments, name))
			}
		}
		if style := attribute(c, "style"); strings.Contains(style, `\`) || strings.Contains(style, "/*") {
			removeAttribute(c, "style") // what needs these has something to hide
		}
		prepare(c, attachments)
		c = next
	}
}

// structure takes elements away from where they do not belong: those of SVG
// outside of an svg, and those of HTML inside. Their content stays.
func structure(n *html.Node, inSVG bool) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode {
			name := strings.ToLower(c.Data)
			belongs := c.Namespace == "" && isHTML[name] && !inSVG || c.Namespace == "svg" && (isSVG[name] || name == "svg")
			structure(c, inSVG || c.Namespace == "svg")
			if !belongs {
				for g := c.FirstChild; g != nil; g = c.FirstChild {
					c.RemoveChild(g)
					n.InsertBefore(g, c)
				}
				n.RemoveChild(c)
			}
		}
		c = next
	}
}

// Attributes of a node. That of a namespace is written as in the text: xlink:href.

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key && a.Namespace == "" })
}

func setAttribute(n *html.Node, key, value string) {
	removeAttribute(n, key)
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

func removeAttribute(n *html.Node, key string) {
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		if a.Key != key || a.Namespace != "" {
			kept = append(kept, a)
		}
	}
	n.Attr = kept
}

// elements calls do for each element below n, n excluded.
func elements(n *html.Node, do func(*html.Node)) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling // do may replace c
		if c.Type == html.ElementNode {
			elements(c, do)
			do(c)
		}
		c = next
	}
}
