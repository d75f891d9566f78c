package data

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/portable/tabular"
)

// Encoder makes examples of tables. What it does to a column, it has learned from one table,
// usually the training part: see [tabular.Encoder] for its fields. Examples carry it to the net
// that is trained on them, and with the net to exported modules.
type Encoder tabular.Encoder

type (
	Normal   = tabular.Normal
	Category = tabular.Category
	// Row is the values of an example by the names of their columns, for fit.Net.Predict: see
	// [tabular.Row].
	Row = tabular.Row
)

// tabular is the encoder as the package of rows has it.
func (e *Encoder) tabular() *tabular.Encoder { return (*tabular.Encoder)(e) }

// Encoder learns from the table how to encode it and others, with a column as the target; ""
// for none. Columns of text that cannot be categories are errors.
func (t *Table) Encoder(target string) (*Encoder, error) {
	e := &Encoder{Target: target}
	if target != "" && t.Column(target) == nil {
		return nil, t.noColumn(target)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	inputs := map[string]string{"numbers": "numbers"}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.doubt != "" {
			return nil, fmt.Errorf("data: %s", c.doubt)
		}
		l := values(c.Text)
		switch {
		case c.Name == target && c.Text != nil:
			if e.Classes = l; len(l) < 2 {
				return nil, t.errorf("target %s has the values %q: want two or more", target, l)
			}
		case c.Name == target:
			if e.Scale = normal(c); e.Scale.Times {
				return nil, t.errorf("target %s is times: want numbers or text", target)
			}
			if two := different(c.Numbers, 2); len(two) == 2 {
				return nil, t.errorf("target %s has the numbers %s and %s only: want classes, which are text: make it text with Categorical(%[1]q)", target, shortest(two[0]), shortest(two[1]))
			}
		case c.Text != nil:
			k := Category{Name: c.Name, Values: l}
			if other := inputs[k.Input()]; other != "" {
				return nil, t.errorf("columns %s and %s are both the input %q: want names that differ without spaces, / and *", other, c.Name, k.Input())
			}
			inputs[k.Input()] = c.Name
			e.Categories = append(e.Categories, k)
		default:
			e.Numbers = append(e.Numbers, normal(c))
		}
		if c.Text != nil && len(l) > 20 && c.once(len(l)) {
			what := "leave it out with Without"
			if c.Name == target {
				what = "make numbers of it with Parse, or predict another column"
			}
			return nil, t.errorf("column %s is text, and no value of its %d occurs twice: want categories: %s", c.Name, len(l), what)
		}
	}
	if len(e.Numbers)+len(e.Categories) == 0 {
		return nil, t.errorf("no column besides the target %s: want some to predict it from", target)
	}
	return e, nil
}

// different are the numbers that occur, up to one more than most.
func different(numbers []float64, most int) (l []float64) {
	for _, x := range numbers {
		if x == x && !slices.Contains(l, x) && len(l) <= most {
			l = append(l, x)
		}
	}
	return l
}

// String describes what examples are made of.
func (e *Encoder) String() string {
	s := "no target"
	switch {
	case e.Classes != nil:
		s = fmt.Sprintf("%s: %d classes: %s", e.Target, len(e.Classes), strings.Join(e.Classes[:min(len(e.Classes), 10)], ", "))
	case e.Target != "":
		s = fmt.Sprintf("%s: numbers, mean %s, deviation %s; for classes, see Table.Categorical", e.Target, brief(e.Scale.Mean), brief(e.Scale.Deviation))
	}
	var numbers, categories []string
	for _, n := range e.Numbers {
		numbers = append(numbers, n.Name)
	}
	for _, c := range e.Categories {
		categories = append(categories, fmt.Sprintf("%s (%d)", c.Name, len(c.Values)))
	}
	s += "\nnumbers: " + list(numbers) + "\ncategories: " + list(categories)
	if e.OneHot {
		s += fmt.Sprintf("\nOneHot: X is [n %d], the numbers, then one for each value of the categories", e.Width())
	}
	return s
}

// list is names in a line, or that there are none.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// once says whether so many different values are all that there are.
func (c *Column) once(values int) bool {
	n := 0
	for _, v := range c.Text {
		if v != "" {
			n++
		}
	}
	return n == values
}

// number is row i of numbers or times, NaN where it is missing.
func (c *Column) number(i int) float64 {
	switch {
	case c.missing(i):
		return missing
	case c.Times != nil:
		return tabular.Days(c.Times[i])
	}
	return c.Numbers[i]
}

// normal is the mean and the deviation of what is not missing; a constant keeps its scale.
func normal(c *Column) Normal {
	n := Normal{Name: c.Name, Deviation: 1, Times: c.Times != nil}
	sum, squares, count := 0.0, 0.0, 0.0
	each := func(f func(x float64)) {
		for i := range c.len() {
			if x := c.number(i); !math.IsNaN(x) && !math.IsInf(x, 0) {
				f(x)
			}
		}
	}
	each(func(x float64) { sum, count = sum+x, count+1 })
	if count == 0 {
		return n
	}
	n.Mean = sum / count
	each(func(x float64) { squares += (x - n.Mean) * (x - n.Mean) })
	if d := math.Sqrt(squares / count); d > 0 && !math.IsInf(d, 0) {
		n.Deviation = d
	}
	return n
}

