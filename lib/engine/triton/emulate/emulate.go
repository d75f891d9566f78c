// Package emulate runs a kernel of package triton on the host: block by block,
// slowly, and strictly. It is for tests, and for debugging a kernel of your own without a GPU.
//
//	out, err := emulate.Run(add, []float64{1, 2, 3}, []float64{10, 20, 30})
//	fmt.Println(out[0]) // [11 22 33]
//
// It reads the kernel's text, not its Go code, so that what it runs is what a
// device is given. Faults that a device does not report are errors here:
//
//   - an address outside of its array that no mask covers;
//   - an element of an output that no block has stored, or two have;
//   - a block that reads what another has stored;
//   - more elements read of an input than the kernel's Takes says.
//
// Numbers are rounded to their type after every op, matmuls only
// at the end; float32 factors are cut to TF32 unless triton.Exact is set.
// It knows the ops that package triton writes and no others.
package emulate

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// Run runs the kernel. Inputs are row-major, in the kernel's order; so are the
// outputs.
func Run(k triton.Kernel, inputs ...[]float64) ([][]float64, error) {
	text, err := k.Text()
	if err != nil {
		return nil, err
	}
	if len(inputs) != len(k.Inputs) {
		return nil, fmt.Errorf("emulate: kernel %s: got %d inputs, want %d", k.Name, len(inputs), len(k.Inputs))
	}
	m := &machine{kernel: k, arrays: map[string]*array{}}
	for i, s := range k.Inputs {
		if len(inputs[i]) != s.Size() {
			return nil, fmt.Errorf("emulate: kernel %s: input %d has %d elements, want %s", k.Name, i, len(inputs[i]), s)
		}
		a := newArray(fmt.Sprintf("%%in%d", i), s.DType, s.Size())
		for j, x := range inputs[i] {
			a.data[j] = round(s.DType, x)
		}
		m.arrays[a.name] = a
	}
	var outputs []*array
	for i, s := range k.Outputs {
		a := newArray(fmt.Sprintf("%%out%d", i), s.DType, s.Size())
		if in, is := k.Aliases[i]; is {
			a.data = m.arrays[fmt.Sprintf("%%in%d", in)].data
			a.writer = m.arrays[fmt.Sprintf("%%in%d", in)].writer
		}
		m.arrays[a.name] = a
		outputs = append(outputs, a)
	}
	body, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("emulate: kernel %s: %w", k.Name, err)
	}
	grid := k.Launched()
	for z := range grid[2] {
		for y := range grid[1] {
			for x := range grid[0] {
				m.block++
				m.place = [3]int{x, y, z}
				if err := m.run(body); err != nil {
					return nil, fmt.Errorf("emulate: kernel %s: block %v: %w", k.Name, m.place, err)
				}
			}
		}
	}
	for i, most := range k.Takes {
		n := 0
		for _, read := range m.arrays[fmt.Sprintf("%%in%d", i)].read {
			if read {
				n++
			}
		}
		if n > most {
			return nil, fmt.Errorf("emulate: kernel %s: it reads %d elements of input %d, Takes says %d", k.Name, n, i, most)
		}
	}
	result := make([][]float64, len(outputs))
	for i, a := range outputs {
		for j, w := range a.writer {
			if w == 0 && !slices.Contains(k.Partly, i) {
				return nil, fmt.Errorf("emulate: kernel %s: nothing is stored to element %d of output %d", k.Name, j, i)
			}
		}
		result[i] = a.data
	}
	return result, nil
}

// array is memory of the device.
type array struct {
	name   string
	dtype  dtypes.DType
	data   []float64
	writer []int // the block that stored each element; 0 is none
	read   []bool
}

func newArray(name string, d dtypes.DType, size int) *array {
	return &array{name: name, dtype: d, data: make([]float64, size), writer: make([]int, size), read: make([]bool, size)}
}

// tile is a value: dims nil is a scalar. Addresses are offsets in an array.
type tile struct {
	dims  []int
	dtype dtypes.DType
	array *array
	data  []float64
}

func newTile(t triton.Type) *tile {
	size := 1
	for _, d := range t.Dims {
		size *= d
	}
	return &tile{dims: t.Dims, dtype: t.DType, data: make([]float64, size)}
}

// machine runs one block after the other.
type machine struct {
	kernel triton.Kernel
	arrays map[string]*array
	place  [3]int
	block  int
	values map[string]*tile
}

