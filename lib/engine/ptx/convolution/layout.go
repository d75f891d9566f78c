package convolution

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// usualWarps are three on each quarter of a processor.
const usualWarps = 12

// form is what Back and Conv are.
type form struct {
	kernels.Geometry
	Act   kernels.Act
	Brain bool
	Warps int // 0: usualWarps
}

func (k form) warps() int {
	if k.Warps == 0 {
		return usualWarps
	}
	return k.Warps
}

func (k form) threads() int { return 32 * k.warps() }

// registers is how many of a thread's hold what it has loaded or adds up: six of seven. A
// processor has 64 Ki of them, and a thread no more than 255.
func (k form) registers() int { return min(64*1024/k.threads(), 255) / 8 * 8 * 6 / 7 }

// shapes are those of the image, of the weights, and of what comes out: the results and,
// with pooling, the winners.
func (k form) shapes() (x, w shapes.Shape, results []shapes.Shape) {
	element := dtypes.Float32
	if k.Brain {
		element = dtypes.BFloat16
	}
	height, width := k.Result()
	results = []shapes.Shape{shapes.Make(element, k.Batch, height, width, k.Out)}
	if k.Pool {
		results = append(results, shapes.Make(dtypes.Uint8, k.Batch, height, width, k.Out))
	}
	return shapes.Make(element, k.Batch, k.Height, k.Width, k.In), shapes.Make(dtypes.Float32, k.Size, k.Size, k.In, k.Out), results
}

func bytes(arrays []shapes.Shape) (sum float64) {
	for _, s := range arrays {
		sum += float64(s.Size() * s.DType.Size())
	}
	return sum
}

// flops are those of the convolution there.
func (k form) flops() float64 {
	height, width := k.Image()
	return 2 * float64(k.Batch*height*width) * float64(k.taps()*k.Out)
}

// places are where things are in a block's shared memory, in bytes. Numbers have 16
// bits.
type places struct {
	x     int // the image with its padding [height+2pad width+2pad rowX]
	g     int // the gradient, with zeros around it for all that a pixel looks at [height+size-1 width+size-1 rowG]
	zeros int // a row of g
	w     int // weights [size size channels rowG]
	clear int // up to here all is zeros at first
	most  int // the largest image, weight and gradient of each warp [warps 4] float32
	bias  int // sums of gradients of each thread [threads 4] float32
	bytes int

	channels, outs   int // In and Out, with zeros up to whole matrices
	acrossX, acrossG int // the widths of image and gradient, with what is around them
	rowX, rowG       int // bytes from row to row
}

func up(n, to int) int { return (n + to - 1) / to * to }

// row is the length in bytes of a row of so many numbers, an odd multiple of 16: so eight
// rows, one after the other, are in all banks.
func row(numbers int) int { return 16 * (numbers/8 | 1) }

// places are those of a kernel for so many input channels.
func (k form) places(channels int) (p places) {
	p.channels, p.outs = channels, up(k.Out, 16)
	p.acrossX, p.acrossG = k.Width+2*k.Pad, k.Width+k.Size-1
	p.rowX, p.rowG = row(p.channels), row(p.outs)
	p.next(&p.x, (k.Height+2*k.Pad)*p.acrossX*p.rowX)
	p.next(&p.w, k.Size*k.Size*p.channels*p.rowG)
	return p
}

func (p *places) next(at *int, bytes int) { *at, p.bytes = p.bytes, p.bytes+bytes }

// taps is how many numbers of the image a result is a sum of.
func (k form) taps() int { return k.Size * k.Size * k.In }

// image, gradient and weights are how many numbers a block loads of each, in the vectors
// in which it does.
func (k form) image() int   { return k.Height * k.Width * k.In / k.vector() }
func (k form) weights() int { return k.taps() * k.Out / 4 }
func (k form) gradient() int {
	height, width := k.Result()
	return height * width * k.Out / 4
}

// vector is how many numbers of the image a thread loads at once.
func (k form) vector() int {
	if k.In%4 == 0 {
		return 4
	}
	return 2
}

// loads is how many of n vectors a thread has.
func (k form) loads(n int) int { return (n + k.threads() - 1) / k.threads() }

// sound says whether these are an activation and sizes of a convolution that the kernels know. They count
// numbers of arrays in 32 bits.
func (k form) sound() bool {
	height, width := k.Result()
	return k.Act <= kernels.Tanh && k.Warps >= 0 && k.Warps <= 32 && k.Batch > 0 && height > 0 && width > 0 && k.Size > 0 && k.Pad >= 0 && k.Pad < k.Size &&
		k.In > 0 && k.In%2 == 0 && k.Out > 0 && k.Out%4 == 0 && k.Out <= k.threads() && k.threads()%(k.Out/4) == 0 &&
		k.Batch <= math.MaxInt32/max(k.Height*k.Width*k.In, height*width*k.Out, (k.taps()+1)*k.Out)
}

// split is how warps divide rows of matrices and columns of eight.
type split struct {
	down, across  int // warps
	rows, columns int // of a warp
}

func (s split) sums() int { return 4 * s.rows * s.columns }

// divide is the way with the fewest products for a warp, and then with the fewest matrices to
// load. Rows of a warp are a multiple of each, and columns an even number, as their
// matrices are loaded by four.
func (k form) divide(rows, columns, each int) (best split) {
	for across := 1; across <= k.warps(); across++ {
		s := split{down: k.warps() / across, across: across, columns: columns / across}
		if s.down*across != k.warps() || s.columns*across != columns || s.columns%2 != 0 {
			continue
		}
		s.rows = up((rows+s.down-1)/s.down, each)
		if best.rows == 0 || s.sums() < best.sums() || s.sums() == best.sums() && s.rows+s.columns/2 < best.rows+best.columns/2 {
			best = s
		}
	}
	return best
}

// writer writes a kernel.
type writer struct {
	*ptx.Block
	f                 form
	p                 places
	thread, lane      ptx.Value
	warp, number      ptx.Value // number is the image's
	low, middle, high ptx.Value // of the lane: the last three bits, the fourth, the fifth
	quad, four        ptx.Value // lane/4 and lane%4

	unscale [3]ptx.Value // 1/scale of image, weights and gradient; not with Brain
	above   bool         // numbers of the image that are above 0 are not rounded to 0
}

func newWriter(b *ptx.Block, f form, p places) *writer {
	w := &writer{Block: b, f: f, p: p, thread: b.ThreadID(), number: b.BlockID()}
	w.lane, w.warp = w.thread.And(31), w.thread.Shr(5)
	w.low, w.middle, w.high = w.lane.And(7), w.lane.Shr(3).And(1), w.lane.Shr(4)
	w.quad, w.four = w.lane.Shr(2), w.lane.And(3)
	return w
}
