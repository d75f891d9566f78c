package convolution

import "gaiden/lib/engine/ptx"

// places are where things are in a block's shared memory, in bytes. Numbers have 16
// bits.
type places struct {
	x     int // the image with its padding [height+2pad width+2pad rowX]
	g     int // the gradient, with zeros around it for all that a pixel looks at [height+size-1 width+size-1 rowG]
	zeros int // a row of g
	w     int // weights [size size channels rowG]
	clear int // up to here all is zeros at first
	most  int // the largest image, gradient and weight of each warp [warps 4] float32
	bias  int // sums of gradients of each thread [threads 4] float32
	bytes int
	rowX  int // bytes from row to row
	rowG  int
}

// channels are In, and outs Out, with zeros up to whole matrices.
func (k Back) channels() int { return (k.In + 7) / 8 * 8 }
func (k Back) outs() int     { return (k.Out + 15) / 16 * 16 }

// row is the length in bytes of a row of so many numbers, an odd multiple of 16: so eight
// rows, one after the other, are in all banks.
func row(numbers int) int { return 16 * (numbers/8 | 1) }

// across is the width of the image, and of the gradient, with what is around them.
func (k Back) acrossX() int { return k.Width + 2*k.Pad }
func (k Back) acrossG() int { return k.Width + k.Size - 1 }

func (k Back) places() (p places) {
	next := func(bytes int) int {
		at := p.bytes
		p.bytes += bytes
		return at
	}
	p.rowX, p.rowG = row(k.channels()), row(k.outs())
	p.x = next((k.Height + 2*k.Pad) * k.acrossX() * p.rowX)
	p.g = next((k.Height + k.Size - 1) * k.acrossG() * p.rowG)
	p.zeros = next(p.rowG)
	p.w = next(k.Size * k.Size * k.channels() * p.rowG)
	p.clear = p.bytes
	p.most, p.bias = next(16*warps), next(16*threads)
	return p
}

// split is how the warps divide the gradient of the weights: rows are pairs of eight
// channels of a tap, columns are eight output channels.
type split struct {
	down, across  int // warps
	rows, columns int // of a warp
}

func (s split) sums() int { return 4 * s.rows * s.columns }

// units are eight channels of a tap each, and positions the results that have a
// gradient.
func (k Back) units() int { return k.Size * k.Size * k.channels() / 8 }

func (k Back) positions() int {
	height, width := k.covered()
	return height * width
}

// covered is height and width of the part of the convolution's result that has a
// gradient: with pooling, the part that windows look at.
func (k Back) covered() (height, width int) {
	height, width = k.Result()
	if k.Pool {
		return 2 * height, 2 * width
	}
	return height, width
}

func (k Back) split() (best split) {
	rows, columns := (k.units()+1)/2, k.outs()/8
	for _, across := range []int{1, 2, 3, 4, 6, 12} {
		s := split{down: warps / across, across: across, columns: columns / across}
		if s.columns*across != columns || s.columns%2 != 0 { // matrices are loaded by four, two columns at once
			continue
		}
		s.rows = (rows + s.down - 1) / s.down
		if best.rows == 0 || s.sums() < best.sums() || s.sums() == best.sums() && s.rows+s.columns/2 < best.rows+best.columns/2 {
			best = s
		}
	}
	return best
}

// deep is how the warps divide the gradient of the image: rows are 16 pixels, of which a
// warp has every twelfth, and columns eight channels.
type deep struct {
	rows, columns int // of a warp at once
	rounds        int
}

func (d deep) sums() int { return 4 * d.rows * d.columns }

func (k Back) deep() (d deep) {
	pixels := (k.Height*k.Width + 15) / 16
	d.columns = k.channels() / 8
	d.rows = max(1, min((pixels+warps-1)/warps, 4, most/2/(4*d.columns)))
	d.rounds = (pixels + warps*d.rows - 1) / (warps * d.rows)
	return d
}

// writer writes the kernel.
type writer struct {
	*ptx.Block
	k                 Back
	p                 places
	thread, lane      ptx.Value
	warp, image       ptx.Value
	low, middle, high ptx.Value // of the lane: the last three bits, the fourth, the fifth
	quad, four        ptx.Value // lane/4 and lane%4

	// what sums of products are multiplied with; not with Brain
	unscaleX, unscaleG, unscaleW ptx.Value
}

func newWriter(b *ptx.Block, k Back) *writer {
	w := &writer{Block: b, k: k, p: k.places(), thread: b.ThreadID(), image: b.BlockID()}
	w.lane, w.warp = w.thread.And(31), w.thread.Shr(5)
	w.low, w.middle, w.high = w.lane.And(7), w.lane.Shr(3).And(1), w.lane.Shr(4)
	w.quad, w.four = w.lane.Shr(2), w.lane.And(3)
	return w
}

func (w *writer) all() {
	w.load()
	w.weights()
	w.biases()
	w.pixels()
}
