package gemm

// Target is the custom call's name, Platform XLA's of a CPU.
const (
	Target   = "gaiden.product"
	Platform = "Host"
)

// Handler is a C function for a custom call.
type Handler struct {
	Bits  int     // of its vectors: 512 (AVX-512) or 256 (AVX2)
	Entry uintptr // its address, an XLA_FFI_Handler
}

// Rows and Panel are how many rows and columns a block has, Panel two vectors: AVX-512's, which
// are the larger.
const (
	Rows  = 12
	Panel = 32
)

// Sizes of what gemm.c has besides that, the larger where AVX-512's and AVX2's differ.
const (
	depth  = 512
	cols   = 256
	header = 64
	wide   = 131072
	tall   = 24
)

// Scratch is the number of float32 that a product of an [m k] matrix works in: x packed,
// and for each thread a block of y and the sums of as many columns.
func Scratch(m, k, threads int) int {
	return header + (m+Rows)*k + 16 + threads*cols*(depth+m+Rows)
}

// Worthwhile says whether the matmul of [m k] and [k n] is faster than XLA's on this
// processor. With AVX-512 only large ones are; with AVX2 also those of at least 100 rows.
func Worthwhile(m, n, k int) bool { return worthwhile(widest, m, n, k) }

// widest are the bits of the processor's vectors, 0 where there is no handler for it.
var widest = func() int {
	for _, h := range Handlers() {
		return h.Bits
	}
	return 0
}()

func worthwhile(bits, m, n, k int) bool {
	least := min(m, n, k)
	middle := m + n + k - least - max(m, n, k)
	return least >= 256 && m*n*k >= 1e9 || bits == 256 && least >= 100 && middle >= 768
}

// StepScratch is Scratch for the step of an [m n] weight whose gradient is summed over k.
func StepScratch(m, n, k, threads int) int {
	if !whole(n, k) {
		return Scratch(m, k, threads)
	}
	n = (n + Panel - 1) / Panel * Panel
	return header + n*k + 16 + threads*(tall*k+16+tall*n)
}

// whole says whether a step has all of y in a thread's cache, and so goes through the weight
// row by row.
func whole(n, k int) bool { return k <= depth && n*k <= wide }

// StepWorthwhile says whether a step is faster as one call than as a matmul and XLA's passes
// over the weight: where all of y is in the cache, or the matmul is package gemm's anyway.
func StepWorthwhile(m, n, k int) bool {
	return Worthwhile(m, n, k) || min(m, n, k) >= 32 && m*n >= 1<<17 && whole(n, k)
}
