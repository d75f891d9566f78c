package data

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Table is columns of one length, with names that differ.
type Table struct {
	Columns []Column
	Name    string   // of the file, for errors
	Notes   []string // what has been left out of the file

	lines []int // by row; nil: rows have numbers from 1
}

// Column is a column of numbers, of times or of text.
type Column struct {
	Name    string
	Numbers []float64   // NaN where a value is missing
	Times   []time.Time // the zero Time where a value is missing
	Text    []string    // nil for numbers and times; "" where a value is missing

	doubt string // why text is perhaps no text, with what to do
}

// Len is the number of rows.
func (t *Table) Len() int {
	if len(t.Columns) == 0 {
		return len(t.lines)
	}
	return t.Columns[0].len()
}

func (c *Column) len() int { return max(len(c.Numbers), len(c.Times), len(c.Text)) }

// Kind is numbers, times or text.
func (c *Column) Kind() string {
	switch {
	case c.Text != nil:
		return "text"
	case c.Times != nil:
		return "times"
	}
	return "numbers"
}

// missing says whether row i has no value.
func (c *Column) missing(i int) bool {
	switch {
	case c.Text != nil:
		return c.Text[i] == ""
	case c.Times != nil:
		return c.Times[i].IsZero()
	}
	return c.Numbers[i] != c.Numbers[i]
}

// value is row i as text.
func (c *Column) value(i int) string {
	switch {
	case c.missing(i):
		return ""
	case c.Text != nil:
		return c.Text[i]
	case c.Times != nil:
		return strings.TrimSuffix(c.Times[i].Format("2006-01-02 15:04:05.999999999"), " 00:00:00")
	}
	return shortest(c.Numbers[i])
}

// pick is the column with some rows.
func (c *Column) pick(index []int) Column {
	now := Column{Name: c.Name, doubt: c.doubt}
	switch {
	case c.Text != nil:
		now.Text = pick(c.Text, index)
	case c.Times != nil:
		now.Times = pick(c.Times, index)
	default:
		now.Numbers = pick(c.Numbers, index)
	}
	return now
}

func pick[T any](l []T, index []int) []T {
	to := make([]T, len(index))
	for i, from := range index {
		to[i] = l[from]
	}
	return to
}

// Names are the columns' names.
func (t *Table) Names() (l []string) {
	for _, c := range t.Columns {
		l = append(l, c.Name)
	}
	return l
}

// at is where a row comes from: file:line, or the number of a row.
func (t *Table) at(row int) string {
	name := cmp.Or(t.Name, "table")
	if t.lines == nil {
		return fmt.Sprintf("%s: row %d", name, row+1)
	}
	return fmt.Sprintf("%s:%d", name, t.lines[row])
}

func (t *Table) errorf(format string, args ...any) error {
	name := ""
	if t.Name != "" {
		name = t.Name + ": "
	}
	return fmt.Errorf("data: %s%w", name, fmt.Errorf(format, args...))
}

func (t *Table) noColumn(name string) error {
	return t.errorf("no column %q: want one of %s", name, strings.Join(t.Names(), ", "))
}

// Column is the column of a name, nil if there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// check says what is wrong with columns that a program has put together.
func (t *Table) check() error {
	seen := map[string]int{}
	for i := range t.Columns {
		c := &t.Columns[i]
		kinds := 0
		for _, is := range []bool{c.Numbers != nil, c.Times != nil, c.Text != nil} {
			if is {
				kinds++
			}
		}
		switch other, twice := seen[c.Name]; {
		case c.Name == "":
			return t.errorf("column %d has no name: want one", i+1)
		case twice:
			return t.errorf("columns %d and %d are both called %q: want names that differ", other+1, i+1, c.Name)
		case kinds > 1 || kinds == 0 && t.Len() > 0:
			return t.errorf("column %s has %d of Numbers, Times and Text: want one of them", c.Name, kinds)
		case c.len() != t.Len():
			return t.errorf("column %s has %d rows, %s has %d: want the same in all", c.Name, c.len(), t.Columns[0].Name, t.Len())
		}
		seen[c.Name] = i
	}
	return nil
}

