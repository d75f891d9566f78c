package main

import (
	"path"
	"slices"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/report"
)

// grid shows rows as text and as HTML; the first one is the head.
func grid(h magic.Host, rows [][]string) {
	text, page := layout(rows)
	h.Show(map[string]any{"text/plain": text, "text/html": page})
}

// layout returns rows as text and as HTML.
func layout(rows [][]string) (asText, asHTML string) {
	t := report.Table{Head: rows[0], Rows: rows[1:]}
	return t.String(), t.HTML()
}

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
