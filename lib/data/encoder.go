package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Encoder makes examples of tables. What it does to a column, it has learned from one table,
// usually the training part.
type Encoder struct {
	Target     string
	Classes    []string // of a target that is text, by label; nil: the target is numbers
	Numbers    []Normal
	Categories []Category
}

// Normal says how a column of numbers is normalized: (x - Mean) / Deviation; missing values
// become 0.
type Normal struct {
	Name            string
	Mean, Deviation float64
}

// Category says which integers the values of a column of text become: their place in
// Values, from 1. Others, and missing ones, become 0.
type Category struct {
	Name   string
	Values []string // in alphabetical order
}

// Vocab is how many integers there are.
func (c Category) Vocab() int { return len(c.Values) + 1 }

// Input is the name of the column as one of a net's inputs.
func (c Category) Input() string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/* ", r) {
			return '_'
		}
		return r
	}, c.Name)
}

// Encoder learns from the table how to encode it and others, with a column as the target; ""
// for none.
func (t *Table) Encoder(target string) (*Encoder, error) {
	e := &Encoder{Target: target}
	if target != "" && t.Column(target) == nil {
		return nil, t.noColumn(target)
	}
	for _, c := range t.Columns {
		switch {
		case c.Name == target && c.Text != nil:
			if e.Classes = values(c.Text); len(e.Classes) < 2 {
				return nil, fmt.Errorf("data: %s: target %s has the values %q: want two or more", t.file, target, e.Classes)
			}
		case c.Name == target:
		case c.Text != nil:
			e.Categories = append(e.Categories, Category{c.Name, values(c.Text)})
		default:
			e.Numbers = append(e.Numbers, normal(c))
		}
	}
	if len(e.Numbers)+len(e.Categories) == 0 {
		return nil, fmt.Errorf("data: %s: no column besides the target %s: want some to predict it from", t.file, target)
	}
	return e, nil
}

// values are those that occur, in order.
func values(text []string) []string {
	l := slices.Compact(slices.Sorted(slices.Values(text)))
	if len(l) > 0 && l[0] == "" {
		l = l[1:]
	}
	return l
}

// normal is the mean and the deviation of what is not missing; a constant keeps its scale.
func normal(c Column) Normal {
	n := Normal{Name: c.Name, Deviation: 1}
	sum, squares, count := 0.0, 0.0, 0.0
	for _, x := range c.Numbers {
		if x == x {
			sum, count = sum+float64(x), count+1
		}
	}
	if count == 0 {
		return n
	}
	n.Mean = sum / count
	for _, x := range c.Numbers {
		if x == x {
			squares += (float64(x) - n.Mean) * (float64(x) - n.Mean)
		}
	}
	if d := math.Sqrt(squares / count); d > 0 {
		n.Deviation = d
	}
	return n
}

// Encode makes examples of a table with the same columns; the target may be absent, for
// predictions. X is []float32 [n numbers] if there are only numbers, else Inputs: "numbers",
// and the integers of each category under its Input. Y is labels, numbers or nil.
func (e *Encoder) Encode(t *Table) (Examples, error) {
	x := Examples{N: t.Len()}
	wrong := func(c *Column, row int, got, want string) error {
		return fmt.Errorf("data: %s:%d: %s is %s: want %s", t.file, t.lines[row], c.Name, got, want)
	}
	column := func(name string, text bool) (*Column, error) {
		c := t.Column(name)
		if c == nil {
			return nil, t.noColumn(name)
		}
		if (c.Text != nil) != text {
			for i := range t.lines {
				if text {
					return nil, wrong(c, i, fmt.Sprint(c.Numbers[i]), "text, as in the table of the encoder: name the column in CSV.Text")
				} else if (&Column{Text: c.Text[i : i+1]}).isText() {
					return nil, wrong(c, i, fmt.Sprintf("%q", c.Text[i]), "a number, as in the table of the encoder")
				}
			}
		}
		return c, nil
	}
	numbers := make([]float32, 0, t.Len()*len(e.Numbers))
	var columns []*Column
	for _, n := range e.Numbers {
		c, err := column(n.Name, false)
		if err != nil {
			return x, err
		}
		columns = append(columns, c)
	}
	for i := range t.lines {
		for k, n := range e.Numbers {
			v := 0.0
			if c := columns[k]; c.Numbers != nil && c.Numbers[i] == c.Numbers[i] {
				v = (float64(c.Numbers[i]) - n.Mean) / n.Deviation
			}
			if math.IsInf(v, 0) {
				return x, wrong(columns[k], i, fmt.Sprint(v), "a finite number, or nothing")
			}
			numbers = append(numbers, float32(v))
		}
	}
	x.X = Array{[]int{t.Len(), len(e.Numbers)}, numbers}
	if len(e.Categories) > 0 {
		in := Inputs{}
		if len(e.Numbers) > 0 {
			in["numbers"] = x.X
		}
		for _, k := range e.Categories {
			c, err := column(k.Name, true)
			if err != nil {
				return x, err
			}
			ids := make([]int32, t.Len())
			for i, v := range c.Text {
				if at, is := slices.BinarySearch(k.Values, v); is {
					ids[i] = int32(at + 1)
				}
			}
			in[k.Input()] = ids
		}
		x.X = in
	}
	if t.Column(e.Target) == nil {
		return x, nil
	}
	c, err := column(e.Target, e.Classes != nil)
	if err != nil {
		return x, err
	}
	if e.Classes == nil {
		for i := range t.lines {
			if c.Numbers == nil || c.Numbers[i] != c.Numbers[i] {
				return x, wrong(c, i, "missing", "a number, for it is the target")
			}
		}
		x.Y = c.Numbers
		return x, nil
	}
	labels := make([]int32, t.Len())
	for i := range labels {
		at, is := slices.BinarySearch(e.Classes, c.Text[i])
		if !is {
			return x, wrong(c, i, fmt.Sprintf("%q", c.Text[i]), fmt.Sprintf("one of the classes %q; for predictions, a table without the column %s", e.Classes, c.Name))
		}
		labels[i] = int32(at)
	}
	x.Y = labels
	return x, nil
}

// isText says whether some value is no number.
func (c *Column) isText() bool {
	c.parse()
	return c.Text != nil && c.Text[0] != ""
}