// Without is the table without some columns.
func (t *Table) Without(names ...string) (*Table, error) {
	for _, name := range names {
		if t.Column(name) == nil {
			return nil, t.noColumn(name)
		}
	}
	other := *t
	other.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return slices.Contains(names, c.Name) })
	return &other, nil
}

// With is the table with other columns, at the end or in place of those with their names.
func (t *Table) With(columns ...Column) (*Table, error) {
	other := *t
	other.Columns = slices.Clone(t.Columns)
	for _, c := range columns {
		if there := other.Column(c.Name); there != nil {
			*there = c
		} else {
			other.Columns = append(other.Columns, c)
		}
	}
	return &other, other.check()
}

// Categorical is the table with columns of numbers as text, which the encoder takes for
// categories and, as the target, for classes.
func (t *Table) Categorical(names ...string) (*Table, error) {
	other := *t
	other.Columns = slices.Clone(t.Columns)
	for _, name := range names {
		c := other.Column(name)
		if c == nil {
			return nil, t.noColumn(name)
		}
		text := make([]string, c.len())
		for i := range text {
			text[i] = c.value(i)
		}
		*c = Column{Name: name, Text: text}
	}
	return &other, nil
}

// Parse makes numbers of a column of text, with a function of your own. Missing values stay
// missing.
func (t *Table) Parse(name string, number func(text string) (float64, error)) (*Table, error) {
	c := t.Column(name)
	if c == nil {
		return nil, t.noColumn(name)
	}
	if c.Text == nil {
		return nil, t.errorf("column %s is %s: want text", name, c.Kind())
	}
	numbers := make([]float64, len(c.Text))
	for i, v := range c.Text {
		numbers[i] = missing
		if v == "" {
			continue
		}
		var err error
		if numbers[i], err = number(v); err != nil {
			return nil, fmt.Errorf("data: %s: column %s: %.40q: %w", t.at(i), name, v, err)
		}
	}
	return t.With(Column{Name: name, Numbers: numbers})
}

// First is the first n rows, or all if there are fewer.
func (t *Table) First(n int) *Table { return t.rows(sequence(0, firstOf(n, t.Len()))) }

// Split is the first part of the rows, such as 0.8, and the others. To split at random,
// shuffle before.
func (t *Table) Split(part float64) (first, others *Table) {
	at := splitAt(t.Len(), part)
	return t.rows(sequence(0, at)), t.rows(sequence(at, t.Len()))
}

// SplitStratified is Split of the rows of each value of a column by themselves, such as the
// target's, so that both parts have the same share of each.
func (t *Table) SplitStratified(column string, part float64) (first, others *Table, err error) {
	c := t.Column(column)
	if c == nil {
		return nil, nil, t.noColumn(column)
	}
	keys := make([]string, t.Len())
	for i := range keys {
		keys[i] = c.value(i)
	}
	a, b, err := stratified(keys, part)
	if err != nil {
		return nil, nil, t.errorf("column %s: %w", column, err)
	}
	return t.rows(a), t.rows(b), nil
}

// Shuffle is the rows in an order that the seed decides.
func (t *Table) Shuffle(seed int64) *Table { return t.rows(permutation(t.Len(), seed)) }

func sequence(from, to int) (l []int) {
	for i := from; i < to; i++ {
		l = append(l, i)
	}
	return l
}

func (t *Table) rows(index []int) *Table {
	other := &Table{Name: t.Name, Notes: t.Notes}
	for i := range t.Columns {
		other.Columns = append(other.Columns, t.Columns[i].pick(index))
	}
	if t.lines != nil {
		other.lines = pick(t.lines, index)
	}
	return other
}

// stratified are the indices of the first part of each key and of the others, in order.
func stratified[K comparable](keys []K, part float64) (first, others []int, err error) {
	splitAt(len(keys), part) // panics where the part means nothing
	of := map[K][]int{}
	for i, k := range keys {
		of[k] = append(of[k], i)
	}
	for k, l := range of {
		if len(l) < 2 {
			return nil, nil, fmt.Errorf("%v occurs once: want two examples or more of each, or Split", k)
		}
		at := min(max(int(part*float64(len(l))+0.5), 1), len(l)-1)
		first, others = append(first, l[:at]...), append(others, l[at:]...)
	}
	slices.Sort(first)
	slices.Sort(others)
	return first, others, nil
}
