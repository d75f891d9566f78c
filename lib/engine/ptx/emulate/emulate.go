// Package emulate runs a kernel of package ptx on the host: all blocks at once,
// slowly, and strictly. It is for tests, and for looking at a kernel of one's own
// where there is no GPU.
//
//	out, err := emulate.Run(next, []float32{1, 2, 3})
//	fmt.Println(out[0]) // [2 3 4]
//
// It reads the kernel's text, not its Go code, so that what it runs is what a
// device is given. What a device lets pass in silence is an error here, which names
// the line of PTX, the block and the thread:
//
//   - an address outside of its array or of shared memory, or not at a multiple of
//     what is read or written there;
//   - a read of memory that nothing has written;
//   - a store to an input that is no output's alias;
//   - threads of a block that touch the same word, one of them writing, with no
//     bar.sync between them;
//   - blocks that do so, with no release and acquire of a counter between them;
//   - bar.sync, shfl and mma without all threads of the warp;
//   - waiting for what never comes.
//
// # How it runs
//
// A warp's threads run together, each with a place in the text of its own; those
// that are behind go first, so that they meet again after an If. A warp runs until
// it waits, ends or has looked at a counter; then the next one does. One kernel
// with one input always runs the same way, so that a race is found by what orders
// the threads, not by luck.
//
// Counters order whole blocks, as [ptx.Block.Arrive] and [ptx.Block.Await] do: a
// thread that waits by Spin, for itself, is taken to have waited for its block.
// Words that have been counters are free of the rules for races.
//
// # Numbers
//
// Arithmetic is as a device rounds it; the approximate functions are exact, and
// a Dot is rounded once, at its end, after its factors were cut to TF32. Registers
// that nothing has set hold a NaN. It knows the instructions that package ptx
// writes and no others.
package emulate

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
)

// Run runs the kernel. Inputs are []float32, []bfloat16.BFloat16, []int32 or []uint8, as
// their shapes say, in the kernel's order and row-major; so are the outputs, in which what
// nothing has stored is 0.
func Run(k ptx.Kernel, inputs ...any) ([]any, error) {
	text, err := k.Text()
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) ([]any, error) {
		return nil, fmt.Errorf("emulate: kernel %s: %w", k.Name, fmt.Errorf(format, args...))
	}
	if len(inputs) != len(k.Inputs) {
		return fail("got %d inputs, want %d", len(inputs), len(k.Inputs))
	}
	p, err := parse(text)
	if err != nil {
		return fail("%w", err)
	}
	if want := len(k.Inputs) + len(k.Outputs); p.parameters != want {
		return fail("got %d parameters, want %d", p.parameters, want)
	}
	m := &machine{program: p, sharedBytes: k.Shared}
	for i, s := range k.Inputs {
		data, err := words(inputs[i], s)
		if err != nil {
			return fail("input %d: %w", i, err)
		}
		m.arrays = append(m.arrays, &array{name: fmt.Sprintf("input %d", i), bytes: bytes(s), data: data})
		m.parameters = append(m.parameters, base(i))
	}
	for i, s := range k.Outputs {
		if !known(s.DType) {
			return fail("output %d: got %s, want float32, bfloat16, int32 or uint8", i, s)
		}
		from, aliased := k.Aliases[i]
		if !aliased {
			from = len(m.arrays)
			m.arrays = append(m.arrays, &array{name: fmt.Sprintf("output %d", i), bytes: bytes(s), data: make([]uint32, (bytes(s)+3)/4)})
		}
		a := m.arrays[from]
		a.marks = make([]mark, len(a.data))
		if aliased {
			a.name += fmt.Sprintf(" (output %d)", i)
			for j := range a.marks {
				a.marks[j].writer = host
			}
		}
		m.parameters = append(m.parameters, base(from))
	}
	if err := m.run(k.Blocks, k.Threads); err != nil {
		return fail("%w", err)
	}
	outputs := make([]any, len(k.Outputs))
	for i, s := range k.Outputs {
		a, _ := m.find(m.parameters[len(k.Inputs)+i])
		outputs[i] = values(a.data, s)
	}
	return outputs, nil
}

func known(d dtypes.DType) bool {
	return d == dtypes.Float32 || d == dtypes.BFloat16 || d == dtypes.Int32 || d == dtypes.Uint8
}

func bytes(s shapes.Shape) int {
	return s.DType.Size() * s.Size()
}

// words is an input as a device's memory holds it.
func words(x any, s shapes.Shape) ([]uint32, error) {
	var got dtypes.DType
	var size int
	var l []uint32
	switch x := x.(type) {
	case []float32:
		got, size, l = dtypes.Float32, len(x), make([]uint32, len(x))
		for i, v := range x {
			l[i] = math.Float32bits(v)
		}
	case []int32:
		got, size, l = dtypes.Int32, len(x), make([]uint32, len(x))
		for i, v := range x {
			l[i] = uint32(v)
		}
	case []bfloat16.BFloat16:
		got, size, l = dtypes.BFloat16, len(x), make([]uint32, (len(x)+1)/2)
		for i, v := range x {
			l[i/2] |= uint32(v.Bits()) << (i % 2 * 16)
		}
	case []uint8:
		got, size, l = dtypes.Uint8, len(x), make([]uint32, (len(x)+3)/4)
		for i, v := range x {
			l[i/4] |= uint32(v) << (i % 4 * 8)
		}
	}
	switch {
	case !known(s.DType):
		return nil, fmt.Errorf("got %s, want float32, bfloat16, int32 or uint8", s)
	case got != s.DType:
		return nil, fmt.Errorf("got %T, want elements of %s", x, s)
	case size != s.Size():
		return nil, fmt.Errorf("got %d elements, want %s", size, s)
	}
	return l, nil
}

// values is the opposite of words.
func values(l []uint32, s shapes.Shape) any {
	switch s.DType {
	case dtypes.Float32:
		x := make([]float32, s.Size())
		for i := range x {
			x[i] = math.Float32frombits(l[i])
		}
		return x
	case dtypes.Int32:
		x := make([]int32, s.Size())
		for i := range x {
			x[i] = int32(l[i])
		}
		return x
	}
	if s.DType == dtypes.BFloat16 {
		x := make([]bfloat16.BFloat16, s.Size())
		for i := range x {
			x[i] = bfloat16.FromBits(uint16(l[i/2] >> (i % 2 * 16)))
		}
		return x
	}
	x := make([]uint8, s.Size())
	for i := range x {
		x[i] = uint8(l[i/4] >> (i % 4 * 8))
	}
	return x
}
