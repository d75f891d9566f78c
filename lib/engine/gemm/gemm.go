package gemm

// Target is the custom call's name, Platform XLA's of a CPU.
const (
	Target   = "gaiden.product"
	Platform = "Host"
)

// Sizes of gemm.c's blocks.
const (
	rows   = 12
	depth  = 384
	cols   = 512
	header = 64
)

// Scratch is the number of float32 that a product of an [m k] matrix works in: x packed,
// and a block of y for each thread.
func Scratch(m, k, threads int) int {
	return header + (m+rows)*k + 16 + threads*depth*cols
}

// Worthwhile says whether the product of [m k] and [k n] is faster so than XLA's.
func Worthwhile(m, n, k int) bool {
	return min(m, n, k) >= 128 && m*n*k >= 2e8
}
