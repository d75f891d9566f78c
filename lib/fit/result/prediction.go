package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/timing/units"
)

// Prediction is what a net says of examples.
type Prediction struct {
	Classes []int32   // the most likely label of each example, or of each of its positions, when the net returns one number a class
	Output  []float32 // what the net returned, row by row
	Width   int       // numbers an example in Output

	// Names are the names of Classes, and Values a target of numbers in its own unit, where the
	// net was trained on examples with an encoder, such as those of tables and of folders.
	Names  []string
	Values []float64
}

// Row is what the net returned for example i.
func (p *Prediction) Row(i int) []float32 { return p.Output[i*p.Width : (i+1)*p.Width] }

// String is a line of the first answers: 333 examples: classes 7 4 2 0 8 3 …
func (p *Prediction) String() string {
	n := 0
	if p.Width > 0 {
		n = len(p.Output) / p.Width
	}
	switch {
	case len(p.Names) > 0:
		return fmt.Sprintf("%s: classes %s", units.Plural(n, "example"), Brief(p.Names, 16))
	case len(p.Values) > 0:
		values := make([]float32, len(p.Values)) // as exactly as the net's own numbers
		for i, v := range p.Values {
			values[i] = float32(v)
		}
		return fmt.Sprintf("%s: %s", units.Plural(n, "example"), Brief(values, 8))
	case len(p.Classes) > 0:
		return fmt.Sprintf("%s: classes %s", units.Plural(n, "example"), Brief(p.Classes, 16))
	}
	return fmt.Sprintf("%s of %d numbers: %s", units.Plural(n, "example"), p.Width, Brief(p.Output, 8))
}

// MostWrong are the numbers of at most so many examples whose class is not their label, those
// first whose right class was given the least probability.
func (p *Prediction) MostWrong(labels []int32, most int) []int {
	type wrong struct {
		example int
		right   float64 // probability of the right class
	}
	var all []wrong
	for i, want := range labels[:min(len(labels), len(p.Classes))] {
		if want >= 0 && int(want) < p.Width && p.Classes[i] != want && len(p.Classes)*p.Width == len(p.Output) {
			all = append(all, wrong{i, p.Probabilities(i)[want]})
		}
	}
	slices.SortStableFunc(all, func(a, b wrong) int { return cmp.Compare(a.right, b.right) })
	var examples []int
	for _, w := range all[:min(max(0, most), len(all))] {
		examples = append(examples, w.example)
	}
	return examples
}

// Brief is the first few of many values, with spaces between numbers and commas between texts.
func Brief[T any](l []T, few int) string {
	s, between := make([]string, min(few, len(l))), " "
	for i, x := range l[:len(s)] {
		s[i] = fmt.Sprint(x)
		if _, text := any(x).(string); text { // which may have spaces
			between = ", "
		}
	}
	if len(l) > few {
		s = append(s, "…")
	}
	return strings.Join(s, between)
}

// Probabilities are the softmax of Row i: how likely each class is.
func (p *Prediction) Probabilities(i int) []float64 {
	row := p.Row(i)
	top, sum := math.Inf(-1), 0.0
	for _, x := range row {
		top = max(top, float64(x))
	}
	l := make([]float64, len(row))
	for k, x := range row {
		l[k] = math.Exp(float64(x) - top)
		sum += l[k]
	}
	for k := range l {
		l[k] /= sum
	}
	return l
}
