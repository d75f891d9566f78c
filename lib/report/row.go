package report

import "strings"

// Row shows values next to each other in a row, which wraps if the page is too
// narrow:
//
//	report.Row{truth, report.Surface{Title: "the net", Values: answer, Wire: true}}
type Row []Rich

// String returns the text of each value, one below the other.
func (b Row) String() string {
	var parts []string
	for _, v := range b {
		if v != nil {
			parts = append(parts, v.String())
		}
	}
	return strings.Join(parts, "\n")
}

// HTML returns a row that wraps.
func (b Row) HTML() string {
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
