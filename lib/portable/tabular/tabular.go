// Package tabular encodes rows of named values as the inputs of a net, and reads what the net
// returns as classes with probabilities, or as numbers in the unit of the target.
//
//	inputs, err := encoder.Inputs([]tabular.Row{{"sex": "female", "age": 30}})
//	answers := encoder.Answers(tabular.Softmax, outputs, len(rows))
//
// Package data learns encoders from tables. Exported nets carry the source of this package with
// them, so it uses the standard library alone.
package tabular

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Encoder says what becomes of the columns of a table, and what labels mean.
type Encoder struct {
	Target     string
	Classes    []string // of a target that is text, by label; nil: the target is numbers
	Scale      Normal   // of a target that is numbers
	Numbers    []Normal // times are days since 1970
	Categories []Category

	// OneHot encodes categories as numbers, a 1 for the value and 0 for the others, so that X is
	// one array: the Numbers in their order, then for each of the Categories one for each of its
	// Values. A value that is missing, or that the encoder's table did not have, is all 0.
	// Else they are inputs of integers for models.Embedding, as many values want.
	OneHot bool
}

// Normal says how a column of numbers is normalized: (x - Mean) / Deviation; missing values
// become 0.
type Normal struct {
	Name            string
	Mean, Deviation float64
	Times           bool `json:",omitempty"`
}

// Scaled is a number normalized; NaN, a missing one, becomes 0. It is beyond float32 where the
// number is.
func (n Normal) Scaled(x float64) float64 {
	if x = (x - n.Mean) / n.Deviation; math.IsNaN(x) {
		return 0
	}
	return x
}

// Category says which integers the values of a column of text become: their place in
// Values, from 1. Others, and missing ones, become 0.
type Category struct {
	Name   string
	Values []string // in alphabetical order
}

// Vocab is how many integers there are.
func (c Category) Vocab() int { return len(c.Values) + 1 }

// ID is the integer of a value.
func (c Category) ID(v string) int32 {
	if at, is := slices.BinarySearch(c.Values, v); is {
		return int32(at + 1)
	}
	return 0
}

