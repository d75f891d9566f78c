package webpage

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

var (
	atxHeading  = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	fence       = regexp.MustCompile("^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$")
	rule        = regexp.MustCompile(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	item        = regexp.MustCompile(`^( {0,3})([-*+]|\d{1,9}[.)])( +|$)(.*)$`)
	tableRule   = regexp.MustCompile(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
	htmlBlock   = regexp.MustCompile(`(?i)^ {0,3}<(?:!--|/?(?:address|blockquote|center|details|div|dl|dt|dd|figure|figcaption|h[1-6]|hr|iframe|li|ol|p|pre|script|section|style|summary|svg|table|tbody|td|tfoot|th|thead|tr|ul)\b)`)
	quoteMark   = regexp.MustCompile(`^ {0,3}> ?`)
	underlining = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
)

// Markdown returns a text cell as HTML. What the text has of HTML is still in it:
// clean takes out what a page may not hold.
func Markdown(source string) string {
	var b strings.Builder
	markdownBlocks(&b, strings.Split(strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\t", "    "), "\n"), false, 0)
	return b.String()
}

// deepest is how far lists and quotes may stand in each other.
const deepest = 20

// markdownBlocks writes lines as blocks; tight paragraphs, those of a list
// without blank lines, have no element of their own.
func markdownBlocks(b *strings.Builder, l []string, tight bool, depth int) {
	var paragraph []string
	flush := func() {
		text := strings.TrimSpace(strings.Join(paragraph, "\n"))
		paragraph = nil
		switch {
		case text == "":
		case tight:
			b.WriteString(inline(text) + "\n")
		default:
			b.WriteString("<p>" + inline(text) + "</p>\n")
		}
	}
	for i := 0; i < len(l); {
		line := l[i]
		if strings.TrimSpace(line) == "" {
			flush()
			i++
			continue
		}
		if m := fence.FindStringSubmatch(line); m != nil {
			flush()
			i = fenced(b, l, i, m)
			continue
		}
		if m := atxHeading.FindStringSubmatch(line); m != nil {
			flush()
			fmt.Fprintf(b, "<h%d>%s</h%[1]d>\n", len(m[1]), inline(m[2]))
			i++
			continue
		}
		if m := underlining.FindStringSubmatch(line); m != nil && len(paragraph) > 0 {
			level := 2
			if m[1][0] == '=' {
				level = 1
			}
			text := strings.TrimSpace(strings.Join(paragraph, "\n"))
			paragraph = nil
			fmt.Fprintf(b, "<h%d>%s</h%[1]d>\n", level, inline(text))
			i++
			continue
		}
		if rule.MatchString(line) {
			flush()
			b.WriteString("<hr>\n")
			i++
			continue
		}
		if quoteMark.MatchString(line) && depth < deepest {
			flush()
			var inner []string
			for ; i < len(l) && quoteMark.MatchString(l[i]); i++ {
				inner = append(inner, quoteMark.ReplaceAllString(l[i], ""))
			}
			b.WriteString("<blockquote>\n")
			markdownBlocks(b, inner, false, depth+1)
			b.WriteString("</blockquote>\n")
			continue
		}
		if m := item.FindStringSubmatch(line); m != nil && depth < deepest && (len(paragraph) == 0 || m[4] != "" && (len(m[2]) == 1 || m[2] == "1.")) {
			flush()
			i = list(b, l, i, depth)
			continue
		}
		if strings.Contains(line, "|") && i+1 < len(l) && len(paragraph) == 0 && tableRule.MatchString(l[i+1]) && strings.Contains(l[i+1], "-") && len(row(line)) == len(row(l[i+1])) {
			i = table(b, l, i)
			continue
		}
		if htmlBlock.MatchString(line) && len(paragraph) == 0 {
			for ; i < len(l) && strings.TrimSpace(l[i]) != ""; i++ {
				b.WriteString(l[i] + "\n")
			}
			continue
		}
		if strings.HasPrefix(line, "    ") && len(paragraph) == 0 {
			var code []string
			for ; i < len(l) && (strings.HasPrefix(l[i], "    ") || strings.TrimSpace(l[i]) == ""); i++ {
				code = append(code, strings.TrimPrefix(l[i], "    "))
			}
			b.WriteString("<pre><code>" + html.EscapeString(strings.TrimRight(strings.Join(code, "\n"), "\n ")) + "</code></pre>\n")
			continue
		}
		paragraph = append(paragraph, line)
		i++
	}
	flush()
}

// fenced writes a block of code and returns the line behind it.
func fenced(b *strings.Builder, l []string, i int, m []string) int {
	var code []string
	for i++; i < len(l); i++ {
		if t := strings.TrimSpace(l[i]); strings.HasPrefix(t, m[2]) && strings.Trim(t, m[2][:1]) == "" {
			i++
			break
		}
		line := l[i]
		for n := 0; n < len(m[1]) && strings.HasPrefix(line, " "); n++ {
			line = line[1:]
		}
		code = append(code, line)
	}
	text := html.EscapeString(strings.Join(code, "\n"))
	if language, _, _ := strings.Cut(strings.TrimSpace(m[3]), " "); language == "go" {
		text = coloured(strings.Join(code, "\n"))
	}
	b.WriteString("<pre><code>" + text + "</code></pre>\n")
	return i
}

// list writes the list that begins at line i and returns the line behind it.
func list(b *strings.Builder, l []string, i, depth int) int {
	first := item.FindStringSubmatch(l[i])
	kind := func(m []string) byte { return m[2][len(m[2])-1] }
	tag, start := "ul", ""
	if len(first[2]) > 1 {
		tag = "ol"
		if n := strings.TrimLeft(strings.TrimRight(first[2], ".)"), "0"); n != "1" {
			start = fmt.Sprintf(` start="%s"`, "0"+n)
		}
	}
	var items [][]string
	loose, blank := false, false
	for i < len(l) {
		m := item.FindStringSubmatch(l[i])
		if m == nil || kind(m) != kind(first) || rule.MatchString(l[i]) {
			break
		}
		loose = loose || blank
		indent := len(m[1]) + len(m[2]) + max(1, min(len(m[3]), 4))
		inner := []string{m[4]}
		blank = false
		for i++; i < len(l); i++ {
			if strings.TrimSpace(l[i]) == "" {
				blank = true
				inner = append(inner, "")
				continue
			}
			deep := len(l[i]) - len(strings.TrimLeft(l[i], " "))
			if deep < indent && (blank || item.MatchString(l[i]) || fence.MatchString(l[i]) || atxHeading.MatchString(l[i]) || quoteMark.MatchString(l[i]) || rule.MatchString(l[i])) {
				break
			}
			loose = loose || blank && deep >= indent
			blank = false
			inner = append(inner, l[i][min(deep, indent):])
		}
		items = append(items, inner)
	}
	b.WriteString("<" + tag + start + ">\n")
	for _, inner := range items {
		b.WriteString("<li>")
		markdownBlocks(b, inner, !loose, depth+1)
		b.WriteString("</li>\n")
	}
	b.WriteString("</" + tag + ">\n")
	return i
}

// table writes the table that begins at line i and returns the line behind it.
func table(b *strings.Builder, l []string, i int) int {
	var align []string
	for _, c := range row(l[i+1]) {
		left, right := strings.HasPrefix(c, ":"), strings.HasSuffix(c, ":")
		switch {
		case left && right:
			align = append(align, ` style="text-align:center"`)
		case right:
			align = append(align, ` style="text-align:right"`)
		default:
			align = append(align, ` style="text-align:left"`)
		}
	}
	write := func(tag, line string) {
		cells := row(line)
		b.WriteString("<tr>")
		for n := range align {
			text := ""
			if n < len(cells) {
				text = cells[n]
			}
			fmt.Fprintf(b, "<%s%s>%s</%[1]s>", tag, align[n], inline(text))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<table>\n<thead>\n")
	write("th", l[i])
	b.WriteString("</thead>\n<tbody>\n")
	for i += 2; i < len(l) && strings.TrimSpace(l[i]) != "" && strings.Contains(l[i], "|"); i++ {
		write("td", l[i])
	}
	b.WriteString("</tbody>\n</table>\n")
	return i
}

// row returns the cells of a table's line; a bar inside code or behind a
// backslash is part of the cell.
func row(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	var cells []string
	var cell strings.Builder
	code := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && line[i+1] == '|':
			cell.WriteByte('|')
			i++
			continue
		case line[i] == '`':
			code = !code && strings.Contains(line[i+1:], "`")
		case line[i] == '|' && !code:
			cells = append(cells, strings.TrimSpace(cell.String()))
			cell.Reset()
			continue
		}
		cell.WriteByte(line[i])
	}
	if s := strings.TrimSpace(cell.String()); s != "" || len(cells) == 0 {
		cells = append(cells, s)
	}
	return cells
}
