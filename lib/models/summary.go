package models

import (
	"errors"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Summary is what Keras prints of a model.
type Summary struct {
	Net                     string
	Rows                    []Row
	Layers                  []*Built // as the rows, with what is inside of them
	Trainable, NonTrainable int      // parameters
}

// Row is one layer of a Summary.
type Row struct {
	Name, Kind string
	Output     []int // without the batch
	Params     int
	Variables  []Variable
}

// Variable is a variable of a net, as package fit names it: "conv/weights".
type Variable struct {
	Name      string
	Shape     shapes.Shape
	Trainable bool
}

// Summarize builds the net on a backend, which need not be able to run
// anything, and describes it.
func Summarize(backend compute.Backend, net Net) (s Summary, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = Recovered(r); !errors.As(err, new(*LayerError)) {
				err = fmt.Errorf("models: %s: %w", net.Name, err)
			}
		}
	}()
	if err := net.Check(); err != nil {
		return s, err
	}
	g := NewGraph(backend, net.Name)
	store := model.NewStore()
	scope := store.RootScope()
	const batch = 2
	net = net.Listed()
	s.Net = net.Name
	seen, names := 0, net.Names()
	all := &Built{}
	model.SetGraphParam(g, builtParam, all)
	in := net.Batch(batch, func(name string, shape shapes.Shape) *Node { return Parameter(g, name, shape) })
	row := func(i int, x *Node) *Node {
		_, kind := net.Layers[i].Title()
		r := Row{Name: names[i], Kind: kind, Output: example(x)}
		k := 0
		for v := range store.IterVariables() {
			if k++; k <= seen || strings.Contains(v.Path(), "#") {
				continue
			}
			r.Variables = append(r.Variables, Variable{strings.TrimPrefix(v.Path(), "/"), v.Shape(), v.Trainable})
			r.Params += v.Shape().Size()
			if v.Trainable {
				s.Trainable += v.Shape().Size()
			} else {
				s.NonTrainable += v.Shape().Size()
			}
		}
		seen = k
		s.Rows = append(s.Rows, r)
		return x
	}
	if net.parts {
		net.buildParts(scope, in, row)
	} else if y := net.Build(scope, in, nil, row); y.IsScalar() || y.Shape().Dimensions[0] != batch {
		return s, fmt.Errorf("models: %s: for %d examples it returns %s: want shape [%d …], one row for each example", net.Name, batch, y.Shape(), batch)
	}
	s.Layers = all.Inner
	return s, nil
}

// Freeze counts variables that training leaves as they are with those that are not trained.
func (s *Summary) Freeze(frozen func(Variable) bool) {
	for i := range s.Rows {
		for k := range s.Rows[i].Variables {
			if v := &s.Rows[i].Variables[k]; v.Trainable && frozen(*v) {
				v.Trainable = false
				s.Trainable -= v.Shape.Size()
				s.NonTrainable += v.Shape.Size()
			}
		}
	}
}

// Total is the number of all parameters.
func (s Summary) Total() int { return s.Trainable + s.NonTrainable }

// String is Keras's table.
func (s Summary) String() string {
	layer, output := 27, 25 // columns, as in Keras, or as wide as they must be
	title := func(r Row) string { return r.Name + " (" + r.Kind + ")" }
	shape := func(r Row) string {
		text := "(None"
		for _, d := range r.Output {
			text += fmt.Sprintf(", %d", d)
		}
		return text + ")"
	}
	for _, r := range s.Rows {
		if n := utf8.RuneCountInString(title(r)); n > 28 { // of 28, Keras moves the line
			layer = max(layer, n)
		}
		output = max(output, len(shape(r)))
	}
	width := layer + output + 13
	var b strings.Builder
	fmt.Fprintf(&b, "Model: %q\n%s\n", s.Net, strings.Repeat("_", width))
	fmt.Fprintf(&b, " %-*s %-*s %-10s\n%s\n", layer, "Layer (type)", output, "Output Shape", "Param #", strings.Repeat("=", width))
	for _, r := range s.Rows {
		fmt.Fprintf(&b, " %-*s %-*s %-10d\n", layer, title(r), output, shape(r), r.Params)
	}
	fmt.Fprintf(&b, "%s\n", strings.Repeat("=", width))
	for _, l := range []struct {
		what string
		n    int
	}{{"Total", s.Total()}, {"Trainable", s.Trainable}, {"Non-trainable", s.NonTrainable}} {
		fmt.Fprintf(&b, "%s params: %s (%s)\n", l.what, commas(l.n), bytesOf(4*l.n))
	}
	return b.String() + strings.Repeat("_", width)
}

// HTML is the same, in lines that a narrow page does not break.
func (s Summary) HTML() string {
	return `<pre style="white-space:pre;margin:0">` + html.EscapeString(s.String()) + "</pre>"
}

func commas(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func bytesOf(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.2f MB", float64(n)/(1<<20))
}
