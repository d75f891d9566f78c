package lower

import "github.com/gomlx/compute/dtypes"

// Algorithm is how a convolution is computed.
type Algorithm int

const (
	// Library is XLA's convolution, but for what Split says.
	Library Algorithm = iota
	// Patches multiplies a matrix of image patches with the weights.
	Patches
	// Winograd needs fewer multiplications, for kernels from 3×3 to 5×5 and stride 1 in
	// float32.
	Winograd
	// WholeImage is one product with a matrix in which each output has the weights that
	// lie over the image: each output sees all of it.
	WholeImage
)

// Convolution is the shape of a convolution with square kernels.
type Convolution struct {
	Images   [4]int // n, height, width, channels
	Channels int    // of the output
	Kernel   int
	Stride   int
	Pads     [2][2]int // of height and width, before and after
	DType    dtypes.DType
}

// Choice is how one convolution is computed.
type Choice struct {
	Algorithm Algorithm
	Tile      int   // of Winograd: outputs a side
	Split     Split // of Library
	// In and Out are the channels of Library with those of zeros; 0: there are none.
	In, Out int
}

// Split says which of a convolution's three results are matrix multiplications in place of
// XLA's convolutions. Output needs Weights.
type Split struct {
	Output        bool // by blocks
	Image, Rows   bool // the images' gradient, by taps or along rows
	Weights, Taps bool // the weights' gradient, by blocks or by taps
	// Parts is how many parts of the batch the weights' gradient is the sum of, where
	// XLA's convolution computes it.
	Parts int
}

// Out is the height (0) or width (1) of the output.
func (c Convolution) Out(i int) int {
	return (c.Images[1+i]+c.Pads[i][0]+c.Pads[i][1]-c.Kernel)/c.Stride + 1
}

// Choose decides how the convolution is computed.
func (c Convolution) Choose(t Target, o Options) Choice {
	switch {
	case o.Convolution != nil:
		return o.Convolution(c)
	case c.seesAll():
		return Choice{Algorithm: WholeImage}
	case c.patches(t, o):
		return Choice{Algorithm: Patches}
	case t.CPU() && !o.OneDNN && c.winograd():
		return Choice{Algorithm: Winograd, Tile: c.tile()}
	}
	choice := Choice{Algorithm: Library, Split: c.split(t, o)}
	if in, out := c.aligned(t, c.Images[3]), c.aligned(t, c.Channels); !choice.Split.Output && (in > c.Images[3] || out > c.Channels) {
		choice.In, choice.Out = in, out
	}
	return choice
}

// aligned is a number of channels, and zeros until an image's point has whole words of 16 bytes, where
// they are a quarter at most. cuDNN would add them in passes of its own, or choose an algorithm
// without tensor cores; XLA adds them where the operands are computed.
func (c Convolution) aligned(t Target, channels int) int {
	word := 16 / c.DType.Size()
	if all := (channels + word - 1) / word * word; t.Triton && 4*(all-channels) <= all {
		return all
	}
	return channels
}

// seesAll says whether each output sees the whole image. Libraries take such an image for
// a kernel, transpose both, and multiply the padding, too.
func (c Convolution) seesAll() bool {
	for i, p := range c.Pads {
		side := c.Images[1+i]
		last := (side + p[0] + p[1] - c.Kernel) / c.Stride * c.Stride // where the last window begins, in the padded image
		if p[0] < last || side+p[0] > c.Kernel {
			return false
		}
	}
	return true
}

// patches: on a GPU matrix multiplications of patches are faster for few input channels, on a CPU for
// small kernels with a stride, whose gradients XLA computes in slow loops. A kernel of 1×1
// is a product anyway.
func (c Convolution) patches(t Target, o Options) bool {
	switch {
	case c.Channels == 1 && o.OneDNN:
		return true // its weights' gradient is wrong for kernels of 1×1 (plugin 0.11.2)
	case c.Kernel > patchesKernel:
		return false
	case c.Stride > 1:
		return c.Kernel <= stridedKernel && t.CPU()
	case c.Kernel == 1:
		return true
	}
	numbers := c.Images[0] * c.Out(0) * c.Out(1) * c.Kernel * c.Kernel * c.Images[3]
	return c.Images[3] <= FewChannels && numbers <= largestPatches && !t.CPU()
}

