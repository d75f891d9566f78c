package portable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/portable/tabular"
)

// ParseInputs reads inputs for Predict from JSON, by their names: {"x": [[1, 2], [3, 4]]}. An
// input is a list of examples, each of the input's shape or flat; or one example of that shape;
// or all numbers in one list. A net that was trained on a table takes rows, too: {"rows":
// [{"age": 30, "port": "Oslo"}]}. The error is an *InputError.
func (n *Net) ParseInputs(text []byte) ([]any, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		why := err.Error()
		if json.Valid(text) {
			why = brief(text)
		}
		return nil, n.wrong("the inputs are no JSON object (%s): want %s", why, n.Program.wants())
	}
	if rows, is := n.rows(all); is {
		var l []tabular.Row
		if err := json.Unmarshal(rows, &l); err != nil {
			return nil, n.wrong("rows are %s: want a list of objects, with %s", brief(rows), strings.Join(n.Program.Encoder.Columns(), ", "))
		}
		return n.Rows(l...)
	}
	if all["rows"] != nil && n.Program.TakesRows() && !n.takes("rows") {
		return nil, n.wrong("rows are not alone in the request: want %s", n.Program.wants())
	}
	var inputs []any
	for _, a := range n.Program.Inputs {
		raw, is := all[a.Name]
		if !is {
			return nil, n.wrong("there is no input %s: want %s", a.Name, n.Program.wants())
		}
		delete(all, a.Name)
		size, _ := a.size() // ParseProgram has checked it
		l := &list{text: raw, integers: !typeOf(a).IsFloat()}
		if err := l.read(0); err != nil {
			return nil, n.wrong("input %s: %v", a.Name, err)
		}
		if d := l.dims; len(d) > 1 && !slices.Equal(d[1:], a.Dims) && !slices.Equal(d[1:], []int{size}) && !slices.Equal(d, a.Dims) {
			return nil, n.wrong("input %s has the shape %v, want %v after the number of examples", a.Name, d, a.Dims)
		}
		switch typeOf(a) {
		case dtypes.Float32:
			inputs = append(inputs, l.numbers)
		default:
			inputs = append(inputs, l.whole)
		}
	}
	for name := range all {
		return nil, n.wrong("there is no input %q: want %s", name, n.Program.wants())
	}
	return inputs, nil
}

// rows are the rows among the members of a request, of a net that takes some.
func (n *Net) rows(all map[string]json.RawMessage) (rows json.RawMessage, is bool) {
	rows, is = all["rows"]
	ids := n.takes("rows") && !bytes.Contains(rows, []byte("{"))
	return rows, is && len(all) == 1 && n.Program.TakesRows() && !ids
}

// takes says whether there is an input of a name.
func (n *Net) takes(input string) bool {
	return slices.ContainsFunc(n.Program.Inputs, func(a Array) bool { return a.Name == input })
}

// wants says what a request may have.
func (p *Program) wants() string {
	if p.TakesRows() {
		return fmt.Sprintf(`"rows", a list of objects with %s; or %s`, strings.Join(p.Encoder.Columns(), ", "), p.describe())
	}
	return p.describe()
}

// brief is the beginning of a text.
func brief(text []byte) string {
	if r := []rune(string(bytes.TrimSpace(text))); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return string(bytes.TrimSpace(text))
}

// list reads lists of numbers, in lists.
type list struct {
	text     []byte // valid JSON, from the next byte on
	integers bool
	dims     []int
	whole    []int32
	numbers  []float32
}

func (l *list) read(depth int) error {
	l.text = bytes.TrimLeft(l.text, " \t\r\n")
	if l.text[0] != '[' {
		if depth == 0 || depth != len(l.dims) {
			return fmt.Errorf("got %.20q in %d lists: want lists of numbers, all of one shape", l.text, depth)
		}
		end := bytes.IndexAny(l.text, ",] \t\r\n")
		word := string(l.text[:end])
		l.text = l.text[end:]
		if l.integers {
			i, err := strconv.ParseInt(word, 10, 32)
			l.whole = append(l.whole, int32(i))
			if err != nil {
				return fmt.Errorf("got %.40s: want integers of 32 bits", word)
			}
			return nil
		}
		x, err := strconv.ParseFloat(word, 32)
		l.numbers = append(l.numbers, float32(x))
		if err != nil {
			return fmt.Errorf("got %.40s: want numbers of float32", word)
		}
		return nil
	}
	l.text = l.text[1:]
	first := len(l.dims) == depth
	if first {
		if depth == 16 || len(l.numbers)+len(l.whole) > 0 {
			return fmt.Errorf("got lists of several depths: want lists of one shape")
		}
		l.dims = append(l.dims, 0)
	}
	for count := 0; ; count++ {
		l.text = bytes.TrimLeft(l.text, " \t\r\n,")
		if l.text[0] == ']' {
			l.text = l.text[1:]
			if first {
				l.dims[depth] = count
			} else if l.dims[depth] != count {
				return fmt.Errorf("got a list of %d and one of %d: want lists of one shape", l.dims[depth], count)
			}
			return nil
		}
		if err := l.read(depth + 1); err != nil {
			return err
		}
	}
}
