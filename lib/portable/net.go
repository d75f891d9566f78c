package portable

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/bits"
	"reflect"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/portable/tabular"
)

// The files of an exported net.
const (
	ProgramFile = "program.json"
	WeightsFile = "weights.safetensors"
)

// Net is an exported net that is ready to predict. Goroutines may share it; its runs wait for
// each other.
type Net struct {
	Program *Program
	// Weights, if it is set, returns the weights for the next run, in the order of
	// Program.Weights, and what frees them after it.
	Weights func() (weights []compute.Buffer, free func(), err error)
	// Largest is how many examples one run computes at most; default: 64.
	Largest int

	backend compute.Backend
	mu      sync.Mutex // protects following
	loaded  []compute.Buffer
	sizes   map[int]compute.Executable // by numbers of examples
}

// Open reads an exported net: program.json and weights.safetensors.
func Open(files fs.FS, backend compute.Backend) (*Net, error) {
	n, err := OpenProgram(files, backend)
	if err != nil {
		return nil, err
	}
	return n, n.Load(files, WeightsFile)
}

// OpenProgram is Open without weights: Load or the field Weights are to give them.
func OpenProgram(files fs.FS, backend compute.Backend) (*Net, error) {
	b, err := fs.ReadFile(files, ProgramFile)
	if err != nil {
		return nil, fmt.Errorf("portable: %w: want the directory of an exported net", err)
	}
	p, err := ParseProgram(b)
	if err != nil {
		return nil, err
	}
	return &Net{Program: p, backend: backend, sizes: map[int]compute.Executable{}}, nil
}

// Load reads the weights from a safetensors file.
func (n *Net) Load(files fs.FS, name string) error {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("portable: net %s: %w", n.Program.Net, err)
	}
	flats, err := ReadArrays(b, n.Program.Weights)
	if err != nil {
		return fmt.Errorf("portable: net %s: %s: %w; export the net again", n.Program.Net, name, err)
	}
	var loaded []compute.Buffer
	for i, flat := range flats {
		a := n.Program.Weights[i]
		w, err := n.backend.BufferFromFlatData(0, flat, shapes.Make(typeOf(a), a.Dims...))
		if err != nil {
			return fmt.Errorf("portable: net %s: %s: %w", n.Program.Net, a.Name, err)
		}
		loaded = append(loaded, w)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loaded = loaded
	return nil
}

// InputError says that inputs do not fit a net.
type InputError struct{ Net, Text string }

func (e *InputError) Error() string { return e.Net + ": " + e.Text }

func (n *Net) wrong(format string, args ...any) error {
	return &InputError{n.Program.Net, fmt.Sprintf(format, args...)}
}

// Check says whether Predict can take inputs, and of how many examples they are. The error is
// an *InputError.
func (n *Net) Check(inputs ...any) (examples int, err error) {
	p := n.Program
	if len(inputs) != len(p.Inputs) {
		return 0, n.wrong("got %d inputs, want %d: %s", len(inputs), len(p.Inputs), p.describe())
	}
	for i, a := range p.Inputs {
		size, _ := a.size() // ParseProgram has checked it
		flat, want := reflect.ValueOf(inputs[i]), reflect.SliceOf(typeOf(a).GoType())
		if inputs[i] == nil || flat.Type() != want {
			return 0, n.wrong("input %s is a %T, want a %s: the numbers of the examples, one after another, %d each", a.Name, inputs[i], want, size)
		}
		if size == 0 || flat.Len() == 0 || flat.Len()%size != 0 {
			return 0, n.wrong("input %s has %d numbers, want %d for each example, which is %v", a.Name, flat.Len(), size, a.Dims)
		}
		if k := flat.Len() / size; i > 0 && k != examples {
			return 0, n.wrong("input %s is of %d examples, %s of %d: want as many of each", a.Name, k, p.Inputs[0].Name, examples)
		}
		examples = flat.Len() / size
		if ids, is := inputs[i].([]int32); is && a.Vocab > 0 {
			for k, id := range ids {
				if id < 0 || int(id) >= a.Vocab {
					return 0, n.wrong("number %d of input %s is %d, want ids from 0 to %d", k, a.Name, id, a.Vocab-1)
				}
			}
		}
	}
	return examples, nil
}

// describe says what the inputs are.
func (p *Program) describe() string {
	var l []string
	for _, a := range p.Inputs {
		l = append(l, fmt.Sprintf("%s []%s %v", a.Name, typeOf(a).GoStr(), a.Dims))
	}
	return strings.Join(l, ", ")
}

