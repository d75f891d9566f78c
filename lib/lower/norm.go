package lower

import (
	"math"

	"github.com/gomlx/compute/dtypes"
)

// NormKernel says whether rows of so many numbers in all are normalized by a kernel, one each
// way: XLA takes four passes forward and three backward.
func NormKernel(t Target, size int, d dtypes.DType) bool {
	return t.Triton && size <= math.MaxInt32 && (d == dtypes.Float32 || d == dtypes.BFloat16 || d == dtypes.Float16)
}

// ActivationKernel says whether so many numbers get biases and an activation by a kernel: XLA's
// functions have more digits than 16 bits do, and cost more time than memory does.
func ActivationKernel(t Target, size int, d dtypes.DType) bool {
	return t.Triton && size >= leastActivation && size <= math.MaxInt32 && (d == dtypes.BFloat16 || d == dtypes.Float16)
}
