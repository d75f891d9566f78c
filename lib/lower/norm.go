package lower

import (
	"math"

	"github.com/gomlx/compute/dtypes"
)

// LookupProduct says whether the gradient of a lookup in a table of so many rows is a matrix
// multiplication with one-hot vectors: where a GPU would add up many 16-bit numbers in each row,
// one after another. It is exact, and always the same.
func LookupProduct(t Target, rows int, d dtypes.DType) bool {
	return !t.CPU() && rows <= lookupRows && (d == dtypes.BFloat16 || d == dtypes.Float16)
}

// NormKernel says whether rows are normalized by a kernel, one each way: XLA takes four passes
// forward and three backward. A block of the kernel holds whole rows.
func NormKernel(t Target, rows, width int, d dtypes.DType) bool {
	return t.Triton && width <= widestNorm && rows*width <= math.MaxInt32 && (d == dtypes.Float32 || d == dtypes.BFloat16 || d == dtypes.Float16)
}
