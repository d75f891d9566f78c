package statedict

import (
	"slices"

	"gaiden/lib/fit/result"
)

// features is the order that the numbers of a vector have in PyTorch's net, where images have
// their channels first: those of an image that is flattened, or of a vector that becomes one.
// nil: the order is ours.
type features struct {
	from []int // their number i is ours number from[i]; nil: the same
	open bool  // of a dense layer: what follows may set from
	none bool  // there is no order with which PyTorch's net would be the same
	same *features
}

func (f *features) root() *features {
	for f != nil && f.same != nil {
		f = f.same
	}
	return f
}

// unlike says that PyTorch's net has other numbers there.
func (f *features) unlike() bool { f = f.root(); return f != nil && f.none }

// index is from.
func (f *features) index() []int {
	if f = f.root(); f == nil {
		return nil
	}
	return f.from
}

// alike is the order that two have in common, and closes those that are open to it.
func alike(a, b *features) *features {
	a, b = a.root(), b.root()
	switch {
	case a == b:
	case a != nil && a.open:
		if b == nil {
			a.open = false
		} else {
			a.same = b
		}
	case b != nil && b.open:
		return alike(b, a)
	case a.unlike() || b.unlike() || !slices.Equal(a.index(), b.index()):
		return &features{none: true}
	}
	return a.root()
}

// channelsFirst is the order of an array [… channels] that is [channels …] there.
func channelsFirst(dims []int) *features {
	channels, size := dims[len(dims)-1], 1
	for _, d := range dims {
		size *= d
	}
	if channels == 1 || channels == size {
		return nil
	}
	f := &features{}
	for c := range channels {
		for i := c; i < size; i += channels {
			f.from = append(f.from, i)
		}
	}
	return f
}

// reorder gives an axis of ours their order, or back.
func (f *features) reorder(t result.Tensor, axis int, back bool) result.Tensor {
	from := f.index()
	if axis >= len(t.Dims) || t.Dims[axis] != len(from) {
		return t
	}
	row := 1
	for _, d := range t.Dims[axis+1:] {
		row *= d
	}
	out := result.Tensor{Name: t.Name, Dims: t.Dims, Data: make([]float32, len(t.Data))}
	for block := 0; block < len(t.Data); block += len(from) * row {
		for i, k := range from {
			if back {
				i, k = k, i
			}
			copy(out.Data[block+i*row:block+(i+1)*row], t.Data[block+k*row:])
		}
	}
	return out
}

// flow is an array between two layers.
type flow struct {
	dims  []int     // of one example
	order *features // of a vector; of others nil, unless they are unlike PyTorch's
	// channels is where PyTorch has those of a sequence: in nn.Conv1d before the time steps, in
	// nn.LSTM after them.
	channels channelAxis
}

type channelAxis int

const (
	channelsLast channelAxis = iota
	channelsBefore
	channelsOpen    // as the next layer wants them; order is that of the vector before
	channelsUnclear // branches differ
)

// settled is a sequence with its channels where a layer wants them.
func (f flow) settled(at channelAxis) flow {
	if len(f.dims) != 2 {
		return f
	}
	if f.channels == channelsOpen {
		f = f.vector().image(f.dims, at == channelsBefore)
	}
	f.channels = at
	return f
}

// image is a vector as an array, with the channels first in PyTorch or as here.
func (f flow) image(dims []int, first bool) flow {
	var want *features
	if first {
		want = channelsFirst(dims)
	}
	if f.order = alike(f.order, want); !f.order.unlike() {
		f.order = nil
	}
	f.dims = dims
	return f
}

// vector is an array in one row, as nn.Flatten makes it.
func (f flow) vector() flow {
	size := 1
	for _, d := range f.dims {
		size *= d
	}
	v := flow{dims: []int{size}, order: f.order}
	switch rank := len(f.dims); {
	case rank < 2 || f.order.unlike() || rank == 2 && f.channels == channelsOpen:
	case rank == 2 && f.channels == channelsUnclear:
		v.order = &features{none: true}
	case rank > 2 || f.channels == channelsBefore:
		v.order = channelsFirst(f.dims)
	}
	return v
}

// shaped is an array with other dimensions, as nn.Unflatten makes it.
func (f flow) shaped(dims []int) flow {
	switch n := len(dims); {
	case slices.Equal(dims, f.dims):
		return f
	case n == 1:
		return f.vector()
	case len(f.dims) > 1 && f.channels != channelsOpen && dims[n-1] == f.dims[len(f.dims)-1]: // the pixels of images as time steps
		return flow{dims: dims, order: f.order}
	case n == 2:
		return flow{dims: dims, order: f.vector().order, channels: channelsOpen}
	default:
		return f.vector().image(dims, true)
	}
}

// plus is the sum of two.
func (f flow) plus(g flow) flow {
	switch {
	case f.channels == g.channels:
	case f.channels == channelsOpen:
		f = f.settled(g.channels)
	case g.channels == channelsOpen:
		g = g.settled(f.channels)
	default:
		f.channels = channelsUnclear
	}
	f.order = alike(f.order, g.order)
	return f
}

// and is two joined along their last axis.
func (f flow) and(g flow) flow {
	both := []flow{f, g}
	for i, one := range both {
		if one.channels == channelsOpen {
			both[i] = one.settled(channelsLast)
		} else if r := one.order.root(); r != nil {
			r.open = false
		}
	}
	f, g = both[0], both[1]
	sum := flow{dims: slices.Clone(f.dims), channels: f.channels}
	last := len(sum.dims) - 1
	sum.dims[last] += g.dims[last]
	if f.channels != g.channels {
		sum.channels = channelsUnclear
	}
	if a, b := f.order.index(), g.order.index(); f.order.unlike() || g.order.unlike() {
		sum.order = &features{none: true}
	} else if a != nil || b != nil {
		sum.order = &features{from: slices.Clone(a)}
		for i := len(a); i < f.dims[last]; i++ {
			sum.order.from = append(sum.order.from, i)
		}
		for i := range g.dims[last] {
			if b != nil {
				i = b[i]
			}
			sum.order.from = append(sum.order.from, f.dims[last]+i)
		}
	}
	return sum
}
