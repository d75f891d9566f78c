package data

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// How tables and examples are shown: as text, and as HTML without scripts, styles of a page,
// or SVG, which front ends remove from notebooks that are not trusted.

const (
	shownRows, shownColumns = 6, 24
	ticks                   = "▁▂▃▄▅▆▇█"
)

// summary describes numbers: a small histogram, and their range.
func summary(n int, at func(i int) float64, text func(float64) string) (bars string, values []string) {
	low, high, sum, count := math.Inf(1), math.Inf(-1), 0.0, 0.0
	for i := range n {
		if x := at(i); !math.IsNaN(x) && !math.IsInf(x, 0) {
			low, high, sum, count = min(low, x), max(high, x), sum+x, count+1
		}
	}
	if count == 0 {
		return "", nil
	}
	if low == high {
		return "", []string{text(low)}
	}
	bins, most := make([]int, 10), 0
	for i := range n {
		if x := at(i); !math.IsNaN(x) && !math.IsInf(x, 0) {
			k := min(int((x/2-low/2)/(high/2-low/2)*float64(len(bins))), len(bins)-1)
			bins[k]++
			most = max(most, bins[k])
		}
	}
	levels := []rune(ticks)
	for _, b := range bins {
		switch {
		case b == 0:
			bars += " "
		default:
			bars += string(levels[min(b*len(levels)/most, len(levels)-1)])
		}
	}
	return bars, []string{text(low) + " … " + text(high), "mean " + text(sum/count)}
}

// brief is a number with four digits, or all of a larger one.
func brief(x float64) string {
	if size := math.Abs(x); size < 1e9 && (x == math.Trunc(x) || size >= 1000) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// most are how many values there are, and those that occur most often with their counts.
func most(text []string) (l []string) {
	counts := map[string]int{}
	for _, v := range text {
		if v != "" {
			counts[v]++
		}
	}
	for v := range counts {
		at, _ := slices.BinarySearchFunc(l, v, func(a, b string) int {
			return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
		})
		if at < 3 {
			l = slices.Insert(l, at, v)
			l = l[:min(len(l), 3)]
		}
	}
	n := len(counts)
	if n > 3 && counts[l[0]] == 1 {
		return []string{fmt.Sprintf("%d values, all different", n)}
	}
	for i, v := range l {
		l[i] = fmt.Sprintf("%s %d×", cut(v), counts[v])
	}
	if n > 3 {
		l = append(append([]string{fmt.Sprintf("%d values", n)}, l...), "…")
	}
	return l
}

// cut is a value on one line, of 24 characters at most.
func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 24 {
		s = string(r[:23]) + "…"
	}
	return s
}

func (c *Column) describe() (bars string, values []string, missing int) {
	for i := range c.len() {
		if c.missing(i) {
			missing++
		}
	}
	if c.Text != nil {
		return "", most(c.Text), missing
	}
	text := brief
	if c.Times != nil {
		form := "2006-01-02"
		if slices.ContainsFunc(c.Times, func(t time.Time) bool { return !t.IsZero() && !t.Equal(t.Truncate(24*time.Hour)) }) {
			form += " 15:04:05"
		}
		text = func(x float64) string { return time.Unix(int64(math.Round(x*86400)), 0).UTC().Format(form) }
	}
	bars, values = summary(c.len(), c.number, text)
	return bars, values, missing
}

func (t *Table) title() string { return fmt.Sprintf("%d rows, %d columns", t.Len(), len(t.Columns)) }

// remarks are what one should know before one trains.
func (t *Table) remarks() []string {
	l := slices.Clone(t.Notes)
	for _, c := range t.Columns {
		if c.doubt != "" {
			l = append(l, c.doubt)
		}
	}
	return l
}

// String describes the columns, a line for each.
func (t *Table) String() string {
	rows := [][]string{{"column", "kind", "missing", "", "values"}}
	for i := range t.Columns {
		c := &t.Columns[i]
		bars, values, missing := c.describe()
		rows = append(rows, []string{cut(c.Name), c.Kind(), fmt.Sprint(missing), bars, strings.Join(values, ", ")})
	}
	return strings.Join(append([]string{t.title(), aligned(rows)}, t.remarks()...), "\n")
}

