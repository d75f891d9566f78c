package lower

// Limits of the choices in this package. Each was measured with XLA 0.11.2; the figures
// are in the history of this file and of package models.
const (
	// Convolutions on a GPU.

	patchesInputs  = 16      // channels: up to so many input channels patches beat cuDNN's kernels
	patchesKernel  = 5       // pixels: the largest kernel for that
	largestPatches = 8 << 20 // numbers (32 MiB of float32): larger matrices of patches leave the GPU's cache
	largestTaps    = 4 << 20 // numbers (16 MiB of float32): memory that the taps of a gradient may take

	// Convolutions on a CPU.

	stridedKernel  = 3        // pixels: up to here patches beat the gradients of XLA's strided convolution
	blockInputs    = 4        // channels: up to so many the output and weights are products of blocks
	rowInputs      = 8        // channels: up to so many the images' gradient is taken along rows
	longestBlock   = 4        // neighbours of a block
	blockColumns   = 64       // columns of a block's matrix, at most
	oneDNNHeight   = 16       // rows: from here oneDNN's gradient of the weights is slower than a product
	largestWindows = 64 << 20 // numbers (256 MiB): what the windows of blocks may take
	largestRows    = 4 << 20  // numbers (16 MiB): what a convolution along rows may take
	largestPart    = 3 << 19  // numbers (6 MiB): outputs of a part of the batch that a cache holds; half with a stride
	winogradInputs = 32       // channels: Winograd's algorithm needs as many of inputs and outputs
	winogradWork   = 2e9      // FLOPs: below it, compiling Winograd's algorithm costs more than it saves

	// LargestTiles is how many numbers (24 MiB of float32) Winograd's tiles of a part of the
	// batch may have: what a cache holds.
	LargestTiles = 6 << 20

	// Max pooling on a CPU.

	pairwiseChannels = 32 // channels: below it XLA's reduction is slower than maxima of pairs of arrays

	// Sums of biases' gradients on a GPU.

	blockRows = 128  // rows that a block of XLA's reduction takes at once
	mostRows  = 8192 // rows: from here XLA splits the reduction itself

	// Dense layers on a CPU.

	narrowSide, wideSide = 5, 32 // units: layers so narrow on one side, and so wide on the other, put examples last

	// TransposeRows is how many rows are transposed as a block, so that the lines of a
	// cache that one column touches are still there for the next.
	TransposeRows = 16

	transposeLeast  = 128  // rows and units: below it a transposition costs more than it saves
	transposeUnits  = 512  // units: from here it pays for any number of inputs
	transposeInputs = 1024 // inputs: from here it pays with fewer units
)