// winograd: Winograd's algorithm is faster on a CPU where there is much to compute.
func (c Convolution) winograd() bool {
	work := 2 * float64(c.Images[0]) * float64(c.Images[3]*c.Channels) * float64(c.Kernel*c.Kernel)
	for i, p := range c.Pads {
		if max(p[0], p[1]) >= c.Kernel {
			return false
		}
		work *= float64(c.Out(i))
	}
	fits := c.Stride == 1 && c.Kernel >= 3 && c.Kernel <= 5 && c.DType == dtypes.Float32
	return fits && min(c.Images[3], c.Channels) >= winogradInputs && work >= winogradWork
}

// tile is the side of Winograd's tiles that needs the fewest multiplications, a larger one
// only if it saves enough. The matrices lose too many digits from 8 values a side on.
func (c Convolution) tile() (side int) {
	least := 0
	for k := 2; k <= min(4, 8-c.Kernel); k++ {
		tiles := func(i int) int { return (c.Out(i) + k - 1) / k }
		values := (k + c.Kernel - 1) * tiles(0) * tiles(1)
		if least == 0 || 10*values < 9*least {
			least, side = values, k
		}
	}
	return side
}

// split: XLA's CPU compiler gathers what one output sees number by number, so that
// matrix multiplications of blocks are faster for few channels. Its gradient of the weights slows down
// once the outputs of a batch leave the cache. On a GPU multiplications of few taps replace
// algorithms of cuDNN whose sums have no fixed order.
func (c Convolution) split(t Target, o Options) Split {
	d := c.Images
	for i, p := range c.Pads {
		d[1+i] += p[0] + p[1]
	}
	places := d[0] * c.Out(0) * c.Out(1)
	if !t.CPU() {
		return Split{Taps: places*c.Kernel*c.Kernel*d[3] <= largestTaps}
	}
	part := largestPart / min(c.Stride, 2)
	parts := (places*c.Channels + part - 1) / part
	if c.Stride > 1 {
		return Split{Parts: parts}
	}
	b := BlocksOf(d, c.Kernel, c.Kernel, c.Channels)
	image := b.Height < c.Kernel && c.Pads == [2][2]int{} // XLA's would multiply mostly padding
	few := b.In <= blockInputs && b.Block > 1 && b.Rows()*b.Tall*b.Seen() <= largestWindows
	if o.OneDNN {
		return Split{Output: few, Image: image, Weights: few || b.Height >= oneDNNHeight, Parts: parts}
	}
	rows := !image && b.In <= rowInputs && b.N*b.Height*d[2]*c.Kernel*b.Channels <= largestRows
	return Split{Output: few, Image: image, Rows: rows, Weights: few, Parts: parts}
}

// Blocks divides the outputs of a convolution of stride 1 into blocks of
// neighbours in a row: a matrix's row is all of the image that a block sees.
// Products of few columns are slow, and a block has as many as its neighbours have
// channels.
type Blocks struct {
	N, Height, Width, In, Channels int // of the output, but for In
	Tall, Wide                     int // the kernel
	Block                          int // neighbours
}

// BlocksOf are those for images of d, padding included.
func BlocksOf(d [4]int, tall, wide, channels int) Blocks {
	b := Blocks{N: d[0], Height: d[1] - tall + 1, Width: d[2] - wide + 1, In: d[3], Channels: channels, Tall: tall, Wide: wide, Block: 1}
	for k := 2; k <= longestBlock && k*channels <= blockColumns; k++ {
		if b.Width%k == 0 {
			b.Block = k
		}
	}
	return b
}

// Rows are those of the matrix.
func (b Blocks) Rows() int { return b.N * b.Height * (b.Width / b.Block) }

// Seen is how many numbers of a row of the image a block sees.
func (b Blocks) Seen() int { return (b.Block + b.Wide - 1) * b.In }