func (m *machine) run(body []*op) (err error) {
	m.values = map[string]*tile{}
	for name, a := range m.arrays {
		m.values[name] = &tile{dtype: a.dtype, array: a, data: []float64{0}}
	}
	_, err = m.do(body)
	return err
}

// do runs a region, and returns what it yields.
func (m *machine) do(body []*op) ([]*tile, error) {
	for _, o := range body {
		switch o.name {
		case "scf.yield", "tt.reduce.return":
			return m.all(o.args), nil
		case "tt.return":
			return nil, nil
		}
		if err := m.step(o); err != nil {
			return nil, fmt.Errorf("%w in %s", err, o.line)
		}
	}
	return nil, nil
}

func (m *machine) all(names []string) []*tile {
	l := make([]*tile, len(names))
	for i, n := range names {
		l[i] = m.values[n]
	}
	return l
}

// round is x as a type can hold it.
func round(d dtypes.DType, x float64) float64 {
	switch d {
	case dtypes.Float32:
		return float64(float32(x))
	case dtypes.BFloat16:
		return bits(x, 8)
	case dtypes.Float16:
		return bits(x, 11)
	case dtypes.Int32:
		return float64(int32(int64(x)))
	}
	return x
}

// bits rounds to a mantissa of so many bits, ties to even.
func bits(x float64, n int) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	fraction, exponent := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(fraction, n)), exponent-n)
}

func (m *machine) load(a []*tile, out *tile) error {
	p := a[0]
	for i, at := range p.data {
		if len(a) > 1 && a[1].data[i] == 0 {
			out.data[i] = a[2].data[i]
			continue
		}
		j := int(at)
		if j < 0 || j >= len(p.array.data) {
			return fmt.Errorf("load at %d of %s, which has %d elements", j, p.array.name, len(p.array.data))
		}
		if w := p.array.writer[j]; w != 0 && w != m.block {
			return fmt.Errorf("load of element %d of %s, which another block has stored", j, p.array.name)
		}
		out.data[i], p.array.read[j] = p.array.data[j], true
	}
	return nil
}

func (m *machine) store(a []*tile) error {
	p := a[0]
	for i, at := range p.data {
		if len(a) > 2 && a[2].data[i] == 0 {
			continue
		}
		j := int(at)
		if j < 0 || j >= len(p.array.data) {
			return fmt.Errorf("store at %d of %s, which has %d elements", j, p.array.name, len(p.array.data))
		}
		if w := p.array.writer[j]; w != 0 && w != m.block {
			return fmt.Errorf("store to element %d of %s, which another block has stored", j, p.array.name)
		}
		p.array.data[j], p.array.writer[j] = a[1].data[i], m.block
	}
	return nil
}

// reduce folds axis by the ops of a region.
func (m *machine) reduce(o *op, a []*tile, out []*tile) error {
	outer, inner := 1, 1
	for i, d := range a[0].dims {
		if i < o.number {
			outer *= d
		} else if i > o.number {
			inner *= d
		}
	}
	length := a[0].dims[o.number]
	for x := range outer {
		for y := range inner {
			sum := make([]*tile, len(a))
			for k := range length {
				next := make([]*tile, len(a))
				for i := range a {
					next[i] = &tile{dtype: a[i].dtype, data: []float64{a[i].data[(x*length+k)*inner+y]}}
				}
				if k == 0 {
					sum = next
					continue
				}
				for i := range a {
					m.values[o.params[i]], m.values[o.params[len(a)+i]] = sum[i], next[i]
				}
				var err error
				if sum, err = m.do(o.body); err != nil {
					return err
				}
			}
			for i := range out {
				out[i].data[x*inner+y] = sum[i].data[0]
			}
		}
	}
	return nil
}

// loop is scf.for.
func (m *machine) loop(o *op, a []*tile) error {
	carried := a[3:]
	for i := a[0].data[0]; i < a[1].data[0]; i += a[2].data[0] {
		m.values[o.params[0]] = &tile{dtype: dtypes.Int32, data: []float64{i}}
		for k, c := range carried {
			m.values[o.params[1+k]] = c
		}
		next, err := m.do(o.body)
		if err != nil {
			return err
		}
		carried = next
	}
	for k, c := range carried {
		m.values[o.results[k]] = c
	}
	return nil
}

// known are the ops, for messages.
func known() []string {
	var l []string
	for name := range elementwise {
		l = append(l, name)
	}
	sort.Strings(l)
	return l
}
