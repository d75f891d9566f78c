// Package ptx writes GPU kernels from Go as PTX, NVIDIA's assembly, which an XLA
// CUDA plugin loads inside a program. It is for what Triton has no words for:
// kernels whose blocks stay on their processors, keep arrays in registers, and wait
// for each other, or read one array in shared memory in many ways. All else is better said
// in package triton.
//
// A kernel is a Go function. It is run once, on the host, and says what one thread
// does. This adds one to each of 1,000 numbers:
//
//	numbers := shapes.Make(dtypes.Float32, 1000)
//	next := ptx.Kernel{
//		Name: "next", Blocks: 8, Threads: 128,
//		Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers},
//		Body: func(b *ptx.Block) {
//			i := b.BlockID().Mul(128).Add(b.ThreadID())
//			b.If(i.Less(1000), func() {
//				b.Output(0).At(i, 4).Store(0, b.Input(0).At(i, 4).Load(0).Float().Add(1))
//			})
//		},
//	}
//	text, err := next.Text()
//
// # Values
//
// A [Value] is a register of each thread: a 32-bit integer without sign or a float32,
// which the same register can hold, an address of 64 bits, or a condition. Methods
// make new registers; [Block.Var] makes one that [Block.Set] changes, for what a loop
// carries. Go numbers stand for constants. Addresses count bytes. What is made inside of an
// If or a For stays in there.
//
// # Blocks that wait for each other
//
// [Block.Arrive] counts up in memory once all that the block has stored is there, and
// [Block.Await] waits until enough have come. What is awaited must run at the same time:
// a kernel that uses them has no more blocks than the device has processors, and
// the caller makes sure of that. A block that waits for some seconds ends the
// program with an error, so that a mistake is no hang.
//
// # What it refuses
//
// The types of operands are checked here, and an [Error] names the line of Go. Addresses
// are not checked by anybody. The package knows XLA's call of PTX kernels and
// nothing of graphs and nets; of the packages beside it, resident has a kernel for a net,
// and convolution two for a layer.
package ptx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
)

// Kernel is a program for a number of blocks of threads.
type Kernel struct {
	Name string // letters, digits and _; profilers show it
	// Blocks is how many there are, and Threads how many a block has: a multiple
	// of 32, up to 1,024.
	Blocks, Threads int
	// Shared is the bytes of memory that a block's threads share, up to
	// LargestShared.
	Shared int
	// Inputs and Outputs are the arrays that the kernel reads and writes.
	Inputs, Outputs []shapes.Shape
	// Aliases maps outputs to the inputs whose memory they are.
	Aliases map[int]int
	// FLOPs and Bytes are what the kernel counts for in a program's costs.
	FLOPs, Bytes float64
	// Body says what a thread does. It may panic through the methods of Block
	// and Value only.
	Body func(b *Block)
}

// LargestShared is what a block can have on a GPU of compute capability 9.0.
const LargestShared = 227 << 10

// Text is the kernel as PTX. One kernel always has one text. Its error is an *Error.
func (k Kernel) Text() (text string, err error) {
	b := &Block{kernel: &k}
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(*Error)
			if !is {
				e = &Error{Kernel: k.Name, Text: fmt.Sprintf("its Body panicked: %v", r)}
			}
			text, err = "", e
		}
	}()
	if err := k.check(); err != nil {
		return "", err
	}
	k.Body(b)
	return b.text(), nil
}

func (k *Kernel) check() error {
	fail := func(format string, args ...any) error {
		return &Error{Kernel: k.Name, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case k.Name == "" || strings.Trim(strings.ToLower(k.Name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || k.Name[0] >= '0' && k.Name[0] <= '9':
		return fail("name is %q, want letters, digits and _", k.Name)
	case k.Body == nil:
		return fail("it has no Body, want a function of a Block")
	case k.Blocks < 1 || k.Blocks > math.MaxInt32:
		return fail("got %d blocks, want one or more", k.Blocks)
	case k.Threads < 32 || k.Threads > 1024 || k.Threads%32 != 0:
		return fail("got %d threads, want a multiple of 32 up to 1,024", k.Threads)
	case k.Shared < 0 || k.Shared > LargestShared:
		return fail("got %d bytes of shared memory, want up to %d", k.Shared, LargestShared)
	case len(k.Outputs) == 0:
		return fail("it has no outputs, want at least one")
	}
	if err := hlo.CheckAliases(k.Aliases, k.Inputs, k.Outputs); err != nil {
		return fail("%v", err)
	}
	return nil
}

// text puts the instructions between their declarations.
func (b *Block) text() string {
	k := b.kernel
	var s strings.Builder
	fmt.Fprintf(&s, "// %s: %d blocks of %d threads, %d bytes shared\n", k.Name, k.Blocks, k.Threads, k.Shared)
	s.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n\n.extern .shared .align 16 .b8 shared[];\n\n")
	fmt.Fprintf(&s, ".visible .entry %s(", k.Name)
	for i := range len(k.Inputs) + len(k.Outputs) {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, ".param .u64 p%d", i)
	}
	fmt.Fprintf(&s, ")\n.maxntid %d, 1, 1\n.minnctapersm 1\n{\n", k.Threads)
	for _, kind := range []kind{word, address, condition} {
		if n := b.registers[kind]; n > 0 {
			fmt.Fprintf(&s, "\t.reg .%s %%%s<%d>;\n", declared[kind], prefix[kind], n)
		}
	}
	for _, line := range slices.Concat(b.head, b.lines) {
		if !strings.HasSuffix(line, ":") {
			s.WriteString("\t")
		}
		s.WriteString(line + "\n")
	}
	s.WriteString("\tret;\n}\n")
	return s.String()
}
