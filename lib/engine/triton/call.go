package triton

import (
	"fmt"

	"github.com/gomlx/compute"

	"gaiden/lib/engine/hlo"
)

// Target is XLA's name for calls of Triton kernels; only CUDA plugins have it.
const Target = "__gpu$xla.gpu.triton"

// Call runs the kernel in a program: operands are the inputs, then those of
// After. It returns the outputs. In the program the kernel's name ends in what it
// is for, linear_relu__l1_forward: inside of CUDA graphs a profiler knows nothing
// else of it.
func (k Kernel) Call(f *hlo.Function, operands ...compute.Value) ([]compute.Value, error) {
	if label := f.Label(); label != "" && !k.Nameless {
		k.Name += "__" + hlo.Symbol(label)
	}
	text, err := k.Text()
	if err != nil {
		return nil, err
	}
	want := append(k.Inputs[:len(k.Inputs):len(k.Inputs)], k.After...)
	if len(operands) != len(want) {
		return nil, fmt.Errorf("triton: kernel %s: got %d operands, want %d inputs and %d to come after", k.Name, len(operands), len(k.Inputs), len(k.After))
	}
	for i, x := range operands {
		s, err := f.Shape(x)
		if err != nil {
			return nil, fmt.Errorf("triton: kernel %s: operand %d: %w", k.Name, i, err)
		}
		if !s.Equal(want[i]) {
			return nil, fmt.Errorf("triton: kernel %s: operand %d is %s, want %s", k.Name, i, s, want[i])
		}
	}
	grid := k.Launched()
	return f.CustomCall(Target, operands, k.Outputs, hlo.CallConfig{
		Backend: map[string]any{
			"name": k.Name, "ir": text,
			"grid_x": int32(grid[0]), "grid_y": int32(grid[1]), "grid_z": int32(grid[2]),
			"num_warps": int32(k.warps()), "num_stages": int32(k.stages()),
		},
		Aliases: k.Aliases,
		Cost:    hlo.Cost{FLOPs: k.FLOPs, Bytes: k.bytes()},
	})
}
