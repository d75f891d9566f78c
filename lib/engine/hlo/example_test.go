package hlo_test

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
)

// A program is built op by op; its text is what the session compiles.
func Example() {
	b := hlo.NewBuilder(nil, "step", func(p *hlo.Program) (compute.Executable, error) {
		fmt.Printf("%s", p.Text([]bool{true, false})) // w is replaced, x is kept
		fmt.Println(p.FLOPs(), "FLOPs")
		return nil, nil
	})
	f := b.Main()
	w, _ := f.Parameter("w", shapes.Make(dtypes.Float32, 3), nil)
	x, _ := f.Parameter("x", shapes.Make(dtypes.Float32, 3), nil)
	rate, _ := f.Constant([]float32{0.1})
	b.SetLabel("update")
	delta, _ := f.Mul(x, rate)
	sum, _ := f.Sub(w, delta)
	_ = f.Return([]compute.Value{sum}, nil)
	if _, err := b.Compile(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// module @m {
	//   func.func public @main(%arg0: tensor<3xf32> {jax.buffer_donor = true}, %arg1: tensor<3xf32>) -> (tensor<3xf32>) {
	//     %0 = stablehlo.constant dense<0.1> : tensor<3xf32>
	//     %1 = stablehlo.multiply %arg1, %0 : tensor<3xf32> loc(#l0)
	//     %2 = stablehlo.subtract %arg0, %1 : tensor<3xf32> loc(#l0)
	//     return %2 : tensor<3xf32>
	//   }
	// }
	// #l0 = loc("update")
	// 6 FLOPs
}
