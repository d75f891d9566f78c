// Package lstm goes through the time steps of an LSTM's sequences on CPUs with AVX-512 or AVX2,
// inside XLA's programs: it is the target of a custom call, forwards
//
//	(z, biases, recurrent, h0, c0) → (h, c, gates, scratch)
//
// and backwards
//
//	(gates, recurrent, c0, c, v) → (dz, scratch)
//
// z [length n 4·units] is what the inputs give the gates (input, forget, cell, output), biases
// [4·units] and recurrent [units 4·units] the layer's, h0 and c0 [n units] the outputs and cells
// before the first time step; h and c [length n units] are those of all time steps, gates [length n
// 4·units] what the gates give. v is the gradient of h, dz that of what the gates get. gates may
// be z's memory, and dz gates'. scratch is [Scratch].
//
// XLA has a loop for it, whose body is a dozen calls, each for all sequences; and it reads the
// recurrent weights again at each time step. But sequences are independent: here each thread takes
// some of them through all time steps, with the weights in its own caches. Matmuls are computed in
// blocks whose sums stay in registers, 12 rows and 32 columns (AVX2: 6 and 16), from packed
// matrices (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). The
// order of each sum does not depend on which thread computes it, so any number of threads gives
// the same bits. tanh is the quotient of two polynomials that XLA and Eigen use, accurate to a few
// units of float32's last place; sigmoid(x) is ½·tanh(½x)+½.
//
// The session gives the plugin the first of its [Handlers], on Intel's processors with AVX-512
// and AMD's without.
//
// It is C, since no Go may run on XLA's threads, and checked in as what gcc made of it:
// c/assemble.go writes lstm_amd64.s, once for each set of instructions. So nobody needs a C
// compiler, nor cgo. After a change in c: go generate (gcc 12).
package lstm

//go:generate go run ./c/assemble.go