// column is the one of a name, which has to be of a kind.
func (e *Encoder) column(t *Table, name, kind string) (*Column, error) {
	c := t.Column(name)
	switch {
	case c == nil:
		return nil, t.errorf("no column %q, which the table of the encoder has: got %s", name, strings.Join(t.Names(), ", "))
	case c.Kind() == kind || kind != "text" && c.empty():
		return c, nil
	case kind == "text":
		if c.empty() {
			return &Column{Name: name, Text: make([]string, t.Len())}, nil
		}
		return nil, t.wrong(c, c.first(), c.value(c.first()), "text, as in the table of the encoder: make it text with Categorical, or name the column in CSV.Text")
	}
	for i := range c.len() {
		v := Column{Text: []string{c.value(i)}}
		if v.Text[0] != "" && !(CSV{}).numbers(&v) {
			return nil, t.wrong(c, i, fmt.Sprintf("%.40q", c.value(i)), map[string]string{"numbers": "a number", "times": "a time"}[kind]+", as in the table of the encoder")
		}
	}
	return nil, t.errorf("column %s is %s: want %s, as in the table of the encoder", name, c.Kind(), kind)
}

func (t *Table) wrong(c *Column, row int, got, want string) error {
	return fmt.Errorf("data: %s: %s is %s: want %s", t.at(row), c.Name, got, want)
}

// first is the first row with a value.
func (c *Column) first() int {
	for i := range c.len() {
		if !c.missing(i) {
			return i
		}
	}
	return -1
}

func (c *Column) empty() bool { return c.first() < 0 }

// Width is how many numbers X has for each example, if all columns become numbers.
func (e *Encoder) Width() int {
	all := *e.tabular()
	all.OneHot = true
	return all.Width()
}

// Encode makes examples of a table with the same columns; the target may be absent, for
// predictions. X is []float32 [n numbers], or [n Width] with OneHot, or Inputs: "numbers" and
// the integers of each category under its Input. Y is labels, normalized numbers or nil.
func (e *Encoder) Encode(t *Table) (Examples, error) {
	x := Examples{N: t.Len()}
	if err := t.check(); err != nil {
		return x, err
	}
	numbers, categories := make([]*Column, len(e.Numbers)), make([]*Column, len(e.Categories))
	var err error
	for k, n := range e.Numbers {
		kind := "numbers"
		if n.Times {
			kind = "times"
		}
		if numbers[k], err = e.column(t, n.Name, kind); err != nil {
			return x, err
		}
	}
	for k, c := range e.Categories {
		if categories[k], err = e.column(t, c.Name, "text"); err != nil {
			return x, err
		}
	}
	inputs, err := e.tabular().Arrays(t.Len(), func(k, row int) (float64, error) {
		c := numbers[k]
		if c.Kind() == "text" { // all are missing
			return missing, nil
		}
		v := c.number(row)
		if math.Abs(e.Numbers[k].Scaled(v)) > math.MaxFloat32 {
			return 0, t.wrong(c, row, shortest(v), "a number of at most 3e38, or nothing")
		}
		return v, nil
	}, func(k, row int) (int32, error) { return e.Categories[k].ID(categories[k].Text[row]), nil })
	if err != nil {
		return x, err
	}
	own := e.clone() // what a user changes later is not what these examples are
	x.Encoder, x.X = own, own.named(inputs, t.Len())
	if t.Column(e.Target) == nil {
		return x, nil
	}
	x.Y, err = e.targets(t)
	return x, err
}

// clone shares nothing with the encoder.
func (e *Encoder) clone() *Encoder {
	own := *e
	own.Classes, own.Numbers, own.Categories = slices.Clone(e.Classes), slices.Clone(e.Numbers), slices.Clone(e.Categories)
	for i := range own.Categories {
		own.Categories[i].Values = slices.Clone(own.Categories[i].Values)
	}
	return &own
}

// named is Examples.X of the inputs of so many examples.
func (e *Encoder) named(inputs map[string]any, examples int) any {
	for name, flat := range inputs {
		if numbers, is := flat.([]float32); is {
			inputs[name] = Array{[]int{examples, e.tabular().Width()}, numbers}
		}
	}
	if x, is := inputs["x"].(Array); is {
		return x
	}
	return Inputs(inputs)
}

// EncodeRows is Encode of rows, for predictions. A value that the encoder's table did not have is
// an error here.
func (e *Encoder) EncodeRows(rows ...Row) (Examples, error) {
	inputs, err := e.tabular().Inputs(rows)
	if err != nil {
		return Examples{}, fmt.Errorf("data: %w", err)
	}
	return Examples{N: len(rows), X: e.named(inputs, len(rows)), Encoder: e.clone()}, nil
}

// targets are the labels, or the numbers.
func (e *Encoder) targets(t *Table) (any, error) {
	if e.Classes == nil {
		c, err := e.column(t, e.Target, "numbers")
		if err != nil {
			return nil, err
		}
		y := make([]float32, t.Len())
		for i := range y {
			if c.missing(i) || math.IsInf(c.Numbers[i], 0) {
				return nil, t.wrong(c, i, "missing", "a number, because it is the target")
			}
			y[i] = float32((c.Numbers[i] - e.Scale.Mean) / e.Scale.Deviation)
		}
		return y, nil
	}
	c, err := e.column(t, e.Target, "text")
	if err != nil {
		return nil, err
	}
	labels := make([]int32, t.Len())
	for i := range labels {
		at, is := slices.BinarySearch(e.Classes, c.Text[i])
		if !is {
			return nil, t.wrong(c, i, fmt.Sprintf("%.40q", c.Text[i]), fmt.Sprintf("one of the classes %q; for predictions, a table without the column %s", e.Classes, c.Name))
		}
		labels[i] = int32(at)
	}
	return labels, nil
}
