package report

import (
	"fmt"
	"slices"

	"gaiden/lib/profile"
	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// Nets compares the phases and layers of several nets, such as three implementations
// of the same layer. It has a row for each phase or layer that one of them has. With
// two nets, the last column is the change from the first to the second, "~" if no
// difference is proven.
func Nets(title string, nets ...*profile.Phases) Table {
	t := Table{Title: title, Head: []string{""}}
	var rows []string
	lines := make([]map[string]profile.Line, len(nets))
	for i, p := range nets {
		t.Head = append(t.Head, p.Net)
		lines[i] = map[string]profile.Line{}
		all := append(append(append([]profile.Line(nil), p.Phases...), p.Forward...), p.Backward...)
		for _, l := range append(all, p.Chain) {
			if _, known := lines[i][l.Path()]; !known && l.Phase != "" {
				lines[i][l.Path()] = l
				if !slices.Contains(rows, l.Path()) {
					rows = append(rows, l.Path())
				}
			}
		}
	}
	if len(nets) == 2 {
		t.Head = append(t.Head, "change")
	}
	var tests []string
	for _, name := range rows {
		row := []string{name}
		for i := range nets {
			cell := ""
			if l, has := lines[i][name]; has && (l.Time.N() > 0 || l.Device > 0) {
				cell = units.Seconds(l.Seconds())
				if l.AtMost() {
					cell = "≤ " + cell
				}
			}
			row = append(row, cell)
		}
		if len(nets) == 2 {
			a, b := lines[0][name], lines[1][name]
			switch {
			case a.Device > 0 && b.Device > 0:
				row = append(row, fmt.Sprintf("%+.1f %%", 100*(b.Device/a.Device-1)))
			case a.Time.N() > 0 && b.Time.N() > 0:
				c := timing.Compare(a.Time, b.Time)
				row = append(row, c.Verdict())
				if !slices.Contains(tests, c.Test) {
					tests = append(tests, c.Test)
				}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if len(tests) > 0 {
		t.Notes = append(t.Notes, unproven(tests...))
	}
	for _, p := range nets {
		for _, w := range p.Warnings {
			t.Notes = append(t.Notes, fmt.Sprintf("warning: %s: %v", p.Net, w))
		}
	}
	return t
}
