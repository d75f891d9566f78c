package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// JSONLines reads a table from a file with a JSON object for each row, one a line, or in one
// array; it may be compressed with gzip. Columns are the keys in the order in which they
// occur; the keys of objects in objects are joined by points. A key that is absent or null
// is a missing value. Bools are text. Strings are text, or times where all are ISO 8601.
type JSONLines struct {
	Text []string // columns that are text though they have numbers
}

// Read reads the table.
func (o JSONLines) Read(path string) (*Table, error) {
	r, done, err := open(path)
	if err != nil {
		return nil, err
	}
	defer done()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return o.read(path, b)
}

// jsonReader is a file while it is read.
type jsonReader struct {
	*json.Decoder
	text    []byte
	line    int // at offset
	offset  int
	columns []jsonColumn
	index   map[string]int // of columns
	row     int
	present int // values, of all rows
}

type jsonColumn struct {
	name   string
	values []any // string, bool or json.Number; nil: missing; the last ones may be left out
}

// at is the line of the last token.
func (r *jsonReader) at() int {
	offset := min(int(r.InputOffset()), len(r.text))
	r.line += bytes.Count(r.text[r.offset:offset], []byte("\n"))
	r.offset = offset
	return r.line
}

func (o JSONLines) read(path string, b []byte) (*Table, error) {
	r := &jsonReader{Decoder: json.NewDecoder(bytes.NewReader(b)), text: b, line: 1, index: map[string]int{}}
	r.UseNumber()
	t := &Table{Name: path, lines: []int{}}
	if !utf8.Valid(b) {
		for i, line := range bytes.Split(b, []byte("\n")) {
			if !utf8.Valid(line) {
				return nil, fmt.Errorf("data: %s:%d: %w", path, i+1, notUTF8(string(line)))
			}
		}
	}
	array := false
	for {
		token, err := r.Token()
		if err == io.EOF && !array {
			break
		}
		switch line := r.at(); {
		case err != nil:
			return nil, r.failed(path, err)
		case token == json.Delim('[') && !array && len(t.lines) == 0:
			array = true
		case token == json.Delim(']') && array:
			array = false
		case token != json.Delim('{'):
			return nil, fmt.Errorf("data: %s:%d: got %.40q, want an object for each row, such as {\"size\": 3, \"city\": \"Rome\"}", path, line, fmt.Sprint(token))
		default:
			if err := r.object(path, "", 1); err != nil {
				return nil, err
			}
			t.lines = append(t.lines, line)
			r.row++
		}
	}
	if r.row == 0 || len(r.columns) == 0 {
		return nil, fmt.Errorf("data: %s: no rows: want an object for each, one a line", path)
	}
	if cells := r.row * len(r.columns); cells > 1<<20 && cells/64 > r.present {
		return nil, fmt.Errorf("data: %s: %d rows have %d different keys, and few in common: want the same keys in all", path, r.row, len(r.columns))
	}
	for _, name := range o.Text {
		if _, is := r.index[name]; !is {
			for _, c := range r.columns {
				t.Columns = append(t.Columns, Column{Name: c.name})
			}
			return nil, t.noColumn(name)
		}
	}
	for _, c := range r.columns {
		column, err := c.column(t, r.row, slices.Contains(o.Text, c.name))
		if err != nil {
			return nil, err
		}
		t.Columns = append(t.Columns, column)
	}
	return t, nil
}

// failed is an error of the decoder, with its line.
func (r *jsonReader) failed(path string, err error) error {
	if wrong := new(json.SyntaxError); errors.As(err, &wrong) {
		line := 1 + bytes.Count(r.text[:min(max(int(wrong.Offset)-1, 0), len(r.text))], []byte("\n"))
		return fmt.Errorf("data: %s:%d: %w: want JSON, an object for each row", path, line, err)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("data: %s:%d: the file ends within a value: want JSON, an object for each row", path, 1+bytes.Count(r.text, []byte("\n")))
	}
	return fmt.Errorf("data: %s:%d: %w", path, r.at(), err)
}

// object reads the keys of an object, which has begun.
func (r *jsonReader) object(path, prefix string, depth int) error {
	if depth > 20 {
		return fmt.Errorf("data: %s:%d: %.40s: objects in objects, more than 20 deep: want a table's rows", path, r.at(), prefix)
	}
	for {
		token, err := r.Token()
		if err != nil {
			return r.failed(path, err)
		}
		if token == json.Delim('}') {
			return nil
		}
		name := prefix + token.(string)
		if token, err = r.Token(); err != nil {
			return r.failed(path, err)
		}
		switch token {
		case json.Delim('{'):
			if err := r.object(path, name+".", depth+1); err != nil {
				return err
			}
			continue
		case json.Delim('['):
			return fmt.Errorf("data: %s:%d: %s is an array: want a number, a string, a bool or null; read such files with encoding/json and make a table of a slice of structs with data.TableOf", path, r.at(), name)
		case nil:
		default:
			r.present++
		}
		k, is := r.index[name]
		if !is {
			k = len(r.columns)
			r.index[name], r.columns = k, append(r.columns, jsonColumn{name: name})
		}
		c := &r.columns[k]
		if len(c.values) > r.row {
			return fmt.Errorf("data: %s:%d: %q occurs twice in the object: want names that differ", path, r.at(), name)
		}
		if grown := r.row + 1 - len(c.values); grown > 1<<20 && grown/64 > r.present {
			return fmt.Errorf("data: %s:%d: %q occurs first here: want the same keys in all rows", path, r.at(), name)
		}
		c.values = append(slices.Grow(c.values, r.row+1-len(c.values))[:r.row], token)
	}
}

// column is the values as numbers, times or text.
func (c jsonColumn) column(t *Table, rows int, text bool) (Column, error) {
	to := Column{Name: c.name}
	first, kind := 0, ""
	for i, v := range c.values {
		now := ""
		switch v.(type) {
		case json.Number:
			now = "a number"
		case string:
			now = "a string"
		case bool:
			now = "a bool"
		case nil:
			continue
		}
		if kind == "" {
			first, kind = i, now
		} else if now != kind && !text {
			return to, fmt.Errorf("data: %s: %s is %s, and %s at line %d: want one kind of values, or the column in JSONLines.Text", t.at(i), c.name, now, kind, t.lines[first])
		}
	}
	to.Text = make([]string, rows)
	for i, v := range c.values {
		if v != nil {
			to.Text[i] = strings.TrimSpace(fmt.Sprint(v))
		}
	}
	switch {
	case text:
	case kind == "a number" && !(CSV{}).numbers(&to):
		for i, v := range to.Text { // long integers are text
			if _, is := (CSV{}).number(v); v != "" && !is && !integer.MatchString(v) {
				return to, fmt.Errorf("data: %s: %s is %.40s: want a number that a float64 can be", t.at(i), c.name, v)
			}
		}
	case kind == "a string":
		CSV{}.times(&to)
	}
	return to, nil
}
