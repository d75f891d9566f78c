package lower

import "time"

// The cost model: the thresholds of all choices in this package and in package plan, and of
// the choice between XLA's kernels and Gaiden's. They are rules of thumb from measurements
// with XLA 0.11.2 on H100s, H200s and CPUs of two cores. Where kernels are chosen, package
// fit's tuner compares both forms of a net's step and has the last word.

// Steps: how they are divided into programs.
const (
	// ChunkTime is how long a chunk of steps should take. A short cell of another notebook
	// waits for the running chunk and the one that is pending, 100 ms at most; a fifth of
	// that is left for a busy machine. A longer step is a chunk by itself.
	ChunkTime = 40 * time.Millisecond

	longStep  = 1e-3   // seconds: a step that hides what it costs to run a program
	gpuRate   = 2e13   // FLOPs a second of a step on a GPU
	matmuls   = 1.5e14 // FLOPs a second of a step on a Hopper GPU whose time is that of its matmuls
	cpuRate   = 5e10   // FLOPs a second of a step on a CPU
	shortStep = longStep / 10

	// SingleStepFLOPs is the work of a step that is a program of its own on a GPU.
	SingleStepFLOPs = longStep * gpuRate
	// SingleMatmulFLOPs is the same for a step with MatmulIntensity on a Hopper GPU.
	SingleMatmulFLOPs = longStep * matmuls
	// MatmulIntensity is how many FLOPs a byte a step has at least whose time is that of its
	// matmuls.
	MatmulIntensity = 20
	// UnrollFLOPs is the most work of a step on a GPU of which a loop's body holds several:
	// heavier ones gain nothing and take longer to compile.
	UnrollFLOPs = shortStep * gpuRate
	// LargeMatmulFLOPs is the work of a matmul from which cuBLAS is faster than Gaiden's kernels.
	LargeMatmulFLOPs = shortStep * gpuRate
	// SeveralDevicesFLOPs is the work of a step from which several GPUs are faster than one.
	SeveralDevicesFLOPs = 5 * longStep * gpuRate
	// FreshFLOPs is the work of a step on a CPU that fills a chunk, so that to copy the state
	// for each chunk costs more than to write each next state to fresh memory.
	FreshFLOPs = float64(ChunkTime) / float64(time.Second) * cpuRate
	// PeeledBytes is the size of a state whose copy a loop on a CPU saves by doing its first
	// turn before it.
	PeeledBytes = 4 << 20
	// PeeledFLOPs is the work of a chunk of such steps: what a fast CPU of two cores does in
	// ChunkTime. It is not measured, as the first turn may differ from the others in the last
	// bits: training again must have the same chunks.
	PeeledFLOPs = float64(ChunkTime) / float64(time.Second) * 4 * cpuRate
	// LargeStateBytes is the size of a state whose copies cost more than a few milliseconds
	// in which the devices have nothing to do.
	LargeStateBytes = 128 << 20
	// CountedSteps is how many steps an epoch has at least whose loop XLA counts. In others
	// the host looks at the device before each turn.
	CountedSteps = 16
	// PackedArrays is how many arrays a state has at least that is packed: to run a program
	// costs the host time for each.
	PackedArrays = 100
	// PackedCopies is how many copies of a packed state there are for a moment, when it gets its
	// names: as it was, packed, and as it is.
	PackedCopies = 3
	// lookupRows is how many rows a table has at most whose gradient is a matmul.
	lookupRows = 1024
	// ManyClasses is how many classes a cross entropy has at least that is a kernel of its own,
	// in a net without kernels for its layers: XLA reads logits four times.
	ManyClasses = 1024
	// ManyOps is the number of operations from which a program's kernels are launched one by
	// one, not as CUDA graphs, unless it works in place: where arrays lie elsewhere in each
	// run, the graphs must be changed each time.
	ManyOps = 2000
	// RecomputeBytes is the size of a batch norm's output from which a GPU computes it twice
	// rather than keeping it: much less memory for little time.
	RecomputeBytes = 16 << 20
)

// Cross entropy over many classes.
const (
	// largeLogits is the size of a batch's logits, in bytes, from which they are not computed
	// all at once, and logitsPiece that of a piece.
	largeLogits = 256 << 20
	logitsPiece = 64 << 20
	// On a GPU a piece is a part of its memory, so large because each piece reads and writes the
	// gradient of the weights.
	logitsShare, largestPiece = 64, 2 << 30
)

