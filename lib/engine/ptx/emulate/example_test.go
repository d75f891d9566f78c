package emulate_test

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/ptx/emulate"
)

// A kernel runs without a GPU, and what a GPU would let pass is an error.
func ExampleRun() {
	numbers := shapes.Make(dtypes.Float32, 1000)
	last := 1000
	next := ptx.Kernel{
		Name: "next", Blocks: 8, Threads: 128,
		Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers},
		Body: func(b *ptx.Block) {
			i := b.BlockID().Mul(128).Add(b.ThreadID())
			b.If(i.Less(last), func() {
				b.Output(0).At(i, 4).Store(0, b.Input(0).At(i, 4).Load(0).Float().Add(1))
			})
		},
	}
	x := make([]float32, 1000)
	x[0], x[999] = 5, 7
	out, err := emulate.Run(next, x)
	y := out[0].([]float32)
	fmt.Println(y[0], y[1], y[999], err)

	last = 1001
	_, err = emulate.Run(next, x)
	_, where, _ := strings.Cut(err.Error(), "; ") // it begins with the line of PTX
	fmt.Println(where)
	// Output:
	// 6 1 8 <nil>
	// block 7 thread 104: got 4 bytes at byte 4000 of input 0, want some of its 4000 bytes
}
