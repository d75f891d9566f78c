// Package convolution has a GPU kernel that takes a convolution backwards, for images
// that have room in a processor's shared memory.
//
//	k := convolution.Back{Geometry: g, Act: kernels.ReLU}
//	if k.Fits() {
//		out, err := k.Kernel().Call(f, operands...)
//	}
//
// A block is one image. It reads image, gradient and weights once, and has both
// gradients of them: of the weights, as a part of a sum over the images, and of the
// image. cuDNN's kernels for the second convolution of Keras's example net, and what XLA
// puts around them, read and write all of it several times.
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
//	image, gradient, weights                     from memory to registers
//	shared memory                                zeros, for what is around them
//	their largest                                by all threads
//	image, gradient, weights                     rounded, to shared memory; gradients of
//	                                             pooling where the winners were
//	image [places]ᵀ · gradient [places out]      for each tap: the gradient of the weights
//	gradient [places+tap out] · weights [out in] over all taps: the gradient of the image
//
// Threads read whole matrices of eight rows from shared memory (ldmatrix), whose rows may be
// anywhere at a multiple of 16 bytes: a tap is another address.
//
// # What it refuses
//
// [Back.Fits] says what has room: an even number of input channels, a multiple of 4 of output
// channels, up to 227 KiB for image, gradient and weights of 16 bits.
package convolution

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// Back is the gradient of a convolution's input, weights and biases.
//
//	inputs:  x [batch height width in], g [batch height' width' out], w [size size in out] float32,
//	         winner, like g, uint8, with pooling
//	outputs: d [batch height width in], parts [batch size·size·in+1 out] float32
//
// g is the gradient before the convolution's own activation and behind its pooling, d
// that before the activation Act that made x. Each of parts is of one image; the last
// row is that of the biases. Adding them up is kernels.PartsUpdate's.
type Back struct {
	kernels.Geometry
	Act   kernels.Act // what made x
	Brain bool        // x, g, d and factors are BFloat16; else they are float32, and factors Float16
}

// A block has twelve warps, three on each quarter of a processor.
const (
	warps   = 12
	threads = 32 * warps
)

// most is how many registers of a thread hold what it has loaded or adds up.
const most = 144

// Fits says whether the sizes are such that there is a kernel.
func (k Back) Fits() bool {
	height, width := k.Result()
	return height > 0 && width > 0 && k.In > 0 && k.In%2 == 0 && k.Out > 0 && k.Out%4 == 0 && k.Out <= threads && threads%(k.Out/4) == 0 && k.Pad >= 0 && k.Pad < k.Size &&
		k.loads(k.image())*k.vector()+k.loads(k.gradient())*5+k.loads(k.kernels())*4 <= most &&
		k.split().sums() <= most && k.deep().sums() <= most && k.places().bytes <= ptx.LargestShared
}

// Kernel is the kernel of these sizes.
func (k Back) Kernel() ptx.Kernel {
	element := dtypes.Float32
	if k.Brain {
		element = dtypes.BFloat16
	}
	height, width := k.Result()
	x := shapes.Make(element, k.Batch, k.Height, k.Width, k.In)
	g := shapes.Make(element, k.Batch, height, width, k.Out)
	w := shapes.Make(dtypes.Float32, k.Size, k.Size, k.In, k.Out)
	parts := shapes.Make(dtypes.Float32, k.Batch, k.Size*k.Size*k.In+1, k.Out)
	in, size := []shapes.Shape{x, g, w}, element.Size()
	if k.Pool {
		winner := g
		winner.DType = dtypes.Uint8
		in, size = append(in, winner), size+1
	}
	imageHeight, imageWidth := k.Image()
	return ptx.Kernel{
		Name: "conv_back_" + k.Act.String(), Blocks: k.Batch, Threads: threads, Shared: k.places().bytes,
		Inputs: in, Outputs: []shapes.Shape{x, parts},
		FLOPs: 4 * float64(k.Batch*imageHeight*imageWidth) * float64(k.Size*k.Size*k.In*k.Out),
		Bytes: float64(2*x.Size()*element.Size() + g.Size()*size + 4*w.Size() + 4*parts.Size()),
		Body:  func(b *ptx.Block) { newWriter(b, k).all() },
	}
}

// image, gradient and kernels are how many numbers a block loads of each, in the units
// in which it does.
func (k Back) image() int   { return k.Height * k.Width * k.In / k.vector() }
func (k Back) kernels() int { return k.Size * k.Size * k.In * k.Out / 4 }
func (k Back) gradient() int {
	height, width := k.Result()
	return height * width * k.Out / 4
}

// vector is how many numbers of the image a thread loads at once.
func (k Back) vector() int {
	if k.In%4 == 0 {
		return 4
	}
	return 2
}

// loads is how many of n a thread has.
func (k Back) loads(n int) int { return (n + threads - 1) / threads }