// First values.
const (
	// QuickDraw is how many random numbers are drawn once in the time that it takes to optimize
	// the code that draws them.
	QuickDraw = 1 << 20
)

// Tests: how many examples are evaluated at once.
const (
	// A batch of a test or prediction has so many examples and numbers at most: enough to
	// keep a device busy, few enough for its memory.
	MostTestExamples, LeastTestExamples, TestNumbers = 500, 16, 2_000_000
	// JobTestBatches is how many of these a job on a GPU does between two looks at other
	// clients.
	JobTestBatches = 16
)

// Sums of gradients over several devices.
const (
	// BucketedElements is how many gradient elements devices add up in one piece. More are
	// divided into buckets.
	BucketedElements = 16 << 20
	// A bucket has at least one part in BucketShare of all elements. The last one, whose
	// all-reduce no computation hides, has at most one part in LastShare.
	BucketShare, LastShare = 10, 16
)

// Layers: which form they have.
const (
	// leastActivation is how many numbers, in 16 bits, have a kernel for their activation: of
	// fewer a launch is most of the time.
	leastActivation = 1 << 20

	// Matmuls on a GPU.

	// joinedBytes is the size up to which gradients of matmuls are joined.
	joinedBytes = 64 << 20

	// A matmul so deep and with so few outputs fills a GPU only if its depth is divided, as
	// cuBLAS does and Gaiden's kernels do not.
	DeepInputs, FewOutputs = 4096, 128 << 10

	// Convolutions on a GPU.

	// FewChannels is up to how many input channels cuDNN's convolutions leave most of a tensor
	// core without work, so that other forms are faster.
	FewChannels = 16

	patchesKernel  = 5       // pixels: the largest kernel for that
	largestPatches = 8 << 20 // numbers (32 MiB of float32): larger matrices of patches leave the GPU's cache
	largestTaps    = 4 << 20 // numbers (16 MiB of float32): memory that the taps of a gradient may take

	// Convolutions on a CPU.

	stridedKernel  = 3        // pixels: up to here patches beat the gradients of XLA's strided convolution
	blockInputs    = 4        // channels: up to so many the output and weights are matmuls of blocks
	rowInputs      = 8        // channels: up to so many the images' gradient is taken along rows
	longestBlock   = 4        // neighbours of a block
	blockColumns   = 64       // columns of a block's matrix, at most
	oneDNNHeight   = 16       // rows: from here oneDNN's gradient of the weights is slower than a matmul
	largestWindows = 64 << 20 // numbers (256 MiB): what the windows of blocks may take
	largestRows    = 4 << 20  // numbers (16 MiB): what a convolution along rows may take
	largestPart    = 3 << 19  // numbers (6 MiB): outputs of a part of the batch that a cache holds; half with a stride
	winogradInputs = 32       // channels: Winograd's algorithm needs as many of inputs and outputs
	winogradWork   = 2e9      // FLOPs: below it, compiling Winograd's algorithm costs more than it saves

	// LargestTiles is how many numbers (24 MiB of float32) Winograd's tiles of a part of the
	// batch may have: what a cache holds.
	LargestTiles = 6 << 20

	// Sums of biases' gradients on a GPU.

	blockRows = 128  // rows that a block of XLA's reduction takes at once
	mostRows  = 8192 // rows: from here XLA splits the reduction itself

	// Attention on a CPU.

	blockwiseScores             = 1 << 19 // scores (2 MiB of float32): from here blocks, which a cache holds, are faster
	smallestBlock, largestBlock = 64, 256 // queries, and keys, of a block
	blockScores                 = 1 << 19 // of a block larger than the smallest, in all heads and examples

	// Attention on a CUDA device.

	cuDNNQueries = 128 // from here cuDNN's attention, where it has it

	// Dense layers on a CPU.

	narrowSide, wideSide = 5, 32 // units: layers so narrow on one side, and so wide on the other, put examples last

	// TransposeRows is how many rows are transposed as a block, so that the lines of a
	// cache that one column touches are still there for the next.
	TransposeRows = 16

	transposeLeast  = 128  // rows and units: below it a transposition costs more than it saves
	transposeUnits  = 512  // units: from here it pays for any number of inputs
	transposeInputs = 1024 // inputs: from here it pays with fewer units
)
