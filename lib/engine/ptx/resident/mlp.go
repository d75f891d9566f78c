// Package resident has a GPU kernel whose blocks stay on their processors for many
// training steps, with a net's weights and moments in their registers and shared
// memory.
//
//	k := resident.MLP{Examples: 60000, Batch: 100, In: 784, Hidden: [2]int{1000, 1000}, Classes: 10, Steps: 100, Rows: 601}
//	if k.Fits() {
//		out, err := k.Kernel().Call(f, operands...)
//	}
//
// A step of a large MLP moves 43 MB of state through memory, and as much again
// through the second-level cache, when each layer is a kernel of its own. An H200's
// processors have 64 MB of registers and shared memory. So the weights are divided among
// 128 blocks for good, and between blocks go activations and gradients only: 39.1
// µs a step became 25.
//
// # How a step goes
//
// Block (i, j) of R·S has, of each of the two large layers, the weights from the inputs
// of slice i to the 64 outputs of slice j. What it makes of them is a part of a sum,
// which goes to memory; then each block adds up some rows of what its group has made,
// and all wait for each other before anyone reads on:
//
//	block (i, j)                                                  waits for
//	part of x·w1                                                  its group, all i
//	h1 = act(sum of parts + b1), some rows                        the groups whose outputs are slice i
//	part of h1·w2                                                 its group
//	h2 = act(sum of parts + b2), some rows; part of h2·w3         all j
//	softmax; gradient of some rows of h2                          its group
//	part of the gradient of h1; w2, b2, w3, b3 after the step     all j, of the slice that h1's outputs are in
//	gradient of some rows of h1                                   its group
//	w1, b1 after the step; the next step's x
//
// All sums are in one order, so that a run gives the same bits each time.
//
// # What it refuses
//
// [MLP.Fits] says what has room: two hidden layers with ReLU, of up to 1,024 units, up
// to 16 classes, and batches of up to 128; up to 112 read their inputs
// once. All blocks have to run
// at once, which nothing but a device with as many processors does: see [MLP.Blocks].
package resident

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// MLP is some training steps of a classifier with two hidden layers with ReLU.
//
//	inputs:  order [examples] int32; place and at, int32 scalars; x [examples in] uint8, which become 0 to 1, labels [examples] int32;
//	         scales [steps 2] float32: the rule's Scalars in each step;
//	         counters [Counters] int32, zeros; rows [Rows 3] float32;
//	         of each of the three layers weights [in out], their moments, biases [out], their moments
//	outputs: those of the layers, rows, at and counters, in the same memory; scratch [Scratch] float32
//
// Step number s takes batch at+s of the order, which begins at place, or the last
// that is whole. It writes its mean loss, the number of examples and of those that
// are right into row at+s. In the end at is Steps more.
type MLP struct {
	Examples, Batch, In int
	Floats              bool   // x is float32, and taken as it is
	Hidden              [2]int // units
	Classes             int
	Steps, Rows         int
	Rule                kernels.Rule // with up to two moments and Scalars, and no functions but roots

	slices int  // along inputs: a power of two; default: 8
	tight  bool // as if there were no room for the inputs of both layers
}

// threads of a block: eight warps, two on each quarter of a processor.
const threads = 256

// wide is how many outputs of a layer a block has.
const wide = 64

// MostClasses and MostBatch are the largest numbers of classes and of examples of a
// batch.
const (
	MostClasses = 16
	MostBatch   = 128
)

// roomy is up to how many examples the inputs of both large layers have room beside
// each other.
const roomy = 112

// borrows says whether the inputs of both large layers have one place: the second
// layer's while it is at work, and the first one's, read once more, before and after.
func (m MLP) borrows() bool { return m.tight || m.Batch > roomy }

// Fits says whether the rule and the sizes are such that there is a kernel.
func (m MLP) Fits() bool {
	for _, n := range m.Hidden {
		if n < 1 || n > wide*m.groups() {
			return false
		}
	}
	return takes(m.Rule) && m.Batch >= 1 && m.Batch <= min(MostBatch, 16*m.along()) && m.Examples >= m.Batch && m.Steps >= 1 && m.Rows >= m.Steps &&
		m.In >= 8 && m.In%8 == 0 && m.first() <= 128 && m.Classes >= 2 && m.Classes <= MostClasses &&
		m.places().bytes <= ptx.LargestShared
}

