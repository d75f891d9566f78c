package kernels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/optim"
)

// TestBytes holds what kernels count for in a program: of the examples and their
// order a batch, of a table the kernel's row at most, and all else once.
func TestBytes(t *testing.T) {
	const w, b = 784 * 1000, 1000 // weights and biases
	update := LinearUpdate{Batch: 100, In: 784, Out: 1000}
	for _, tt := range []struct {
		name   string
		kernel triton.Kernel
		bytes  float64
	}{
		{"dense layer", Linear{Batch: 100, In: 784, Out: 1000, Act: ReLU}.Kernel(), 4 * (100*784 + w + b + 100*1000)},
		{"batches", Gather{Examples: 60000, Size: 784, Batch: 100, Steps: 10, X: dtypes.Uint8}.Kernel(),
			3*4 + 1000*(4+784+4) + 10*(100*(4*784+4)+4)},
		{"update", Group{Members: []Member{update, Tally{Batch: 100, Rows: 8192}}, Rule: optim.Adam{}.Rule(), After: []shapes.Shape{shapes.Make(dtypes.Float32, 5000)}}.Kernel(),
			4 * (100*(784+1000) + 2*3*(w+b) + 2 + 100*2)}, // each state is read and written; rate and t; loss and hit
		{"gradient", Group{Members: []Member{update}}.Kernel(), 4 * (100*(784+1000) + w + b)},
	} {
		builder := hlo.NewBuilder(nil, "p", nil)
		f := builder.Main().(*hlo.Function)
		var operands []compute.Value
		for i, s := range slices.Concat(tt.kernel.Inputs, tt.kernel.After) {
			x, err := f.Parameter(fmt.Sprint("p", i), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			operands = append(operands, x)
		}
		out, err := tt.kernel.Call(f, operands...)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Return(out, nil); err != nil {
			t.Fatal(err)
		}
		p, err := builder.Program()
		if err != nil {
			t.Fatal(err)
		}
		calls := p.Calls()
		if len(calls) != 1 || calls[0].Name != tt.kernel.Name || calls[0].Bytes != tt.bytes || calls[0].FLOPs != tt.kernel.FLOPs {
			t.Errorf("%s: got %+v, want one call of %s with %g bytes", tt.name, calls, tt.kernel.Name, tt.bytes)
		}
	}
}
