package main

import (
	"fmt"
	"html"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
)

// grid shows rows as text and as HTML; the first one is the head.
func grid(h magic.Host, rows [][]string) {
	text, page := layout(rows)
	h.Show(map[string]any{"text/plain": text, "text/html": page})
}

// layout returns rows as text and as HTML. A column in which no row has anything is left
// out; one of numbers is set to the right.
func layout(rows [][]string) (asText, asHTML string) {
	var keep []int
	right := map[int]bool{}
	for c := range rows[0] {
		number := true
		used := false
		for _, r := range rows[1:] {
			if r[c] != "" {
				used, number = true, number && strings.ContainsAny(r[c][:1], "0123456789-") && (r[c][0] != '-' || len(r[c]) > 1)
			}
		}
		if used || c == 0 {
			keep, right[c] = append(keep, c), used && number
		}
	}
	var text, page strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	page.WriteString("<table>\n")
	for i, r := range rows {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		page.WriteString("<tr>")
		var line []string
		for _, c := range keep {
			line = append(line, r[c])
			align := "left"
			if right[c] {
				align = "right"
			}
			if right[c] || cell == "td" && r[c] != "" && utf8.RuneCountInString(r[c]) <= unbroken {
				align += ";white-space:nowrap"
			} else if cell == "td" && r[c] != "" {
				align += ";min-width:14em"
			}
			fmt.Fprintf(&page, "<%s style=\"text-align:%s\">%s</%s>", cell, align, html.EscapeString(r[c]), cell)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
		page.WriteString("</tr>\n")
	}
	page.WriteString("</table>")
	t.Flush()
	return strings.TrimSuffix(text.String(), "\n"), page.String()
}

// unbroken is the longest text of a cell that a narrow page does not break: it scrolls its tables.
const unbroken = 28

// brief returns what notebooks are called in a table: the last part of their path, or the
// whole where two have the same.
func brief[T any](list []T, of func(T) string) map[string]string {
	count, all := map[string][]string{}, map[string]string{}
	for _, v := range list {
		name := of(v)
		if base := path.Base(name); !slices.Contains(count[base], name) {
			count[base] = append(count[base], name)
		}
	}
	for base, names := range count {
		for _, name := range names {
			if all[name] = wire.Shown(base); len(names) > 1 || name == "" {
				all[name] = wire.ShownBriefly(tilde(name), nameWidth)
			}
		}
	}
	return all
}