func aligned(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// HTML is the first rows, below the kind of each column, how many values are missing, and a
// small histogram or the most frequent values.
func (t *Table) HTML() string {
	columns := t.Columns[:min(len(t.Columns), shownColumns)]
	head := make([][]string, 3)
	for i := range columns {
		c := &columns[i]
		bars, values, missing := c.describe()
		kind := c.Kind()
		if missing > 0 {
			kind += fmt.Sprintf(", %d missing", missing)
		}
		about := strings.Join(values, "\n")
		if bars != "" {
			about = bars + "\n" + about
		}
		head[0], head[1], head[2] = append(head[0], c.Name), append(head[1], kind), append(head[2], about)
	}
	var body [][]string
	for i := range min(t.Len(), shownRows) {
		var row []string
		for k := range columns {
			row = append(row, cut(columns[k].value(i)))
		}
		body = append(body, row)
	}
	title := t.title()
	if t.Len() > shownRows {
		title += fmt.Sprintf("; the first %d rows", shownRows)
	}
	if len(t.Columns) > shownColumns {
		title += fmt.Sprintf(" of the first %d columns", shownColumns)
	}
	return htmlTable(title, head, body, func(k int) bool { return columns[k].Text == nil }, t.remarks())
}

func htmlTable(title string, head, body [][]string, right func(k int) bool, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<div><div><small>%s</small></div><table><thead>`, html.EscapeString(title))
	for i, row := range append(head, body...) {
		if i == len(head) {
			b.WriteString("</thead><tbody>")
		}
		b.WriteString("<tr>")
		for k, s := range row {
			align := "left"
			if right(k) {
				align = "right"
			}
			tag, text := "td", strings.ReplaceAll(html.EscapeString(strings.ToValidUTF8(s, "\uFFFD")), "\n", "<br>")
			if i < len(head) {
				tag = "th"
			}
			if i > 0 && i < len(head) {
				text = `<small style="font-weight:normal;white-space:pre">` + text + "</small>"
			}
			fmt.Fprintf(&b, `<%s style="text-align:%s">%s</%s>`, tag, align, text, tag)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	for _, note := range notes {
		fmt.Fprintf(&b, "<div><small>%s</small></div>", html.EscapeString(note))
	}
	return b.String() + "</div>"
}

// parts describes the arrays of the examples, a row for each.
func (e Examples) parts() [][]string {
	rows := [][]string{{"part", "shape", "type", "", "values"}}
	add := func(name string, x any) {
		if x == SameX {
			rows = append(rows, []string{name, "", "", "", "those of X"})
		} else if x != nil {
			rows = append(rows, append([]string{name}, describe(x)...))
		}
	}
	if in, several := e.X.(Inputs); several {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			add("X "+name, in[name])
		}
	} else {
		add("X", e.X)
	}
	add("Y", e.Y)
	if e.V != nil {
		add("V", e.V)
	}
	return rows
}

// describe is the shape, the type and the values of nested or flat numbers.
func describe(x any) []string {
	var dims []int
	if a, is := x.(Array); is {
		x, dims = a.Flat, a.Dims
	}
	v := reflect.ValueOf(x)
	nested := dims == nil
	for v.Kind() == reflect.Slice && nested {
		if dims = append(dims, v.Len()); v.Len() == 0 || v.Type().Elem().Kind() != reflect.Slice {
			break
		}
		v = v.Index(0)
		nested = true
	}
	if v.Kind() != reflect.Slice {
		return []string{"", fmt.Sprintf("%T", x), "", ""}
	}
	shape, typ := strings.ReplaceAll(fmt.Sprint(dims), " ", "×"), v.Type().Elem().String()
	if len(dims) > 1 && reflect.TypeOf(x).Elem().Kind() == reflect.Slice {
		return []string{shape, typ, "", ""} // rows
	}
	zero := v.Type().Elem().Kind()
	if zero == reflect.Bool || zero == reflect.String || zero < reflect.Int || zero > reflect.Float64 {
		return []string{shape, typ, "", ""}
	}
	every := max(1, v.Len()/100000) // a look at some is enough
	float := reflect.TypeFor[float64]()
	bars, values := summary(v.Len()/every, func(i int) float64 { return v.Index(i * every).Convert(float).Float() }, brief)
	return []string{shape, typ, bars, strings.Join(values, ", ")}
}

func (e Examples) title() string {
	if e.X == nil {
		return "no examples"
	}
	n := e.N
	if n == 0 {
		n = nested(e.X)
	}
	if n < 0 {
		return "examples, N is 0"
	}
	return fmt.Sprintf("%d examples", n)
}

// String describes the arrays, a line for each.
func (e Examples) String() string { return e.title() + "\n" + aligned(e.parts()) }

// HTML describes the arrays as a table.
func (e Examples) HTML() string {
	rows := e.parts()
	return htmlTable(e.title(), rows[:1], rows[1:], func(int) bool { return false }, nil)
}

// String describes the arrays, a line for each.
func (in Inputs) String() string { return Examples{X: in}.String() }

// HTML describes the arrays as a table.
func (in Inputs) HTML() string { return Examples{X: in}.HTML() }
