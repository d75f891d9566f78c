package ptx

import (
	"fmt"

	"github.com/gomlx/compute"

	"gaiden/lib/engine/hlo"
)

// Target is XLA's name for calls of PTX kernels; only CUDA plugins have it.
const Target = "__gpu$xla.gpu.ptx"

// Call runs the kernel in a program: operands are the inputs. It returns the
// outputs.
func (k Kernel) Call(f *hlo.Function, operands ...compute.Value) ([]compute.Value, error) {
	text, err := k.Text()
	if err != nil {
		return nil, err
	}
	if len(operands) != len(k.Inputs) {
		return nil, fmt.Errorf("ptx: kernel %s: got %d operands, want %d inputs", k.Name, len(operands), len(k.Inputs))
	}
	for i, x := range operands {
		s, err := f.Shape(x)
		if err != nil {
			return nil, fmt.Errorf("ptx: kernel %s: operand %d: %w", k.Name, i, err)
		}
		if !s.Equal(k.Inputs[i]) {
			return nil, fmt.Errorf("ptx: kernel %s: operand %d is %s, want %s", k.Name, i, s, k.Inputs[i])
		}
	}
	return f.CustomCall(Target, operands, k.Outputs, hlo.CallConfig{
		Backend: map[string]any{
			"name": k.Name, "kernel_type": "ptx", "kernel_data": text,
			"grid_x": int32(k.Blocks), "grid_y": int32(1), "grid_z": int32(1),
			"block_x": int32(k.Threads), "block_y": int32(1), "block_z": int32(1),
			"shared_mem_bytes": int32(k.Shared),
		},
		Aliases: k.Aliases,
		Cost:    hlo.Cost{FLOPs: k.FLOPs, Bytes: k.Bytes},
	})
}
