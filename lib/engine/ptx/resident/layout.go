package resident

// places are where things are in a block's shared memory, in bytes.
type places struct {
	w1, w2      int // weights [inputs of the slice 64], columns swizzled: see swizzle
	x, y        int // inputs of the layers [padded rowOf], rounded
	g           int // gradients [padded 72], rounded
	sums        int // of their columns, unrounded [16 64]
	w3          int // the last layer's weights [MostClasses 64]
	b3          int // its biases [MostClasses]
	h           int // the block's own columns of h2 [batch own]
	gz          int // gradients of the logits [batch MostClasses]
	index       int // which examples the next batch has [padded] int32; where x and y share a place, this one and the next [2 padded]
	label       int // labels of this batch and the next [2 padded] int32
	bytes       int
	rowX, rowY  int // floats from row to row of x and y
	rowG, rowsW int // of g, of w1 and w2
}

// rowOf is a row's length for so many floats, such that threads of a warp that read
// eight rows, or four columns of eight, read all 32 banks.
func rowOf(floats int) int { return (floats+23)/32*32 + 8 }

func (m MLP) places() (p places) {
	borrow := 0
	if m.borrows() {
		borrow = 1
	}
	next := func(floats int) int {
		at := p.bytes
		p.bytes += 4 * ((floats + 3) / 4 * 4)
		return at
	}
	p.rowX, p.rowY, p.rowG, p.rowsW = rowOf(m.first()), rowOf(m.second()), rowOf(wide), wide
	p.w1, p.w2 = next(m.first()*wide), next(m.second()*wide)
	p.x = next(max(m.padded()*p.rowX, m.padded()*p.rowY*borrow))
	if p.y = p.x; borrow == 0 {
		p.y = next(m.padded() * p.rowY)
	}
	p.g = next(m.padded() * p.rowG)
	p.sums, p.w3, p.b3 = next(16*wide), next(MostClasses*wide), next(MostClasses)
	p.h, p.gz = next(m.Batch*m.own()), next(m.Batch*MostClasses)
	p.index, p.label = next((1+borrow)*m.padded()), next(2*m.padded())
	return p
}

// scratch is where things are that blocks exchange, in floats. Activations and gradients
// are [batch stride].
type scratch struct {
	parts1, parts2 int // [slices batch stride]
	h1, h2, d1, d2 int
	logits         int // parts of them [2 groups batch MostClasses], by turns
	gz             int // gradients of the logits [groups batch MostClasses]
	results        int // loss and hit of each example [batch 2]
	b1, b2, w3     int // weights that a group shares: [stride], [stride], [MostClasses stride]
	back           int // parts of d1 [groups batch stride]
	end            int
}

func (m MLP) scratch() (s scratch) {
	next := func(floats int) int {
		at := s.end
		s.end += (floats + 31) / 32 * 32
		return at
	}
	all := m.Batch * m.stride()
	s.parts1, s.parts2 = next(m.along()*all), next(m.along()*all)
	s.h1, s.h2, s.d1, s.d2 = next(all), next(all), next(all), next(all)
	s.logits, s.gz = next(2*m.groups()*m.Batch*MostClasses), next(m.groups()*m.Batch*MostClasses)
	s.results = next(2 * m.Batch)
	s.b1, s.b2, s.w3 = next(m.stride()), next(m.stride()), next(MostClasses*m.stride())
	s.back = next(m.groups() * all)
	return s
}

// Counters stand far enough apart not to share a line of the cache. The first ones
// are of groups, the others of slices.
const (
	doneParts1 = iota
	doneH1
	doneParts2
	doneD2
	doneD1
	groupCounters
)

const (
	doneLogits = iota
	doneBack
	sliceCounters
)

const apart = 32
