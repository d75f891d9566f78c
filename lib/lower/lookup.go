package lower

import "github.com/gomlx/compute/dtypes"

// LookupProduct says whether the gradient of a lookup in a table of so many rows is a matrix
// multiplication with one-hot vectors: where a GPU would add up many 16-bit numbers in each row,
// one after another. It is exact, and always the same.
func LookupProduct(t Target, rows int, d dtypes.DType) bool {
	return !t.CPU() && rows <= lookupRows && (d == dtypes.BFloat16 || d == dtypes.Float16)
}
