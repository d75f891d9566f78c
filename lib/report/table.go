package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gaiden/lib/timing/units"
)

// A Table is rows of cells below a header row. Columns that contain only numbers, or
// text that looks like a number, are right-aligned. A column in which no row has
// anything is left out. A row with a single cell is a
// heading for the rows below it, which may begin with spaces.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Notes []string // lines below the table
}

// Add appends a row. Integers are printed with commas and floats with four digits.
// Strings and values with a String method are printed as they are.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = cell(c)
	}
	t.Rows = append(t.Rows, row)
}

func cell(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	case int:
		return units.Count(v)
	case int64:
		return units.Count(int(v))
	case float32:
		return number(float64(v))
	case float64:
		return number(v)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// number prints four digits, as training figures are usually given.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "-∞"
	case a != 0 && (a < 1e-4 || a >= 1e7):
		return scientific(v, 4)
	case v == math.Trunc(v) && a < 1e7:
		return units.Count(int(v))
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// scientific is v with so many digits and a power of ten: "1.25×10⁻⁷".
func scientific(v float64, digits int) string {
	mantissa, exponent, found := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
	if !found {
		return mantissa
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	e, _ := strconv.Atoi(exponent)
	power := "10" + superscript(e)
	switch mantissa {
	case "1":
		return power
	case "-1":
		return "-" + power
	}
	return mantissa + "×" + power
}

func superscript(n int) string {
	return strings.Map(func(r rune) rune {
		if r == '-' {
			return '⁻'
		}
		return []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0']
	}, strconv.Itoa(n))
}

// columns is the greatest number of cells in a row.
func (t Table) columns() int {
	n := len(t.Head)
	for _, row := range t.Rows {
		n = max(n, len(row))
	}
	return n
}

// filled is the table without the columns in which no row has anything; the first stays.
func (t Table) filled() Table {
	used := make([]bool, t.columns())
	for _, row := range t.Rows {
		for c, s := range row {
			used[c] = used[c] || s != ""
		}
	}
	if len(t.Rows) == 0 || len(used) == 0 || !slices.Contains(used[1:], false) {
		return t
	}
	keep := func(row []string) (l []string) {
		for c, s := range row {
			if c == 0 || used[c] {
				l = append(l, s)
			}
		}
		if len(l) == 1 && len(row) > 1 {
			l = append(l, "") // no heading
		}
		return l
	}
	rows := t.Rows
	t.Head, t.Rows = keep(t.Head), nil
	for _, row := range rows {
		t.Rows = append(t.Rows, keep(row))
	}
	return t
}

// numeric tells which columns hold nothing but numbers.
func (t Table) numeric() []bool {
	right := make([]bool, t.columns())
	for c := range right {
		for _, row := range t.Rows {
			if c >= len(row) || row[c] == "" {
				continue
			}
			if right[c] = looksNumeric(row[c]); !right[c] {
				break
			}
		}
	}
	return right
}

// looksNumeric holds for "1,234", "-2.5", "1.42 ms", "≤ 3 µs", "± 2 %", "~", "35× faster".
func looksNumeric(s string) bool {
	switch s {
	case "~", "NaN", "∞", "-∞", "-", "–":
		return true
	}
	s = strings.TrimLeft(s, "+-−±<>≤≥ ~")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// String returns the table as aligned text columns.
func (t Table) String() string {
	t = t.filled()
	width := make([]int, t.columns())
	rows := append([][]string{t.Head}, t.Rows...)
	for _, row := range rows {
		for c, s := range row {
			width[c] = max(width[c], utf8.RuneCountInString(oneLine(s)))
		}
	}
	right := t.numeric()
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "%s\n", clean(t.Title))
	}
	line := func(row []string) {
		var l strings.Builder
		for c := range width {
			s := ""
			if c < len(row) {
				s = oneLine(row[c])
			}
			pad := strings.Repeat(" ", width[c]-utf8.RuneCountInString(s))
			if c > 0 {
				l.WriteString("  ")
			}
			if right[c] {
				l.WriteString(pad + s)
			} else {
				l.WriteString(s + pad)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	if len(t.Head) > 0 {
		line(t.Head)
		for c := range width {
			if c > 0 {
				b.WriteString("  ")
			}
			b.WriteString(strings.Repeat("─", width[c]))
		}
		b.WriteByte('\n')
	}
	for _, row := range t.Rows {
		line(row)
	}
	for _, note := range t.Notes {
		b.WriteString(clean(note) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func oneLine(s string) string { return strings.ReplaceAll(clean(s), "\n", " ") }

// breaks is how a narrow page, which scrolls its tables, breaks a cell: not a short one, as
// 2.83 ms and a histogram are one word, and a long one into few lines.
func breaks(number bool, text string) string {
	if number || utf8.RuneCountInString(text) <= 28 && !strings.Contains(text, "\n") {
		return ";white-space:nowrap"
	}
	return ";min-width:14em"
}

// HTML returns a table element with the title as its caption, and notes below it.
func (t Table) HTML() string {
	t = t.filled()
	right := t.numeric()
	var b strings.Builder
	b.WriteString("<div><table>")
	if t.Title != "" {
		fmt.Fprintf(&b, `<caption style="caption-side:top;text-align:left;font-weight:bold">%s</caption>`, escape(t.Title))
	}
	row := func(cells []string, tag string) {
		b.WriteString("<tr>")
		if len(cells) == 1 && len(right) > 1 && tag == "td" { // the heading of the rows below
			fmt.Fprintf(&b, `<td colspan="%d" style="text-align:left;font-weight:bold">%s</td></tr>`, len(right), escape(cells[0]))
			return
		}
		for c := range right {
			s, in := "", 0
			if c < len(cells) {
				text := strings.TrimLeft(cells[c], " ")
				s, in = strings.ReplaceAll(escape(text), "\n", "<br>"), len(cells[c])-len(text)
			}
			if tag == "th" { // validation/main/accuracy may be broken where the page is narrow
				s = strings.NewReplacer("/", "/<wbr/>", "_", "_<wbr/>").Replace(s)
			}
			align := "left"
			if right[c] {
				align = "right"
			}
			if tag == "td" && s != "" {
				align += breaks(right[c], cells[c])
			}
			if in > 0 { // a page drops the spaces that a text begins with
				align += fmt.Sprintf(";padding-left:%.1fem", 0.7+float64(in)/2)
			}
			fmt.Fprintf(&b, `<%s style="text-align:%s">%s</%s>`, tag, align, s, tag)
		}
		b.WriteString("</tr>")
	}
	if len(t.Head) > 0 {
		b.WriteString("<thead>")
		row(t.Head, "th")
		b.WriteString("</thead>")
	}
	b.WriteString("<tbody>")
	for _, cells := range t.Rows {
		row(cells, "td")
	}
	b.WriteString("</tbody></table>")
	b.WriteString(small(t.Notes...) + "</div>")
	return b.String()
}
