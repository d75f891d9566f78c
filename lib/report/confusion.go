package report

import (
	"fmt"

	"gaiden/lib/timing/units"
)

// A Confusion is the confusion matrix of a classifier: a row per true class, a column
// per predicted class. It counts as many examples as both Want and Got have.
type Confusion struct {
	Title     string
	Names     []string // of the classes, by label; nil means numbers
	Want, Got []int32  // true and predicted labels, shaped [n]
	Width     int      // in CSS pixels; 0 means 480
}

// A net of more classes than this has no confusion matrix that can be read.
const mostClasses = 1000

// counts is the matrix, and how many examples it leaves out.
func (c Confusion) counts() (m [][]float64, out int) {
	n := len(c.Names)
	both := min(len(c.Want), len(c.Got))
	for i := range both {
		n = max(n, int(c.Want[i])+1, int(c.Got[i])+1)
	}
	n = min(n, mostClasses)
	m = make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	out = max(len(c.Want), len(c.Got)) - both
	for i := range both {
		w, g := int(c.Want[i]), int(c.Got[i])
		if w < 0 || g < 0 || w >= n || g >= n {
			out++
			continue
		}
		m[w][g]++
	}
	return m, out
}

func (c Confusion) heat() (Heat, Answers) {
	m, _ := c.counts()
	return Heat{Title: c.Title, X: "answer", Y: "truth", Values: m, Rows: c.Names, Columns: c.Names, Numbers: true, Width: c.Width}, Answers{Want: c.Want, Got: c.Got}
}

// worst says which two classes are mixed up most.
func (c Confusion) worst() string {
	m, out := c.counts()
	most, row, column := 0.0, 0, 0
	for i := range m {
		for j, v := range m[i] {
			if i != j && v > most {
				most, row, column = v, i, j
			}
		}
	}
	s := "no example is taken for another class"
	if most > 0 {
		s = fmt.Sprintf("most often mixed up: %s, taken for %s %s", nameOf(c.Names, row), nameOf(c.Names, column), units.Plural(int(most), "time"))
	}
	if len(m) == 0 {
		s = "no examples"
	}
	if out > 0 {
		s += "; " + units.Plural(out, "example") + " left out: no class, or no answer"
	}
	return s
}

// String returns the matrix as a table, and the two classes that are confused most
// often.
func (c Confusion) String() string {
	h, _ := c.heat()
	return h.String() + "\n" + oneLine(c.worst())
}

// HTML returns the matrix as a heat map with its numbers.
func (c Confusion) HTML() string {
	h, a := c.heat()
	h.Alt = fmt.Sprintf("Confusion matrix of %d classes: %d of %d correct; %s", len(h.Values), a.Right(), a.both(), c.worst())
	return "<div>" + h.SVG() + small(c.worst()) + "</div>"
}
