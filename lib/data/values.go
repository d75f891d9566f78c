package data

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/portable/tabular"
)

// How text becomes numbers and times.

var missing = math.NaN()

// shortest is a number as it would be written.
func shortest(x float64) string { return tabular.Number(x) }

// number is a value as a number. Integers that no float64 has exactly are none.
func (o CSV) number(v string) (float64, bool) {
	if strings.Contains(v, "_") { // a code, though ParseFloat reads it as Go does
		return 0, false
	}
	if o.Decimal != 0 && o.Decimal != '.' {
		if strings.Contains(v, ".") && !grouped.MatchString(strings.TrimSpace(v)) { // a decimal point after all
			return 0, false
		}
		v = strings.ReplaceAll(v, ".", "")
		v = strings.ReplaceAll(v, string(o.Decimal), ".")
	}
	if o.Strip != "" {
		v = strings.Map(func(r rune) rune {
			if strings.ContainsRune(o.Strip, r) {
				return -1
			}
			return r
		}, v)
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil {
		return 0, false
	}
	return x, math.Abs(x) < 1<<53 || !integer.MatchString(v) || strconv.FormatFloat(x, 'f', 0, 64) == strings.TrimPrefix(v, "+")
}

// grouped is digits with points between thousands; what is around them Strip may leave out.
var grouped = regexp.MustCompile(`^[^\d.]*\d{1,3}(\.\d{3})+([^\d.]|$)`)

var integer = regexp.MustCompile(`^[-+]?\d+$`)

// numbers makes the column numbers, if all values are.
func (o CSV) numbers(c *Column) bool {
	numbers, some := make([]float64, len(c.Text)), false
	for i, v := range c.Text {
		if numbers[i] = missing; v == "" {
			continue
		}
		is := false
		if numbers[i], is = o.number(v); !is {
			return false
		}
		some = true
	}
	if some {
		c.Numbers, c.Text = numbers, nil
	}
	return some
}

func (o CSV) forms() []string {
	if o.Time != "" {
		return []string{o.Time}
	}
	return tabular.TimeForms
}

// times makes the column times, if all values are, in one form.
func (o CSV) times(c *Column) bool {
	for _, form := range o.forms() {
		if times, is := timesOf(c.Text, form); is {
			c.Times, c.Text = times, nil
			return true
		}
	}
	return false
}

func timesOf(text []string, form string) (l []time.Time, some bool) {
	for _, v := range text {
		x, err := time.Parse(form, v)
		if v == "" {
			x, err = time.Time{}, nil
		}
		if err != nil {
			return nil, false
		}
		l, some = append(l, x), some || v != ""
	}
	return l, some
}

// counts says whether the column is empty, or numbers the rows.
func (c *Column) counts() bool {
	empty, from := true, 0
	for i, v := range c.Text {
		empty = empty && v == ""
		k, err := strconv.Atoi(v)
		if i == 0 {
			from = k
		}
		if !empty && (err != nil || k != from+i || from < 0 || from > 1) {
			return false
		}
	}
	return true
}

var (
	slashed   = regexp.MustCompile(`^\d{1,2}/\d{1,2}/\d{2,4}`)
	thousands = regexp.MustCompile(`^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$`)
	decimal   = regexp.MustCompile(`^[-+]?\d*,\d+$`)
)

// signs are around numbers of spreadsheets.
const signs = "$€£¥%,'\u00a0 "

// doubt is why a column of text is perhaps one of numbers or times.
func (o CSV) doubt(t *Table, c *Column) string {
	values, good, bare, dates, grouped, fractions, commas := 0, 0, 0, 0, 0, 0, 0
	odd, signed, pointed, points := -1, -1, -1, 0
	found := ""
	for i, v := range c.Text {
		if v == "" {
			continue
		}
		values++
		if _, is := o.number(v); is || integer.MatchString(v) { // long integers are no mistake
			good++
		} else if odd < 0 {
			odd = i
		}
		if _, is := o.number(v); !is && o.Decimal != 0 {
			if _, is := (CSV{Strip: o.Strip}).number(v); is {
				pointed, points = i, points+1
			}
		}
		if slashed.MatchString(v) {
			dates++
		}
		if _, is := (CSV{Strip: signs, Decimal: '.'}).number(v); is {
			bare++
			for _, r := range v {
				if strings.ContainsRune(signs, r) && !strings.ContainsRune(found, r) {
					found, signed = found+string(r), i
				}
			}
		}
		if strings.Contains(v, ",") {
			commas++
			if thousands.MatchString(strings.Trim(v, strings.ReplaceAll(signs, ",", ""))) {
				grouped++
			}
			if decimal.MatchString(v) {
				fractions++
			}
		}
	}
	say := func(row int, what string) string {
		return fmt.Sprintf("%s: %s is %.40q: %s", t.at(row), c.Name, c.Text[row], what)
	}
	switch {
	case values == 0 || good == values:
		return ""
	case dates == values:
		return say(odd, `want a time without doubt: set CSV.Time, such as "01/02/2006" for the month first or "02/01/2006" for the day`)
	case points > 0 && good+points == values:
		return say(pointed, "want the decimal commas that CSV.Decimal says: leave it out, or name the column in CSV.Text")
	case bare == values && commas > 0 && fractions == commas && grouped < commas && found == ",":
		return say(signed, "want numbers with decimal points: set CSV.Decimal to ',', or name the column in CSV.Text")
	case bare == values && found == ",":
		return say(signed, `want numbers: set CSV.Strip to "," if commas are between thousands, CSV.Decimal to ',' if they are decimal, or name the column in CSV.Text`)
	case bare == values && found != "":
		return say(signed, fmt.Sprintf("want numbers: set CSV.Strip to %q, or name the column in CSV.Text", found))
	case 2*good > values:
		return say(odd, fmt.Sprintf("%d of the column's %d values are numbers: want all: correct it, add it to CSV.Missing, leave the column out with Without, or name it in CSV.Text", good, values))
	}
	return o.timeDoubt(c, values, say)
}

// timeDoubt is why a column of so many values is perhaps one of times: most of them are, in one
// form or in several.
func (o CSV) timeDoubt(c *Column, values int, say func(row int, what string) string) string {
	best, most, some, other := "", 0, 0, -1
	is := func(form, v string) bool { _, err := time.Parse(form, v); return err == nil }
	for _, v := range c.Text {
		if slices.ContainsFunc(o.forms(), func(form string) bool { return is(form, v) }) {
			some++
		}
	}
	if 2*some <= values {
		return ""
	}
	for _, form := range o.forms() {
		n, odd := 0, -1
		for i, v := range c.Text {
			if is(form, v) {
				n++
			} else if v != "" && odd < 0 {
				odd = i
			}
		}
		if n > most {
			best, most, other = form, n, odd
		}
	}
	return say(other, fmt.Sprintf("%d of the column's %d values are times of the form %q: want all: correct it, add it to CSV.Missing, leave the column out with Without, or name it in CSV.Text", most, values, best))
}

// values are those that occur, in order.
func values(text []string) []string {
	l := slices.Compact(slices.Sorted(slices.Values(text)))
	if len(l) > 0 && l[0] == "" {
		l = l[1:]
	}
	return l
}
