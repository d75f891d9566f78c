package data

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// CSV reads a table from a file of comma-separated values in UTF-8, which may be compressed
// with gzip. Lines without anything are left out, and so are columns without a name that are
// empty or only count the rows, such as the index that pandas writes.
type CSV struct {
	Comma    rune     // default: that of comma, semicolon, tab and | which the first line has most of
	NoHeader bool     // the first line is data; columns are called c1, c2, …
	Missing  []string // what stands for a missing value, besides nothing; default: NA, N/A, n/a, #N/A, <NA>, NaN, nan, NULL, null, None, -, ?
	Text     []string // columns that are text though all values are numbers or times, such as codes
	Decimal  rune     // of numbers; default: a point. With a comma, points are between thousands
	Strip    string   // characters that are left out of numbers, such as "$,%"
	Time     string   // the form of times, as package time has it, such as "02/01/2006"; default: ISO 8601, 2006/01/02, 02.01.2006
}

var usuallyMissing = []string{"NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", "-", "?"}

// Read reads the table. A column is numbers, or times, if all values are that are not missing.
// Integers that no float64 has exactly, such as long identifiers, make a column text.
func (o CSV) Read(path string) (*Table, error) {
	r, done, err := open(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return o.read(path, r)
}

func (o CSV) read(path string, from *bufio.Reader) (t *Table, err error) {
	for t, err = range o.chunks(path, from, 0) {
		return t, err
	}
	return t, err
}

// Chunks reads a file that does not fit in memory as tables of so many rows, for
// [Encoder.Stream]. The first one decides which columns are numbers, times and text.
func (o CSV) Chunks(path string, rows int) iter.Seq2[*Table, error] {
	return func(yield func(*Table, error) bool) {
		if rows < 1 {
			yield(nil, fmt.Errorf("data: CSV.Chunks of %d rows: want 1 or more", rows))
			return
		}
		r, done, err := open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer done()
		for t, err := range o.chunks(path, r, rows) {
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// chunks reads tables of so many rows; 0: one of all.
func (o CSV) chunks(path string, from *bufio.Reader, rows int) iter.Seq2[*Table, error] {
	return func(yield func(*Table, error) bool) {
		s, err := o.begin(path, from)
		if err != nil {
			yield(nil, err)
			return
		}
		var first *Table
		for !s.ended {
			t, err := s.table(rows)
			if err == nil && t.Len() == 0 && first != nil {
				return
			}
			if err == nil {
				err = o.finish(t, first)
			}
			if !yield(t, err) || err != nil {
				return
			}
			if first == nil {
				first = t
			}
		}
	}
}

// csvSource is a file while it is read.
type csvSource struct {
	CSV
	path  string
	r     *csv.Reader
	names []string
	row   []string // that was read and is of the next table
	ended bool
}

func (o CSV) begin(path string, from *bufio.Reader) (*csvSource, error) {
	for name, c := range map[string]rune{"Comma": o.Comma, "Decimal": o.Decimal} {
		if c == '"' || c == '\n' || c == '\r' || c == utf8.RuneError || c != 0 && !utf8.ValidRune(c) || c == '.' && name == "Comma" {
			return nil, fmt.Errorf("data: CSV.%s is %q: want another character", name, c)
		}
	}
	if o.Comma == 0 {
		o.Comma = separator(from)
	}
	if o.Missing == nil {
		o.Missing = usuallyMissing
	}
	s := &csvSource{CSV: o, path: path, r: csv.NewReader(from)}
	s.r.Comma, s.r.TrimLeadingSpace, s.r.FieldsPerRecord = o.Comma, o.Comma != '\t', -1
	row, err := s.next()
	if err == io.EOF {
		return nil, fmt.Errorf("data: %s: empty: no rows: want a header and at least one", path)
	}
	if err != nil {
		return nil, err
	}
	if strings.Contains(strings.Join(row, ""), "\r") {
		return nil, fmt.Errorf("data: %s: lines that end with a carriage return alone: want line feeds: run tr '\\r' '\\n'", path)
	}
	if s.names = row; o.NoHeader {
		s.names, s.row = nil, row
		for i := range row {
			s.names = append(s.names, fmt.Sprintf("c%d", i+1))
		}
	}
	seen := map[string]int{}
	for i, name := range s.names {
		name = strings.TrimSpace(name)
		if other, twice := seen[name]; twice && name != "" {
			line, column := s.r.FieldPos(i)
			return nil, fmt.Errorf("data: %s:%d:%d: columns %d and %d are both called %q: want names that differ, or NoHeader", path, line, column, other+1, i+1, name)
		}
		s.names[i], seen[name] = name, i
	}
	return s, nil
}

// separator is the most frequent one of the first line, quotes apart.
func separator(from *bufio.Reader) rune {
	start, _ := from.Peek(from.Size())
	counts, quoted := map[byte]int{}, false
	for _, c := range start {
		if c == '"' {
			quoted = !quoted
		} else if c == '\n' && !quoted {
			break
		} else if !quoted {
			counts[c]++
		}
	}
	best := byte(',')
	for _, c := range []byte(";\t|") {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return rune(best)
}

// next reads a row.
func (s *csvSource) next() ([]string, error) {
	row, err := s.r.Read()
	if err == io.EOF {
		return nil, err
	}
	if wrong := new(csv.ParseError); errors.As(err, &wrong) {
		hint := ": a value with quotes in it wants quotes around it, and \"\" for each"
		if wrong.StartLine != wrong.Line {
			hint = fmt.Sprintf(": the quoted value begins at line %d: want a quote at its end", wrong.StartLine)
		}
		return nil, fmt.Errorf("data: %s:%d:%d: %w%s", s.path, wrong.Line, wrong.Column, wrong.Err, hint)
	}
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", s.path, err)
	}
	for i, v := range row {
		if !utf8.ValidString(v) {
			line, column := s.r.FieldPos(i)
			return nil, fmt.Errorf("data: %s:%d:%d: column %s: %w", s.path, line, column, s.name(i), notUTF8(v))
		}
	}
	return row, nil
}

// notUTF8 says which byte is none of UTF-8.
func notUTF8(v string) error {
	at := 0
	for at < len(v) {
		r, size := utf8.DecodeRuneInString(v[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return fmt.Errorf("byte %#x after %q is not UTF-8: want UTF-8: the text may be Latin-1: run iconv -f WINDOWS-1252 -t UTF-8, or save it as CSV UTF-8", v[at], v[max(0, at-20):at])
}

func (s *csvSource) name(i int) string {
	if i < len(s.names) && s.names[i] != "" {
		return s.names[i]
	}
	return fmt.Sprint(i + 1)
}

// table reads so many rows as text; 0: all that there are.
func (s *csvSource) table(rows int) (*Table, error) {
	t := &Table{Name: s.path, lines: []int{}}
	for _, name := range s.names {
		t.Columns = append(t.Columns, Column{Name: name, Text: []string{}})
	}
	for rows == 0 || len(t.lines) < rows {
		row, err := s.row, error(nil)
		if s.row = nil; row == nil {
			row, err = s.next()
		}
		if err == io.EOF {
			s.ended = true
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := s.r.FieldPos(0)
		if len(row) != len(s.names) {
			hint := "missing values stay empty between commas"
			if len(row) > len(s.names) {
				hint = fmt.Sprintf("a value with %q in it wants quotes around it", s.Comma)
			}
			return nil, fmt.Errorf("data: %s:%d: %d values, want %d: %s: %s", s.path, line, len(row), len(s.names), strings.Join(s.names, ", "), hint)
		}
		for i, v := range row {
			if v = strings.TrimSpace(v); slices.Contains(s.Missing, v) {
				v = ""
			}
			t.Columns[i].Text = append(t.Columns[i].Text, v)
		}
		t.lines = append(t.lines, line)
	}
	return t, nil
}

// finish makes numbers and times of columns, as those of the first table of the file are, if
// there is one.
func (o CSV) finish(t, first *Table) error {
	if t.Len() == 0 {
		return fmt.Errorf("data: %s: no rows: want at least one below the header %s", t.Name, strings.Join(t.Names(), ", "))
	}
	if first != nil {
		return o.likeFirst(t, first)
	}
	kept := t.Columns[:0:0]
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Name != "" {
			kept = append(kept, *c)
			continue
		}
		if !c.counts() {
			return fmt.Errorf("data: %s:1: column %d has no name: want one, or NoHeader", t.Name, i+1)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("column %d has no name and only counts the rows, or is empty: left out", i+1))
	}
	t.Columns = kept
	for _, name := range o.Text {
		if t.Column(name) == nil {
			return t.noColumn(name)
		}
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !slices.Contains(o.Text, c.Name) && !o.numbers(c) && !o.times(c) {
			c.doubt = o.doubt(t, c)
		}
	}
	return t.check()
}

// likeFirst is finish for other tables of a file.
func (o CSV) likeFirst(t, first *Table) error {
	t.Columns = slices.DeleteFunc(t.Columns, func(c Column) bool { return first.Column(c.Name) == nil })
	for i := range t.Columns {
		c := &t.Columns[i]
		is := true
		switch first.Column(c.Name).Kind() {
		case "numbers":
			is = o.numbers(c)
		case "times":
			is = o.times(c)
		}
		if is {
			continue
		}
		for k, v := range c.Text {
			one := Column{Text: []string{v}}
			if v != "" && !o.numbers(&one) && !o.times(&one) {
				return fmt.Errorf("data: %s: %s is %.40q: want %s, as in the first rows; correct it, add it to CSV.Missing, or name the column in CSV.Text", t.at(k), c.Name, v, first.Column(c.Name).Kind())
			}
		}
		return t.errorf("lines %d to %d: column %s is not of one kind: want %s, as in the first rows; or name the column in CSV.Text", t.lines[0], t.lines[len(t.lines)-1], c.Name, first.Column(c.Name).Kind())
	}
	return nil
}
