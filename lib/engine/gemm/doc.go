// Package gemm multiplies matrices of float32 on CPUs with AVX-512 or AVX2, inside XLA's
// programs: it is the target of a custom call,
//
//	(x, y) → (product [m n], scratch [Scratch(m, k, threads)])
//
// x is [m k], or [k m] with the attribute ta = 1; y is [k n], or [n k] with tb = 1.
// With two to four more operands it is the step of a weight [m n] whose gradient is that
// product: the gradient is used number by number, and never written,
//
//	(x, y, knobs, w) → (w', scratch)                 SGD
//	(x, y, knobs, w, v) → (w', v', scratch)          momentum
//	(x, y, knobs, w, v, u) → (w', v', u', scratch)   Adam
//
// knobs are seven numbers, rate k1 l1 k2 l2 scale least: v' = k1·v + l1·g, u' = k2·u + l2·g²,
// and w' = w - rate·g, or w - rate·v', or w - rate·v' / (scale·√u' + least). The results may
// be the operands' memory. scratch is [StepScratch].
//
// The session gives the plugin the first of its [Handlers]; package hlo writes the call in place of
// stablehlo.dot_general where that is [Worthwhile].
//
// The loops are those of Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008): depths of 512 whose panels stay in the caches, y's columns in L2,
// x's rows in L1, and the sums of 12 rows and 32 columns in registers (AVX2: 6 and 16). All of
// x is packed first, by whichever of XLA's threads comes; then each takes columns of the
// product, fewer towards the end, and keeps their sums next to each other until the last depth:
// rows of the product itself may lie where they drive each other out of the caches. Who takes
// what does not change the order of a sum: any number of threads gives the same bits. No thread
// waits for one that has not started.
//
// It is C, since no Go may run on XLA's threads, and checked in as what gcc made of it:
// c/assemble.go writes gemm_amd64.s, once for each set of instructions. So nobody needs a C
// compiler, nor cgo. After a change in c: go generate (gcc 12). Package lstm has its blocks.
//
// Sessions use it on Intel's processors with AVX-512 and AMD's without, where it is as fast as
// MKL and faster than XLA's matmuls; it was not measured on others.
//
// A step whose y is small is done by rows, 12 at a time (AVX2: 24): while their sums are
// computed, the next rows of the weight and of Adam's moments are fetched, and memory is read
// once, in order. AMD's processors are slow to store part of a vector, so only the end of a row
// is stored that way.
package gemm

//go:generate go run ./c/assemble.go gemm product
