package ptx_test

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
)

// What does not fit is told with its line.
func ExampleError() {
	numbers := shapes.Make(dtypes.Float32, 1000)
	k := ptx.Kernel{Name: "next", Blocks: 8, Threads: 128, Outputs: []shapes.Shape{numbers}, Body: func(b *ptx.Block) {
		b.Output(0).Store(0, b.ThreadID().Add(b.F32(1)))
	}}
	_, err := k.Text()
	fmt.Println(err)
	// Output: ptx: kernel next: example_test.go:16: got a float32, want an integer
}
