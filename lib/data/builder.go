package data

import (
	"math"
	"strconv"
	"time"
)

// Builder makes a column of values one after the other, for readers of other formats. All
// values of one are numbers, or times, or text.
type Builder struct {
	column  Column
	inexact map[int]string // integers that no float64 has exactly, by row
}

// Skip makes what is missing before a row, from 0, missing values.
func (b *Builder) Skip(to int) {
	c := &b.column
	switch {
	case c.Text != nil:
		c.Text = padded(c.Text, to, "")
	case c.Times != nil:
		c.Times = padded(c.Times, to, time.Time{})
	default:
		c.Numbers = padded(c.Numbers, to, missing)
	}
}

func padded[T any](l []T, to int, with T) []T {
	for len(l) < to {
		l = append(l, with)
	}
	return l
}

// AddMissing adds a missing value.
func (b *Builder) AddMissing() { b.Skip(b.column.len() + 1) }

// AddNumber adds a number.
func (b *Builder) AddNumber(x float64) { b.column.Numbers = append(b.column.Numbers, x) }

// AddInteger adds an integer.
func (b *Builder) AddInteger(x int64) {
	b.add(float64(x), float64(x) != 1<<63 && int64(float64(x)) == x, func() string { return strconv.FormatInt(x, 10) })
}

// AddUnsigned adds an integer.
func (b *Builder) AddUnsigned(x uint64) {
	b.add(float64(x), float64(x) != 1<<64 && uint64(float64(x)) == x, func() string { return strconv.FormatUint(x, 10) })
}

func (b *Builder) add(x float64, exact bool, text func() string) {
	if !exact {
		if b.inexact == nil {
			b.inexact = map[int]string{}
		}
		b.inexact[len(b.column.Numbers)] = text()
	}
	b.AddNumber(x)
}

// AddText adds text; "" is a missing value.
func (b *Builder) AddText(s string) {
	c := &b.column
	if c.Text == nil {
		c.Text, c.Numbers = padded(make([]string, 0, len(c.Numbers)+1), len(c.Numbers), ""), nil
	}
	c.Text = append(c.Text, s)
}

// AddTime adds a time; the zero Time is a missing value.
func (b *Builder) AddTime(x time.Time) {
	c := &b.column
	if c.Times == nil {
		c.Times, c.Numbers = padded(make([]time.Time, 0, len(c.Numbers)+1), len(c.Numbers), time.Time{}), nil
	}
	c.Times = append(c.Times, x)
}

// Column is the column, with so many rows. Numbers are text if some of them are integers that
// no float64 has exactly.
func (b *Builder) Column(name string, rows int) Column {
	b.Skip(rows)
	c := b.column
	c.Name = name
	if b.inexact == nil {
		return c
	}
	c.Text = make([]string, len(c.Numbers))
	for i, x := range c.Numbers {
		if s, is := b.inexact[i]; is {
			c.Text[i] = s
		} else if !math.IsNaN(x) {
			c.Text[i] = strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	c.Numbers = nil
	return c
}
