package report

import (
	"fmt"
	"slices"
	"strings"

	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// Timings returns a table of measurements: median, spread, best sample, number of
// samples, and the first call, which is not a sample. Warnings and errors are notes
// below it.
func Timings(title string, measurements ...timing.Measurement) Table {
	t := Table{Title: title, Head: []string{"", "median", "spread", "best", "blocks", "calls each", "first call"}}
	for _, m := range measurements {
		if m.N() == 0 {
			t.Rows = append(t.Rows, []string{m.Name + " (not measured)"})
		} else {
			first := ""
			if m.First > 0 {
				first = units.Seconds(m.First)
			}
			name := m.Name
			if m.Partial {
				name += " (stopped: partial)"
			}
			t.Rows = append(t.Rows, []string{name, units.Seconds(m.Median()), fmt.Sprintf("± %.1f %%", 100*m.Spread()), units.Seconds(m.Best()),
				units.Count(m.N()), units.Count(m.Loops), first})
		}
		if m.Err != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("error: %s: %v", m.Name, m.Err))
		}
		for _, w := range m.Warnings {
			t.Notes = append(t.Notes, fmt.Sprintf("warning: %s: %v", m.Name, w))
		}
	}
	return t
}

// Comparisons returns a table of comparisons, a row per pair of measurements. "~"
// means that no difference is proven.
func Comparisons(title string, comparisons ...timing.Comparison) Table {
	t := Table{Title: title, Head: []string{"", "before", "after", "change", "p", "n"}}
	var tests []string
	for _, c := range comparisons {
		name := c.New.Name
		if c.Old.Name != name {
			name = c.Old.Name + " → " + name
		}
		t.Rows = append(t.Rows, []string{name, median(c.Old), median(c.New), c.Verdict(), strings.TrimPrefix(c.Chance(), "="), c.Samples()})
		for _, w := range c.Warnings {
			t.Notes = append(t.Notes, fmt.Sprintf("warning: %s: %v", name, w))
		}
		if !slices.Contains(tests, c.Test) {
			tests = append(tests, c.Test)
		}
	}
	t.Notes = append([]string{unproven(tests...)}, t.Notes...)
	return t
}

// unproven explains "~" below a table.
func unproven(tests ...string) string {
	return fmt.Sprintf("~ is a difference that is not proven (%s, p ≥ %g), or less than %g %%", strings.Join(tests, ", "), timing.Proof, 100*timing.Least)
}

func median(m timing.Measurement) string {
	if m.N() == 0 {
		return ""
	}
	return units.Seconds(m.Median())
}