// runs are the sizes of the runs that n examples take: powers of two, so that few programs are
// compiled for any n. The last may have room for more.
func runs(n, fixed, largest int) (sizes []int) {
	for n > 0 {
		size := fixed
		if size == 0 {
			size = min(largest, 1<<(bits.Len(uint(n))-1))
			if 2*n > 3*size && size < largest { // one run more would cost as much
				size *= 2
			}
		}
		sizes = append(sizes, size)
		n -= size
	}
	return sizes
}

// Predict runs the net on examples and returns what it gives for each, one after another. An
// input is a slice, []float32 or []int32, of the examples' numbers in row-major order.
func (n *Net) Predict(inputs ...any) ([]float32, error) {
	examples, err := n.Check(inputs...)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	weights, free := n.loaded, func() {}
	if n.Weights != nil {
		if weights, free, err = n.Weights(); err != nil {
			return nil, err
		}
	}
	defer free()
	if len(weights) != len(n.Program.Weights) {
		return nil, fmt.Errorf("portable: net %s has no weights yet: want Load", n.Program.Net)
	}
	width, _ := n.Program.Output.size()
	sizes := runs(examples, n.Program.Batch, cmp.Or(n.Largest, 64))
	out, from := make([]float32, 0, (examples+sizes[0])*width), 0
	for _, size := range sizes {
		e := n.sizes[size]
		if e == nil {
			if e, err = n.Program.compile(n.backend, size); err != nil {
				return nil, err
			}
			n.sizes[size] = e
		}
		part := make([]float32, size*width)
		if err := n.run(e, inputs, weights, from, size, part); err != nil {
			return nil, fmt.Errorf("portable: net %s: %w", n.Program.Net, err)
		}
		out = append(out, part...)
		from += size
	}
	return out[:examples*width], nil
}

// Rows are the inputs of rows, as the encoder of the net's training data makes them. The error is
// an *InputError.
func (n *Net) Rows(rows ...tabular.Row) (inputs []any, err error) {
	if !n.Program.TakesRows() {
		return nil, n.wrong("it was not trained on rows of a table: want %s", n.Program.describe())
	}
	all, err := n.Program.Encoder.Inputs(rows)
	if err != nil {
		return nil, n.wrong("%v", err)
	}
	for _, a := range n.Program.Inputs {
		inputs = append(inputs, all[a.Name])
	}
	return inputs, nil
}

// Answers read what Predict returns: classes by name with their probabilities, or numbers in the
// unit of the target, as Program.Reading says. It is nil for a net without an encoder.
func (n *Net) Answers(outputs []float32) []tabular.Answer {
	width, _ := n.Program.Output.size()
	if n.Program.Encoder == nil || width == 0 {
		return nil
	}
	return n.Program.Encoder.Answers(n.Program.Reading, outputs, len(outputs)/width)
}

// Try predicts for one example of zeros, so that what cannot work fails early.
func (n *Net) Try() error {
	var inputs []any
	for _, a := range n.Program.Inputs {
		size, _ := a.size()
		inputs = append(inputs, dtypes.MakeAnySlice(typeOf(a), size))
	}
	_, err := n.Predict(inputs...)
	return err
}

// run runs size examples from one on; where there are fewer, the last is repeated.
func (n *Net) run(e compute.Executable, inputs []any, weights []compute.Buffer, from, size int, to []float32) error {
	var in []compute.Buffer
	defer func() {
		for _, b := range in[:min(len(in), len(inputs))] {
			b.Finalize()
		}
	}()
	for i, a := range n.Program.Inputs {
		width, _ := a.size()
		all := reflect.ValueOf(inputs[i])
		flat := dtypes.MakeAnySlice(typeOf(a), size*width)
		for at := range size {
			row := min(from+at, all.Len()/width-1)
			reflect.Copy(reflect.ValueOf(flat).Slice(at*width, (at+1)*width), all.Slice(row*width, (row+1)*width))
		}
		b, err := n.backend.BufferFromFlatData(0, flat, shapes.Make(typeOf(a), append([]int{size}, a.Dims...)...))
		if err != nil {
			return err
		}
		in = append(in, b)
	}
	out, err := e.Execute(append(in, weights...), nil, 0)
	if err != nil {
		return err
	}
	defer out[0].Finalize()
	return out[0].ToFlatData(to)
}
