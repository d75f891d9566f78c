package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	JSONLines
	path    string
	row     int
	present int // values, of all rows
	absent  int // values, before others of their columns
}

type jsonColumn struct {
	Builder
	name, kind string
	first      int // line of the first value
	last       int // row of the last value, from 1
	text       bool
}

// at is the line of the last token.
func (r *jsonReader) at() int {
	offset := min(int(r.InputOffset()), len(r.text))
	r.line += bytes.Count(r.text[r.offset:offset], []byte("\n"))
	r.offset = offset
	return r.line
}

func (o JSONLines) read(path string, b []byte) (*Table, error) {
	r := &jsonReader{Decoder: json.NewDecoder(bytes.NewReader(b)), text: b, line: 1, index: map[string]int{}, JSONLines: o, path: path}
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
			return nil, r.failed(err)
		case token == json.Delim('[') && !array && len(t.lines) == 0:
			array = true
		case token == json.Delim(']') && array:
			array = false
		case token != json.Delim('{'):
			return nil, fmt.Errorf("data: %s:%d: got %.40q, want an object for each row, such as {\"size\": 3, \"city\": \"Rome\"}", path, line, fmt.Sprint(token))
		default:
			if err := r.object("", 1); err != nil {
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
		return nil, r.fewInCommon()
	}
	for _, name := range o.Text {
		if _, is := r.index[name]; !is {
			for _, c := range r.columns {
				t.Columns = append(t.Columns, Column{Name: c.name})
			}
			return nil, t.noColumn(name)
		}
	}
	for i := range r.columns {
		c := &r.columns[i]
		column := c.Column(c.name, r.row)
		if c.kind == "a string" && !c.text {
			CSV{}.times(&column)
		}
		t.Columns = append(t.Columns, column)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, nil
}

func (r *jsonReader) fewInCommon() error {
	return fmt.Errorf("data: %s:%d: the rows so far have %d different keys, and few in common: want the same keys in all", r.path, r.at(), len(r.columns))
}

// failed is an error of the decoder, with its line.
func (r *jsonReader) failed(err error) error {
	if wrong := new(json.SyntaxError); errors.As(err, &wrong) {
		line := 1 + bytes.Count(r.text[:min(max(int(wrong.Offset)-1, 0), len(r.text))], []byte("\n"))
		return fmt.Errorf("data: %s:%d: %w: want JSON, an object for each row", r.path, line, err)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("data: %s:%d: the file ends within a value: want JSON, an object for each row", r.path, 1+bytes.Count(r.text, []byte("\n")))
	}
	return fmt.Errorf("data: %s:%d: %w", r.path, r.at(), err)
}

// object reads the keys of an object, after its brace.
func (r *jsonReader) object(prefix string, depth int) error {
	if depth > 20 {
		return fmt.Errorf("data: %s:%d: %.40s: objects in objects, more than 20 deep: want a table's rows", r.path, r.at(), prefix)
	}
	for {
		token, err := r.Token()
		if err != nil {
			return r.failed(err)
		}
		if token == json.Delim('}') {
			return nil
		}
		name := prefix + token.(string)
		if token, err = r.Token(); err != nil {
			return r.failed(err)
		}
		switch token {
		case json.Delim('{'):
			err = r.object(name+".", depth+1)
		case json.Delim('['):
			err = fmt.Errorf("data: %s:%d: %s is an array: want a number, a string, a bool or null; read such files with encoding/json and make a table of a slice of structs with data.TableOf", r.path, r.at(), name)
		default:
			err = r.value(name, token)
		}
		if err != nil {
			return err
		}
	}
}

// value puts the value of a key into its column.
func (r *jsonReader) value(name string, token any) error {
	k, is := r.index[name]
	if !is {
		k = len(r.columns)
		r.index[name], r.columns = k, append(r.columns, jsonColumn{name: name, text: slices.Contains(r.Text, name)})
	}
	c := &r.columns[k]
	if c.last == r.row+1 {
		return fmt.Errorf("data: %s:%d: %q occurs twice in the object: want names that differ", r.path, r.at(), name)
	}
	grown := r.row - c.last
	c.last = r.row + 1
	if token == nil {
		return nil
	}
	r.present, r.absent = r.present+1, r.absent+grown
	if r.absent > 1<<20 && r.absent/64 > r.present {
		return r.fewInCommon()
	}
	kind := map[bool]string{true: "a number", false: "a string"}[reflect.TypeOf(token) == reflect.TypeFor[json.Number]()]
	if _, is := token.(bool); is {
		kind = "a bool"
	}
	if c.kind == "" {
		c.kind, c.first = kind, r.at()
	} else if c.kind != kind && !c.text {
		return fmt.Errorf("data: %s:%d: %s is %s, and %s at line %d: want one kind of values, or the column in JSONLines.Text", r.path, r.at(), name, kind, c.kind, c.first)
	}
	c.Skip(r.row)
	if kind != "a number" || c.text {
		c.AddText(strings.TrimSpace(fmt.Sprint(token)))
		return nil
	}
	x, is := CSV{}.number(token.(json.Number).String())
	if !is && !integer.MatchString(token.(json.Number).String()) {
		return fmt.Errorf("data: %s:%d: %s is %.40s: want a number that a float64 can be", r.path, r.at(), name, token)
	}
	c.add(x, is, token.(json.Number).String)
	return nil
}
