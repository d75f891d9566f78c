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
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
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
	return p, nil
}

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