// Blocks is how many processors the kernel wants.
func (m MLP) Blocks() int { return m.along() * m.groups() }

// along is the number of slices of inputs.
func (m MLP) along() int {
	if m.slices > 0 {
		return m.slices
	}
	return 8
}

// each is how many groups' outputs are one slice of the second layer's inputs.
func (m MLP) each() int {
	if max(m.Hidden[0], m.Hidden[1]) > wide*m.along() {
		return 2
	}
	return 1
}

// groups is the number of slices of outputs.
func (m MLP) groups() int { return m.along() * m.each() }

// first and second are how many inputs a slice has, of either layer.
func (m MLP) first() int  { return 8 * ((m.In + 8*m.along() - 1) / (8 * m.along())) }
func (m MLP) second() int { return wide * m.each() }

// padded is the batch in whole tiles, and share how many of its rows a block adds up.
func (m MLP) padded() int { return (m.Batch + 15) / 16 * 16 }
func (m MLP) share() int  { return (m.Batch + m.along() - 1) / m.along() }

// own is how many outputs of its slice's 64 a block keeps biases and the last layer's
// weights of.
func (m MLP) own() int { return wide / m.along() }

// stride is the length of a row of activations in the scratch.
func (m MLP) stride() int { return wide * m.groups() }

// States are the shapes of the layers' arrays, in the kernel's order.
func (m MLP) States() (all []shapes.Shape) {
	in := m.In
	for _, out := range []int{m.Hidden[0], m.Hidden[1], m.Classes} {
		w, b := shapes.Make(dtypes.Float32, in, out), shapes.Make(dtypes.Float32, out)
		for _, s := range []shapes.Shape{w, b} {
			for range m.arrays() {
				all = append(all, s)
			}
		}
		in = out
	}
	return all
}

// arrays is how many there are of weights, with their moments.
func (m MLP) arrays() int { return 1 + m.Rule.Moments() }

// Counters is how many elements that array has.
func (m MLP) Counters() int {
	return apart * (groupCounters*m.groups() + sliceCounters*m.along())
}

// Scratch is how many elements that array has.
func (m MLP) Scratch() int { return m.scratch().end }

// Numbers of the inputs that are no states.
const (
	inOrder = iota
	inPlace
	inAt
	inX
	inLabels
	inScales
	inCounters
	inRows
	inStates
)

// Kernel is the kernel of these sizes.
func (m MLP) Kernel() ptx.Kernel {
	scalar, states := shapes.Make(dtypes.Int32), m.States()
	rows, counters := shapes.Make(dtypes.Float32, m.Rows, 3), shapes.Make(dtypes.Int32, m.Counters())
	x := shapes.Make(dtypes.Uint8, m.Examples, m.In)
	if m.Floats {
		x.DType = dtypes.Float32
	}
	n := len(states)
	k := ptx.Kernel{
		Name: "resident_" + m.Rule.Name(), Blocks: m.Blocks(), Threads: threads, Shared: m.places().bytes,
		Inputs: append([]shapes.Shape{
			inOrder: shapes.Make(dtypes.Int32, m.Examples), inPlace: scalar, inAt: scalar,
			inX: x, inLabels: shapes.Make(dtypes.Int32, m.Examples),
			inScales: shapes.Make(dtypes.Float32, m.Steps, 2), inCounters: counters, inRows: rows}, states...),
		Outputs: append(append([]shapes.Shape{}, states...), rows, scalar, counters, shapes.Make(dtypes.Float32, m.Scratch())),
		Aliases: map[int]int{n: inRows, n + 1: inAt, n + 2: inCounters},
		Body:    func(b *ptx.Block) { newWriter(b, m).all() },
	}
	size := 0
	for i, s := range states {
		k.Aliases[i] = inStates + i
		size += s.Size()
	}
	weights := float64(m.In*m.Hidden[0] + m.Hidden[0]*m.Hidden[1] + m.Hidden[1]*m.Classes)
	k.FLOPs = float64(m.Steps*m.Batch) * (6*weights - 2*float64(m.In*m.Hidden[0]))
	k.Bytes = 8*float64(size) + float64(m.Steps*m.Batch*(m.In*x.DType.Size()+8))
	return k
}
