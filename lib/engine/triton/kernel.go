package triton

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
)

// Kernel is a program for a grid of blocks. The zero value of each number is a
// choice.
type Kernel struct {
	Name string // letters, digits and _; profilers show it
	// Nameless kernels are not told in a program what they are for: kernels of one
	// text are compiled once, and a net has many of them.
	Nameless bool
	// Grid is the number of blocks along each axis; 0 is 1. There may be 2³¹-1 of them in all.
	Grid [3]int
	// Warps is how many warps of 32 threads work on a block: a power of two up
	// to 32; default: 4.
	Warps int
	// Stages is how many turns of a loop with Dot are in flight; default: 2.
	Stages int
	// Inputs and Outputs are the arrays that the kernel reads and writes.
	Inputs, Outputs []shapes.Shape
	// After are arrays that the kernel does not touch: it runs when they are
	// there.
	After []shapes.Shape
	// Aliases maps outputs to the inputs whose memory they are.
	Aliases map[int]int
	// Partly are aliased outputs of which a kernel stores some elements only: the
	// others are as they were.
	Partly []int
	// Takes is how many elements a kernel reads of an input that it picks from, by
	// the input's number; default: all.
	Takes map[int]int
	// FLOPs is what the kernel counts for in a program's costs.
	FLOPs float64
	// Body says what a block does. It may panic through the methods of Block
	// and Value only.
	Body func(b *Block)
}

// Launched is the grid that the device is given. It is Grid, or one axis of all blocks where
// CUDA's second or third axis is too short.
func (k Kernel) Launched() [3]int {
	const longest = 65535
	g := k.Grid
	for i := range g {
		g[i] = max(1, g[i])
	}
	if max(g[1], g[2]) > longest {
		return [3]int{g[0] * g[1] * g[2], 1, 1}
	}
	return g
}

// Text is the kernel as a Triton IR module. One kernel always has one text. Its
// error is an *Error.
func (k Kernel) Text() (text string, err error) {
	b := &Block{kernel: &k, constants: map[string]Value{}, stored: map[string]bool{}}
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
	b.open = &region{}
	b.parameters()
	k.Body(b)
	for i, o := range b.outputs {
		if !b.stored[o.base] {
			return "", &Error{Kernel: k.Name, Text: fmt.Sprintf("nothing is stored to output %d, want a Store", i)}
		}
	}
	return b.text(), nil
}

func (k *Kernel) check() error {
	fail := func(format string, args ...any) error {
		return &Error{Kernel: k.Name, Text: fmt.Sprintf(format, args...)}
	}
	if k.Name == "" || strings.Trim(strings.ToLower(k.Name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || k.Name[0] >= '0' && k.Name[0] <= '9' {
		return fail("name is %q, want letters, digits and _", k.Name)
	}
	if k.Body == nil {
		return fail("it has no Body, want a function of a Block")
	}
	blocks := 1.0
	for axis, n := range k.Grid {
		if n < 0 {
			return fail("grid axis %d has %d blocks, want 1 or more", axis, n)
		}
		blocks *= float64(max(1, n))
	}
	if blocks > math.MaxInt32 {
		return fail("the grid %v has %g blocks, want less than 2³¹", k.Grid, blocks)
	}
	if k.warps() > 32 || !isPowerOfTwo(k.warps()) {
		return fail("got %d warps, want 1, 2, 4, 8, 16 or 32", k.Warps)
	}
	if k.stages() < 1 || k.stages() > 16 {
		return fail("got %d stages, want 1 to 16", k.Stages)
	}
	if len(k.Outputs) == 0 {
		return fail("it has no outputs, want at least one")
	}
	for role, all := range map[string][]shapes.Shape{"input": k.Inputs, "output": k.Outputs, "after": k.After} {
		for i, s := range all {
			switch {
			case memory(s.DType) == "" && role != "after":
				return fail("%s %d is %s, want elements of bool, uint8, int32, int64, float32, bfloat16 or float16", role, i, s)
			case s.Size() == 0 && role != "after":
				return fail("%s %d is %s, which has no elements, want some", role, i, s)
			case s.Size() > math.MaxInt32:
				return fail("%s %d is %s, want less than 2³¹ elements: indices are int32", role, i, s)
			}
		}
	}
	if err := hlo.CheckAliases(k.Aliases, k.Inputs, k.Outputs); err != nil {
		return fail("%v", err)
	}
	for in, n := range k.Takes {
		if in < 0 || in >= len(k.Inputs) || n < 0 || n > k.Inputs[in].Size() {
			return fail("it takes %d elements of input %d, want one of %d inputs and no more than it has", n, in, len(k.Inputs))
		}
	}
	for _, out := range k.Partly {
		if _, is := k.Aliases[out]; !is {
			return fail("output %d is partly stored, want one with an alias", out)
		}
	}
	return nil
}

// bytes is what the kernel reads and writes at least: its inputs and outputs, each
// once. Partly stored outputs are left out, and the inputs that they were.
func (k *Kernel) bytes() float64 {
	left := map[int]bool{}
	for _, out := range k.Partly {
		left[k.Aliases[out]] = true
	}
	n := 0.0
	for i, s := range k.Inputs {
		size, picked := k.Takes[i]
		if !picked {
			size = s.Size()
		}
		if !left[i] {
			n += float64(size) * float64(s.DType.Size())
		}
	}
	for i, s := range k.Outputs {
		if !slices.Contains(k.Partly, i) {
			n += float64(s.ByteSize())
		}
	}
	return n
}

func (k *Kernel) warps() int {
	if k.Warps == 0 {
		return 4
	}
	return k.Warps
}

func (k *Kernel) stages() int {
	if k.Stages == 0 {
		return 2
	}
	return k.Stages
}
