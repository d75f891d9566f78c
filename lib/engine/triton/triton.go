// Package triton writes GPU kernels from Go, as Triton IR text that an XLA CUDA
// plugin compiles inside a program. No Python, no nvcc and no cgo take part.
//
// A kernel is a Go function. It is run once, on the host, and says what one
// block of the grid does with whole tiles of numbers; Triton divides the tiles
// among the block's threads, and chooses registers and shared memory. This adds
// two vectors, 128 elements a block:
//
//	vector := shapes.Make(dtypes.Float32, 1000)
//	add := triton.Kernel{
//		Name: "add", Grid: [3]int{triton.Blocks(1000, 128)},
//		Inputs: []shapes.Shape{vector, vector}, Outputs: []shapes.Shape{vector},
//		Body: func(b *triton.Block) {
//			i := b.ProgramID(0).Mul(128).Add(b.Range(128)) // which elements
//			in := i.Less(1000)                             // and which of them exist
//			x := b.Input(0).At(i).LoadIf(in, 0)
//			y := b.Input(1).At(i).LoadIf(in, 0)
//			b.Output(0).At(i).StoreIf(in, x.Add(y))
//		},
//	}
//	text, err := add.Text()             // Triton IR, readable and always the same
//	sum, err := add.Call(f, x, y)       // in a program; f is an *hlo.Function
//
// # Values
//
// A [Value] is a scalar or a tile of bool, int32, int64, float32, bfloat16,
// float16 (uint8 to load and store), or of pointers to such. Sides of tiles are
// powers of two. Go numbers stand for constants of the other operand's type. A
// scalar is spread over a tile, and a side of 1 over a longer one; ranks must be
// equal, so a row is made with Expand(0) and a column with Expand(1). Element
// types are changed by To and nothing else.
//
// Nothing checks an index: a Load or Store that may leave its array needs a
// mask. Blocks run in any order and at once: no block may read what another
// writes. Kernels run in the order of the program's data.
//
// # In place
//
// [Kernel.Aliases] makes an output the same memory as an input, so an optimizer
// can replace its state. Whoever else reads the old value must come first; XLA
// sees that when it is an operand in [Kernel.After], or copies.
//
// # What it refuses
//
// Every shape and type is checked here, before anything is sent, because a
// malformed kernel ends the process that compiles it: an [Error] names the
// kernel, the op and the line of Go. The package knows XLA's call of Triton
// kernels and nothing of graphs, gradients or devices; package kernels, in a folder of
// it, has kernels for nets, and package fused what graphs say to call them.
package triton
