package webpage

import (
	"html"
	"regexp"
	"strings"
)

// allowed are the elements that a page may hold, of HTML and of SVG. Of others
// only the content stays.
var allowed = words(`a abbr b bdi bdo big blockquote br caption center cite code col colgroup dd del details dfn div dl dt em figcaption
	figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark meter ol p pre progress q rp rt ruby s samp section small span strike strong sub summary sup
	table tbody td tfoot th thead time tr tt u ul var wbr
	svg g path rect circle ellipse line polyline polygon text tspan title desc defs use stop symbol marker mask pattern clippath lineargradient radialgradient`)

// dropped are those whose content goes too.
var dropped = words("script style iframe object applet template noscript noembed noframes frameset audio video textarea select title xmp plaintext math")

// raw are those whose content is no markup.
var raw = words("script style iframe noscript noembed noframes textarea title xmp plaintext")

var void = words("br col hr img wbr")

// vector are the elements that end by a slash.
var vector = words("path rect circle ellipse line polyline polygon use stop g svg text tspan defs symbol marker mask pattern clippath lineargradient radialgradient title desc")

// fetching are attributes whose value a browser fetches or goes to.
var fetching = words("src srcset href xlink:href poster background action formaction data ping manifest cite longdesc usemap classid codebase profile lowsrc dynsrc")

// refused are attributes that are no use without what the page drops.
var refused = words("nonce srcdoc autofocus contenteditable tabindex accesskey is slot part name form for autoplay target download")

// blocks are the elements before which an open paragraph ends.
var blocks = words("blockquote center details dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr li ol p pre section table ul")

// closes are the open elements that one of the same kind ends, and within what.
var closes = map[string]struct{ ends, within string }{
	"li": {"li", "ul ol"}, "dt": {"dt dd", "dl"}, "dd": {"dt dd", "dl"}, "td": {"td th", "tr"}, "th": {"td th", "tr"}, "tr": {"tr td th", "tbody thead tfoot table"},
	"tbody": {"tbody thead tfoot caption colgroup", "table"}, "thead": {"tbody thead tfoot caption colgroup", "table"}, "tfoot": {"tbody thead tfoot caption colgroup", "table"},
}

// needs are the elements that stand only in another.
var needs = map[string]string{"tr": "table", "td": "tr", "th": "tr", "tbody": "table", "thead": "table", "tfoot": "table", "caption": "table", "col": "table", "colgroup": "table", "summary": "details"}

var (
	attributeName = regexp.MustCompile(`^[a-z][a-z0-9:._-]*$`)
	picture       = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp|svg\+xml)[;,]`)
	link          = regexp.MustCompile(`^(https?:|mailto:)`)
	reference     = regexp.MustCompile(`^&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]*);`)
	urlOwn        = regexp.MustCompile(`(?i)url\(\s*(['"]?)#`)
	urlOther      = regexp.MustCompile(`(?i)url\s*\(\s*['"]?\s*[^#'"\s]|url\s*\(\s*['"]?\s*$|@import|expression|image-set|image\s*\(|src\s*\(|\\`)
)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// A cleaner rewrites markup: only what is allowed, every element closed.
type cleaner struct {
	strings.Builder
	open     []string
	own, alt string
	ids      map[string]bool
}

// clean returns markup with only what a page may hold. Names in it get a prefix
// of their own; pictures without a text in their place get alt.
func clean(markup, own, alt string) string {
	c := &cleaner{own: own, alt: alt, ids: map[string]bool{}}
	for markup != "" {
		at := strings.IndexByte(markup, '<')
		if at < 0 {
			at = len(markup)
		}
		c.text(markup[:at])
		markup = c.tag(markup[at:])
	}
	for len(c.open) > 0 {
		c.end()
	}
	return c.String()
}

// text writes text; in it only what HTML knows is a reference.
func (c *cleaner) text(s string) {
	// Between the parts of a table a browser would move text out of it.
	if n := len(c.open); n > 0 && strings.Contains(" table tbody thead tfoot tr colgroup ", " "+c.open[n-1]+" ") && strings.TrimSpace(s) != "" {
		return
	}
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			c.WriteString(escapeText(s))
			return
		}
		c.WriteString(escapeText(s[:at]))
		s = s[at:]
		if m := reference.FindString(s); m != "" && html.UnescapeString(m) != m {
			c.WriteString(escapeText(html.UnescapeString(m)))
			s = s[len(m):]
		} else {
			c.WriteString("&amp;")
			s = s[1:]
		}
	}
}

var textEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escapeText(s string) string { return textEscapes.Replace(printable(s)) }

// tag takes what begins with "<" off the markup and returns the rest.
func (c *cleaner) tag(s string) string {
	switch {
	case s == "":
		return ""
	case strings.HasPrefix(s, "<!--"):
		_, rest, _ := strings.Cut(s[4:], "-->")
		return rest
	case strings.HasPrefix(s, "<!"), strings.HasPrefix(s, "<?"):
		_, rest, _ := strings.Cut(s, ">")
		return rest
	case len(s) > 2 && s[1] == '/' && letter(s[2]):
		name := tagName(s[2:])
		_, rest, _ := strings.Cut(s, ">")
		c.close(name)
		return rest
	case len(s) > 1 && letter(s[1]):
		name := tagName(s[1:])
		attributes, slash, rest := attributes(s[1+len(name):])
		if dropped[name] && !(name == "title" && c.in("svg")) {
			if slash && !raw[name] {
				return rest
			}
			return past(rest, name)
		}
		if allowed[name] {
			c.begin(name, attributes, slash)
		}
		return rest
	}
	c.WriteString("&lt;")
	return s[1:]
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func tagName(s string) string {
	n := strings.IndexAny(s, " \t\n\r\f/>")
	if n < 0 {
		n = len(s)
	}
	return lower(s[:n])
}

// lower makes the letters of tags small and leaves all else, so that the length
// stays what it is.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}

// past returns what follows the end of an element that has begun.
func past(s, name string) string {
	for depth := 1; ; {
		at := strings.IndexByte(s, '<')
		if at < 0 {
			return ""
		}
		s = s[at+1:]
		switch {
		case strings.HasPrefix(s, "/") && named(s[1:], name):
			_, s, _ = strings.Cut(s, ">")
			if depth--; depth == 0 {
				return s
			}
		case !raw[name] && named(s, name):
			depth++
		}
	}
}

// named reports whether a tag's name stands at the beginning of s.
func named(s, name string) bool {
	return len(s) >= len(name) && strings.EqualFold(s[:len(name)], name) && tagName(s[:min(len(s), len(name)+1)]) == name
}

// attributes reads the attributes of an element up to its ">".
func attributes(s string) (list [][2]string, slash bool, rest string) {
	for {
		s = strings.TrimLeft(s, " \t\n\r\f")
		switch {
		case s == "":
			return list, slash, ""
		case s[0] == '>':
			return list, slash, s[1:]
		case s[0] == '/':
			slash, s = true, s[1:]
			continue
		}
		slash = false
		n := strings.IndexAny(s[1:], " \t\n\r\f/>=") + 1
		if n == 0 {
			n = len(s)
		}
		name, value := lower(s[:n]), ""
		s = strings.TrimLeft(s[n:], " \t\n\r\f")
		if strings.HasPrefix(s, "=") {
			s = strings.TrimLeft(s[1:], " \t\n\r\f")
			if s != "" && (s[0] == '"' || s[0] == '\'') {
				value, s, _ = strings.Cut(s[1:], s[:1])
			} else {
				n := strings.IndexAny(s, " \t\n\r\f>")
				if n < 0 {
					n = len(s)
				}
				value, s = s[:n], s[n:]
			}
		}
		list = append(list, [2]string{name, html.UnescapeString(value)})
	}
}

// in reports whether an element of this name is open.
func (c *cleaner) in(name string) bool {
	for _, o := range c.open {
		if o == name {
			return true
		}
	}
	return false
}

// begin writes the beginning of an element, and the ends that it implies.
// Elements deeper than anybody's markup goes are dropped.
func (c *cleaner) begin(name string, attributes [][2]string, slash bool) {
	if n := needs[name]; n != "" && !c.in(n) {
		return
	}
	inside := c.in("svg")
	if len(c.open) > 10*deepest || inside != vector[name] && name != "svg" || name == "a" && c.in("a") || name == "svg" && inside {
		return // a picture's parts stand in a picture, and nothing else does
	}
	if blocks[name] && c.in("p") {
		c.close("p")
	}
	if e, ok := closes[name]; ok {
		c.closeUpTo(e.ends, e.within)
	}
	if n := len(c.open); n > 0 && name != "caption" && name != "colgroup" && needs[name] == "" && strings.Contains(" table tbody thead tfoot tr ", " "+c.open[n-1]+" ") {
		return
	}
	kept, seen := "", map[string]bool{}
	for _, a := range attributes {
		if value, ok := c.attribute(name, a[0], a[1]); ok && !seen[a[0]] {
			kept += " " + a[0] + `="` + html.EscapeString(printable(value)) + `"`
			seen[a[0]] = true
		}
	}
	if name == "img" {
		if !seen["src"] {
			c.WriteString(`<span class="note">[a picture that would have to be fetched is left out]</span>`)
			return
		}
		if !seen["alt"] {
			kept += ` alt="` + html.EscapeString(c.alt) + `"`
		}
	}
	c.WriteString("<" + name + kept + ">")
	switch {
	case void[name]:
	case slash && vector[name]:
		c.WriteString("</" + name + ">")
	default:
		c.open = append(c.open, name)
	}
}

// attribute returns an attribute's value as the page has it, and whether it has it.
func (c *cleaner) attribute(tag, name, value string) (string, bool) {
	if strings.HasPrefix(name, "on") || refused[name] || strings.HasPrefix(name, "xmlns") || !attributeName.MatchString(name) {
		return "", false
	}
	switch {
	case name == "id":
		value = c.own + strings.Join(strings.Fields(value), "-")
		if value == c.own || c.own == "" || c.ids[value] {
			return "", false // in text cells, only headings have names
		}
		c.ids[value] = true
		return value, true
	case strings.HasPrefix(name, "aria-labelledby"), name == "aria-describedby", name == "headers":
		ids := strings.Fields(value)
		for i := range ids {
			ids[i] = c.own + ids[i]
		}
		return strings.Join(ids, " "), c.own != ""
	case fetching[name]:
		v := strings.ToLower(strings.Map(func(r rune) rune {
			if r <= 0x20 {
				return -1
			}
			return r
		}, value))
		switch {
		case strings.HasPrefix(v, "#") && c.own != "":
			return "#" + c.own + strings.TrimSpace(value)[1:], tag != "a" // another output's names are not known
		case strings.HasPrefix(v, "#"):
			return value, true
		case tag == "img" && picture.MatchString(v):
			return strings.TrimSpace(value), name == "src"
		}
		return strings.TrimSpace(value), tag == "a" && name == "href" && link.MatchString(v)
	}
	// An escape could hide an address, and both can only be meant to.
	if (name == "style" || strings.Contains(strings.ToLower(value), "url")) && urlOther.MatchString(value) {
		return "", false
	}
	return urlOwn.ReplaceAllString(value, "url(${1}#"+c.own), true
}

// close ends the innermost open element of this name and those inside it.
func (c *cleaner) close(name string) {
	if !c.in(name) || name != "svg" && name != "table" && c.beyond(name) {
		return
	}
	for c.open[len(c.open)-1] != name {
		c.end()
	}
	c.end()
}

// beyond reports whether a table or a picture has begun inside the element:
// what is in a cell does not end what the table stands in.
func (c *cleaner) beyond(name string) bool {
	for i := len(c.open) - 1; i >= 0 && c.open[i] != name; i-- {
		if c.open[i] == "td" || c.open[i] == "th" || c.open[i] == "svg" {
			return name != "tr" && name != "tbody" && name != "thead" && name != "tfoot"
		}
	}
	return false
}

// closeUpTo ends the outermost open element of some names inside the innermost
// of others.
func (c *cleaner) closeUpTo(ends, within string) {
	last := -1
	for i := len(c.open) - 1; i >= 0; i-- {
		if strings.Contains(" "+within+" ", " "+c.open[i]+" ") {
			break
		}
		if strings.Contains(" "+ends+" ", " "+c.open[i]+" ") {
			last = i
		}
	}
	for last >= 0 && len(c.open) > last {
		c.end()
	}
}

func (c *cleaner) end() {
	n := len(c.open) - 1
	c.WriteString("</" + c.open[n] + ">")
	c.open = c.open[:n]
}
