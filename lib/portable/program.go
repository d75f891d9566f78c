// Package portable runs an exported net on any backend of github.com/gomlx/compute: the pure-Go
// one, XLA, or Gaiden's session.
//
//	backend, err := gobackend.New("")
//	net, err := portable.Open(os.DirFS("cnn"), backend)
//	logits, err := net.Predict(pixels) // []float32, [n 28 28 1] → [n 10]
//
// An exported net is two files. program.json is the forward pass as a list of calls of
// compute.Function, in which a dimension that depends on the number of examples n is written as
// "n", "2n" or "3n+1". weights.safetensors holds its arrays. Package export writes both, and
// carries this package's source into each exported module: it imports the standard library and
// github.com/gomlx/compute only.
//
// It refuses arrays that are damaged or of another shape, inputs of another type or size, and
// operations that the backend does not have; the error says which.
package portable

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/portable/tabular"
)

// Format is the version of program.json that this package reads.
const Format = 1

// Program is the forward pass of a net. Values are numbered: first the inputs, then the weights,
// then the results of operations.
type Program struct {
	Format  int
	Net     string  // the net's name
	Space   string  `json:",omitempty"` // name space of the session that the net was exported from
	Steps   int     // training steps that the net had done
	Batch   int     // examples that a run takes; 0: any number
	Inputs  []Array // of one example
	Output  Array   // of one example
	Weights []Array // in weights.safetensors
	Ops     []Op
	Result  int // number of the value that is returned

	// Encoder says how rows of the net's data become its inputs, if it has columns, and what its
	// classes are called; nil: that is not known. Reading is how it reads the output.
	Encoder *tabular.Encoder `json:",omitempty"`
	Reading tabular.Reading  `json:",omitempty"`
}

// Array describes an array. Its Type is a name of package dtypes, such as Float32.
type Array struct {
	Name  string
	Type  string
	Dims  []int
	Vocab int    `json:",omitempty"` // ids are less than it; 0: not checked
	From  string `json:",omitempty"` // the weights' name in the session
}

// Op is one call of a method of compute.Function. In are its arguments: numbers of values,
// integers, texts, lists, structs by their fields, and for closures a Closure. A Constant has a
// type, dimensions, and its elements in base64.
type Op struct {
	Op    string `json:"op"`
	In    []any  `json:"in"`
	Out   []int  `json:"out"`             // numbers of its results
	Layer string `json:"layer,omitempty"` // that it belongs to
}

// Closure is an argument of While, If and Sort.
type Closure struct {
	Params  []Param `json:"params"`
	Ops     []Op    `json:"ops"`
	Results []int   `json:"results"`
}

// Param is a parameter of a closure.
type Param struct {
	Out  int    `json:"out"`
	Type string `json:"type"`
	Dims []any  `json:"dims"` // integers, or texts such as "2n"
}

// ParseProgram reads a program.json.
func ParseProgram(b []byte) (*Program, error) {
	p := &Program{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("portable: program.json: %w", err)
	}
	if p.Format != Format {
		return nil, fmt.Errorf("portable: program.json has format %d: want %d; export the net again", p.Format, Format)
	}
	for _, a := range append(append([]Array{p.Output}, p.Inputs...), p.Weights...) {
		if _, err := a.size(); err != nil {
			return nil, fmt.Errorf("portable: program.json: %w", err)
		}
	}
	if len(p.Inputs) == 0 {
		return nil, fmt.Errorf("portable: program.json: no inputs: want at least one")
	}
	if err := p.encodes(); err != nil {
		return nil, fmt.Errorf("portable: program.json: %w", err)
	}
	return p, nil
}

// encodes says whether the encoder and its reading are ones for the inputs and the output.
func (p *Program) encodes() error {
	if p.Encoder == nil {
		if p.Reading != "" {
			return fmt.Errorf("reading %q without an encoder", p.Reading)
		}
		return nil
	}
	width, _ := p.Output.size()
	if one := p.Reading == tabular.Sigmoid || p.Reading == tabular.Scaled; one && width != 1 || p.Reading == tabular.Sigmoid && len(p.Encoder.Classes) != 2 {
		return fmt.Errorf("reading %q of outputs %v with %d classes", p.Reading, p.Output.Dims, len(p.Encoder.Classes))
	}
	if !p.TakesRows() {
		return nil
	}
	for name, size := range p.Encoder.Sizes() {
		at := slices.IndexFunc(p.Inputs, func(a Array) bool { return a.Name == name })
		if at < 0 || len(p.Inputs) != len(p.Encoder.Sizes()) {
			return fmt.Errorf("the encoder makes the input %s, the net takes %s", name, p.describe())
		}
		if of, _ := p.Inputs[at].size(); of != size {
			return fmt.Errorf("the encoder makes %d numbers of input %s, the net takes %v", size, name, p.Inputs[at].Dims)
		}
	}
	return nil
}

// TakesRows says whether the net was trained on rows of a table, which its Encoder encodes.
func (p *Program) TakesRows() bool { return p.Encoder != nil && len(p.Encoder.Columns()) > 0 }

// size is the number of elements.
func (a Array) size() (int, error) {
	if _, err := dtypes.DTypeString(a.Type); err != nil {
		return 0, fmt.Errorf("array %q has the element type %q: want one of package dtypes", a.Name, a.Type)
	}
	n := 1
	for _, d := range a.Dims {
		if d < 0 || d > 0 && n > 1<<40/d {
			return 0, fmt.Errorf("array %q: dimensions %v are impossible", a.Name, a.Dims)
		}
		n *= d
	}
	return n, nil
}

// Dim is A·n + B, for n examples.
type Dim struct{ A, B int }

// At is the dimension for n examples.
func (d Dim) At(n int) int { return d.A*n + d.B }

// String is "2n+3", or a number where n does not matter.
func (d Dim) String() string {
	s := strings.TrimPrefix(fmt.Sprintf("%dn%+d", d.A, d.B), "1n")
	switch {
	case d.A == 0:
		return strconv.Itoa(d.B)
	case d.A == 1:
		s = "n" + s
	}
	return strings.TrimSuffix(s, "+0")
}

// ParseDim reads an integer as it stands in Op.In.
func ParseDim(x any) (Dim, error) {
	switch x := x.(type) {
	case int:
		return Dim{0, x}, nil
	case float64:
		if float64(int(x)) == x {
			return Dim{0, int(x)}, nil
		}
	case string:
		a, b, is := strings.Cut(x, "n")
		d, err1, err2 := Dim{A: 1}, error(nil), error(nil)
		if a != "" {
			d.A, err1 = strconv.Atoi(a)
		}
		if b != "" {
			d.B, err2 = strconv.Atoi(b)
		}
		if is && err1 == nil && err2 == nil {
			return d, nil
		}
	}
	return Dim{}, fmt.Errorf("got %v: want an integer, or a text such as 2n+1", x)
}
