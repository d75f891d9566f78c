package data

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// CSV reads a table from a file of comma-separated values.
type CSV struct {
	Comma    rune     // default: a comma, or a tab in .tsv files
	NoHeader bool     // the first line is data; columns are called c1, c2, …
	Missing  []string // what stands for a missing value, besides nothing; default: NA, NaN, nan, null, ?
	Text     []string // columns that are categories though all values are numbers, such as codes
}

// Table is columns of one length.
type Table struct {
	Columns []Column

	file  string
	lines []int // by row
}

// Column is a column of numbers or of text.
type Column struct {
	Name    string
	Numbers []float32 // NaN where a value is missing
	Text    []string  // nil for numbers; "" where a value is missing
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.lines) }

// Names are the columns' names.
func (t *Table) Names() (l []string) {
	for _, c := range t.Columns {
		l = append(l, c.Name)
	}
	return l
}

// String says how many rows there are, and the columns with their types.
func (t *Table) String() string {
	var l []string
	for _, c := range t.Columns {
		kind := "numbers"
		if c.Text != nil {
			kind = "text"
		}
		l = append(l, c.Name+" "+kind)
	}
	return fmt.Sprintf("%d rows: %s", t.Len(), strings.Join(l, ", "))
}

// Read reads the table. A column is numbers if all values are that are not missing.
func (o CSV) Read(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	if o.Comma == 0 && strings.HasSuffix(path, ".tsv") {
		o.Comma = '\t'
	}
	return o.read(path, f)
}

func (o CSV) read(path string, from io.Reader) (*Table, error) {
	r := csv.NewReader(from)
	if o.Comma != 0 {
		r.Comma = o.Comma
	}
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = -1
	missing := o.Missing
	if missing == nil {
		missing = []string{"NA", "NaN", "nan", "null", "?"}
	}
	t := &Table{file: path}
	for {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			if wrong := new(csv.ParseError); errors.As(err, &wrong) {
				return nil, fmt.Errorf("data: %s:%d: column %d: %w", path, wrong.Line, wrong.Column, wrong.Err)
			}
			return nil, fmt.Errorf("data: %s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		if t.Columns == nil {
			for i, name := range row {
				if name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")); o.NoHeader {
					name = fmt.Sprintf("c%d", i+1)
				}
				if name == "" || slices.Contains(t.Names(), name) {
					return nil, fmt.Errorf("data: %s:%d: column %d is called %q: want names that differ, or NoHeader", path, line, i+1, name)
				}
				t.Columns = append(t.Columns, Column{Name: name, Text: []string{}})
			}
			if !o.NoHeader {
				continue
			}
		}
		if len(row) != len(t.Columns) {
			return nil, fmt.Errorf("data: %s:%d: %d values, want %d: %s", path, line, len(row), len(t.Columns), strings.Join(t.Names(), ", "))
		}
		for i, v := range row {
			if v = strings.TrimSpace(v); slices.Contains(missing, v) {
				v = ""
			}
			t.Columns[i].Text = append(t.Columns[i].Text, v)
		}
		t.lines = append(t.lines, line)
	}
	if t.Len() == 0 {
		return nil, fmt.Errorf("data: %s: no rows: want a header and at least one", path)
	}
	for _, name := range o.Text {
		if !slices.Contains(t.Names(), name) {
			return nil, t.noColumn(name)
		}
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !slices.Contains(o.Text, c.Name) {
			c.parse()
		}
	}
	return t, nil
}

// parse makes the column numbers, if it can be.
func (c *Column) parse() {
	numbers, some := make([]float32, len(c.Text)), false
	for i, v := range c.Text {
		if v == "" {
			numbers[i] = float32(math.NaN())
			continue
		}
		x, err := strconv.ParseFloat(v, 32)
		if err != nil {
			return
		}
		numbers[i], some = float32(x), true
	}
	if some {
		c.Numbers, c.Text = numbers, nil
	}
}

func (t *Table) noColumn(name string) error {
	return fmt.Errorf("data: %s: no column %q: there are %s", t.file, name, strings.Join(t.Names(), ", "))
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

// First is the first n rows, or all if there are fewer.
func (t *Table) First(n int) *Table { return t.rows(sequence(0, max(0, min(n, t.Len())))) }

// Split is the first part of the rows, such as 0.8, and the others. To split at random,
// shuffle before.
func (t *Table) Split(part float64) (first, others *Table) {
	at := splitAt(t.Len(), part)
	return t.rows(sequence(0, at)), t.rows(sequence(at, t.Len()))
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
	other := &Table{file: t.file}
	for _, c := range t.Columns {
		now := Column{Name: c.Name}
		for _, i := range index {
			if c.Text != nil {
				now.Text = append(now.Text, c.Text[i])
			} else {
				now.Numbers = append(now.Numbers, c.Numbers[i])
			}
		}
		if c.Text != nil && now.Text == nil {
			now.Text = []string{}
		}
		other.Columns = append(other.Columns, now)
	}
	for _, i := range index {
		other.lines = append(other.lines, t.lines[i])
	}
	return other
}
