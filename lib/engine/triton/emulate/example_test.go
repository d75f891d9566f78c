package emulate_test

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/emulate"
)

// A kernel runs without a GPU, block by block, and what a GPU would let pass is
// an error.
func Example() {
	vector := shapes.Make(dtypes.Float32, 3)
	add := triton.Kernel{Name: "add", Grid: [3]int{1}, Inputs: []shapes.Shape{vector, vector}, Outputs: []shapes.Shape{vector},
		Body: func(b *triton.Block) {
			i := b.Range(4)
			here := i.Less(3)
			b.Output(0).At(i).StoreIf(here, b.Input(0).At(i).LoadIf(here, 0).Add(b.Input(1).At(i).LoadIf(here, 0)))
		}}
	fmt.Println(emulate.Run(add, []float64{1, 2, 3}, []float64{10, 20, 30}))

	add.Body = func(b *triton.Block) { b.Output(0).At(b.Range(4)).Store(b.Input(0).At(b.Range(4)).Load()) }
	_, err := emulate.Run(add, []float64{1, 2, 3}, []float64{10, 20, 30})
	fmt.Println(err)
	// Output:
	// [[11 22 33]] <nil>
	// emulate: kernel add: block [0 0 0]: load at 3 of %in0, which has 3 elements in %6 = tt.load %5 : tensor<4x!tt.ptr<f32>>
}
