package gemm

// Target is the custom call's name, Platform XLA's of a CPU.
const (
	Target   = "gaiden.product"
	Platform = "Host"
)

// Sizes of gemm.c's blocks.
const (
	rows   = 12
	depth  = 512
	cols   = 256
	header = 64
)

// Scratch is the number of float32 that a product of an [m k] matrix works in: x packed,
// and for each thread a block of y and the sums of as many columns.
func Scratch(m, k, threads int) int {
	return header + (m+rows)*k + 16 + threads*cols*(depth+m+rows)
}

// Worthwhile says whether the product of [m k] and [k n] is faster so than XLA's. Those of
// the FCN are, the least of which is of 1,024, 784 and 2,048; smaller ones, such as those of
// the MLP, Keras' CNN and the LSTM of 128 units, were as fast or slower, by up to 17 %.
func Worthwhile(m, n, k int) bool {
	return min(m, n, k) >= 256 && m*n*k >= 1e9
}
