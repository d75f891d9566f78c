package report

import "strings"

// Beside shows pictures in a row, side by side, and below each other where the
// page is too narrow:
//
//	report.Beside{truth, report.Surface{Title: "the net", Values: answer, Wire: true}}
type Beside []Rich

// String is the text of each, below each other.
func (b Beside) String() string {
	var parts []string
	for _, v := range b {
		if v != nil {
			parts = append(parts, v.String())
		}
	}
	return strings.Join(parts, "\n")
}

// HTML is a row that wraps.
func (b Beside) HTML() string {
	var s strings.Builder
	s.WriteString(`<div style="display:flex;flex-wrap:wrap;gap:8px 16px;align-items:flex-start">`)
	for _, v := range b {
		if v != nil {
			s.WriteString(`<div style="min-width:0">` + v.HTML() + "</div>")
		}
	}
	s.WriteString("</div>")
	return s.String()
}
