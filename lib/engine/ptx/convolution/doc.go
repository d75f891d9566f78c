// Package convolution has GPU kernels for convolutions of images that have room in a
// processor's shared memory: one there, with bias, activation and pooling, and one back,
// with both gradients.
//
//	k := convolution.Back{Geometry: g, Act: kernels.ReLU}
//	if k.Fits() {
//		out, err := k.Kernel().Call(f, operands...)
//	}
//
// A block is one image. It reads image, weights and gradient once. cuDNN's kernels for the
// second convolution of Keras's example net, and what XLA puts around them, read and write
// all of it several times.
//
// # Numbers
//
// Factors are rounded to Float16, whose ten digits after the point are those of TF32,
// after they were multiplied with a power of two, such that the largest of an image, of
// its gradient, and of the weights is between 2¹⁴ and 2¹⁵. What is 2²⁸ times smaller than the
// largest has fewer digits, and the same error as the digits of that one. Sums are
// float32. With Brain all is BFloat16, and nothing is multiplied. An infinity anywhere
// makes NaNs.
//
// # How a block goes
//
//	image, weights, gradient               from memory to registers
//	shared memory                          zeros, for what is around them
//	their largest                          by all threads
//	image, weights, gradient               rounded, to shared memory; gradients of
//	                                       pooling where the winners were
//	there: image · weights                 over all taps; the places of a pooling window are
//	                                       one thread's
//	back: imageᵀ · gradient                for each tap: the gradient of the weights
//	gradient · weightsᵀ                    over all taps: the gradient of the image
//
// Threads read whole matrices of eight rows from shared memory (ldmatrix), whose rows may be
// anywhere at a multiple of 16 bytes: a tap is another address.
//
// # What it refuses
//
// Fits says what has room: an even number of input channels, a multiple of 4 of output
// channels, up to 227 KiB for image, weights and gradient of 16 bits.
package convolution