// Input is the name of the column as one of a net's inputs.
func (c Category) Input() string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/* ", r) {
			return '_'
		}
		return r
	}, c.Name)
}

// Columns are the names of the columns that Inputs wants; none: the encoder names classes only.
func (e *Encoder) Columns() (l []string) {
	for _, n := range e.Numbers {
		l = append(l, n.Name)
	}
	for _, c := range e.Categories {
		l = append(l, c.Name)
	}
	return l
}

// Width is how many numbers each example has in X or the input "numbers".
func (e *Encoder) Width() int {
	width := len(e.Numbers)
	if e.OneHot {
		for _, c := range e.Categories {
			width += len(c.Values)
		}
	}
	return width
}

// Sizes are the inputs that Arrays makes, by name, and how many numbers an example has in each.
func (e *Encoder) Sizes() map[string]int {
	sizes := map[string]int{}
	if !e.OneHot {
		for _, c := range e.Categories {
			sizes[c.Input()] = 1
		}
	}
	switch width := e.Width(); {
	case len(sizes) == 0:
		sizes["x"] = width
	case width > 0:
		sizes["numbers"] = width
	}
	return sizes
}

// Arrays are the inputs of so many examples, of which the functions say each number and the integer
// of each category, by their indices in Numbers and Categories: []float32 [rows Width] as "x" where
// it is the only input, and else as "numbers", with []int32 for each category by its Input.
func (e *Encoder) Arrays(rows int, number func(column, row int) (float64, error), category func(column, row int) (int32, error)) (map[string]any, error) {
	width := e.Width()
	numbers := make([]float32, rows*width)
	for k, n := range e.Numbers {
		for i := range rows {
			x, err := number(k, i)
			if err != nil {
				return nil, err
			}
			numbers[i*width+k] = float32(n.Scaled(x))
		}
	}
	inputs, at := map[string]any{}, len(e.Numbers)
	for k, c := range e.Categories {
		ids := make([]int32, rows)
		for i := range rows {
			var err error
			if ids[i], err = category(k, i); err != nil {
				return nil, err
			}
			if e.OneHot && ids[i] > 0 {
				numbers[i*width+at+int(ids[i])-1] = 1
			}
		}
		if at += len(c.Values); !e.OneHot {
			inputs[c.Input()] = ids
		}
	}
	switch {
	case len(inputs) == 0:
		inputs["x"] = numbers
	case width > 0:
		inputs["numbers"] = numbers
	}
	return inputs, nil
}

// Row is the values of an example by the names of their columns: numbers, texts and booleans of
// any type, and for times time.Time or text such as 2024-12-31. nil is a value that is not known.
// Columns that the encoder does not have do not matter.
type Row = map[string]any

// Inputs are the inputs of rows, by name, as Arrays makes them. An error says which row and
// column cannot be encoded.
func (e *Encoder) Inputs(rows []Row) (map[string]any, error) {
	if len(e.Columns()) == 0 {
		return nil, fmt.Errorf("the net was not trained on columns of a table: want its numbers")
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("got no rows: want at least one, with %s", strings.Join(e.Columns(), ", "))
	}
	at := func(name string, row int) (any, error) {
		v, is := rows[row][name]
		if !is {
			return nil, fmt.Errorf("row %d has no %s: want %s; nil (null in JSON) for a value that is not known", row+1, name, strings.Join(e.Columns(), ", "))
		}
		return v, nil
	}
	wrong := func(name string, row int, v any, want string) error {
		return fmt.Errorf("row %d: %s is %s: want %s, or nil (null in JSON) where it is not known", row+1, name, quoted(v), want)
	}
	return e.Arrays(len(rows), func(column, row int) (float64, error) {
		n := e.Numbers[column]
		v, err := at(n.Name, row)
		if err != nil {
			return 0, err
		}
		x, is := numberOf(v, n.Times)
		switch {
		case is && math.Abs(n.Scaled(x)) <= math.MaxFloat32:
			return x, nil
		case n.Times:
			return 0, wrong(n.Name, row, v, "a time, such as 2024-12-31 or 2024-12-31T23:59:59")
		case is:
			return 0, wrong(n.Name, row, v, "a number of at most 3e38")
		}
		return 0, wrong(n.Name, row, v, "a number, such as "+Number(math.Round(n.Mean*100)/100))
	}, func(column, row int) (int32, error) {
		c := e.Categories[column]
		v, err := at(c.Name, row)
		if err != nil {
			return 0, err
		}
		text, is := textOf(v)
		id := c.ID(text)
		if !is || id == 0 && text != "" {
			return 0, wrong(c.Name, row, v, c.List())
		}
		return id, nil
	})
}

// List says which values there are.
func (c Category) List() string {
	const most = 12
	if len(c.Values) == 0 {
		return "nothing, as in the training rows"
	}
	l := make([]string, min(len(c.Values), most))
	for i := range l {
		l[i] = strconv.Quote(c.Values[i])
	}
	s := "one of " + strings.Join(l, ", ")
	if more := len(c.Values) - most; more > 0 {
		s += fmt.Sprintf(" … and %d more that the training rows had", more)
	}
	return s
}

// quoted is a value in an error, as JSON has it.
func quoted(v any) string {
	switch v := plain(v).(type) {
	case string:
		return fmt.Sprintf("%.40q", v)
	case nil:
		return "null"
	case []any:
		return "a list"
	case Row:
		return "an object"
	case time.Time:
		return v.Format(time.RFC3339)
	case float64:
		return Number(v)
	default:
		return fmt.Sprintf("%.40s", fmt.Sprint(v))
	}
}

// plain is a value of any type of its kind as a string, bool, int64, uint64 or float64; nil for
// a nil pointer. Others stay as they are.
func plain(v any) any {
	switch n := v.(type) {
	case string, float64, time.Time, nil:
		return v
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i
		}
		if x, err := n.Float64(); err == nil {
			return x
		}
		return string(n)
	}
	r := reflect.ValueOf(v)
	switch {
	case r.Kind() == reflect.Pointer && r.IsNil():
		return nil
	case r.Kind() == reflect.Pointer:
		return plain(r.Elem().Interface())
	case r.Kind() == reflect.String:
		return r.String()
	case r.Kind() == reflect.Bool:
		return r.Bool()
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return r.Uint()
	case r.CanFloat():
		return r.Float()
	}
	return v
}

// numberOf is a value of a column of numbers or times; NaN is a missing one.
func numberOf(v any, times bool) (x float64, is bool) {
	switch v := plain(v).(type) {
	case nil:
		return math.NaN(), true
	case time.Time:
		if v.IsZero() {
			return math.NaN(), true
		}
		return Days(v), times
	case string:
		if v == "" {
			return math.NaN(), true
		}
		for _, form := range TimeForms {
			if t, err := time.Parse(form, v); err == nil {
				return Days(t), times
			}
		}
	case float64:
		return v, !times
	case int64:
		return float64(v), !times
	case uint64:
		return float64(v), !times
	}
	return 0, false
}

// textOf is a value of a column of categories; "" is a missing one. A number is text as
// data.Table.Categorical makes it.
func textOf(v any) (text string, is bool) {
	switch v := plain(v).(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case float64:
		if math.IsNaN(v) {
			return "", true
		}
		return Number(v), true
	case bool, int64, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// Number is a number as text, as it would be written: different numbers are different texts.
func Number(x float64) string {
	if math.Abs(x) >= 1<<53 || x != 0 && math.Abs(x) < 1e-4 {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// TimeForms are the forms of times that mean one thing only, as package time writes them.
var TimeForms = []string{"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02", "02.01.2006", "02.01.2006 15:04", "02.01.2006 15:04:05"}

// Days is a time as a number: days since 1970.
func Days(t time.Time) float64 { return float64(t.Unix())/86400 + float64(t.Nanosecond())/86400e9 }
