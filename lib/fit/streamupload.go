package fit

import (
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/session"
)

// upload puts a block on the devices, with an order of its examples, for batches of a size. The
// arrays of one device have so many rows.
func (n *Net) upload(s *source, b *hostBlock, rows, batch int, shuffle bool, devices int) (*exampleOrder, error) {
	o := &exampleOrder{streamed: n, block: b, drawn: make([]int32, rows), last: b.last, final: b.final}
	order := rand.New(rand.NewPCG(uint64(n.config.Seed), uint64(s.step)<<32|uint64(s.count))).Perm(b.rows)
	for i := range o.drawn {
		switch {
		case i >= b.rows || !shuffle:
			o.drawn[i] = int32(min(i, b.rows-1))
		default:
			o.drawn[i] = int32(order[i])
		}
	}
	s.count++
	return o, n.putBlock(o, s.set, batch, devices)
}

// putBlock puts the rows of a block on the devices. Each of several has only those that it reads,
// in that order.
func (n *Net) putBlock(o *exampleOrder, set *Set, batch, devices int) error {
	o.data, o.host = set.sized(len(o.drawn)), o.drawn
	if devices > 1 {
		o.data = set.sized(ownRows(len(o.drawn), batch, devices))
		o.host = make([]int32, o.data.N)
		for i := range o.host {
			o.host[i] = int32(i)
		}
	}
	for d := range devices {
		read := rowsRead(o.drawn[:o.block.rows], batch, d, devices)
		for i := range o.data.arrays {
			a, flat := &o.data.arrays[i], o.block.flats[i]
			if devices > 1 {
				flat = pickRows(flat, a.shape, read)
			}
			x, err := n.session.Put(flat.Slice(0, a.shape.Size()).Interface(), a.shape, d)
			if err != nil {
				return err
			}
			if d == 0 {
				a.Array = x
			} else {
				n.deviceCopies[onDevice{a.Array, d}] = x
			}
		}
	}
	return n.putOrder(o, devices)
}

// ownRows is how many rows of a block each of several devices has: its part of full batches, and
// room for a last one that cannot be shared.
func ownRows(rows, batch, devices int) int { return (rows-batch)/devices + batch }

// rowsRead are the rows that a device reads, of batches in an order. What cannot be shared, each
// reads.
func rowsRead(order []int32, batch, device, devices int) (l []int32) {
	for b := range slices.Chunk(order, batch) {
		if share := len(b) / devices; len(b)%devices == 0 {
			b = b[device*share : (device+1)*share]
		}
		l = append(l, b...)
	}
	return l
}

// pickRows are rows of an array on the host, in an array of a shape.
func pickRows(flat reflect.Value, shape shapes.Shape, rows []int32) reflect.Value {
	picked := dtypes.MakeAnySlice(shape.DType, shape.Size())
	to, from := dtypes.UnsafeByteSliceFromAny(picked), dtypes.UnsafeByteSliceFromAny(flat.Interface())
	size := len(to) / shape.Dimensions[0]
	for i, r := range rows {
		copy(to[i*size:(i+1)*size], from[int(r)*size:])
	}
	return reflect.ValueOf(picked)
}

// putOrder puts the order of a block's examples on each device.
func (n *Net) putOrder(o *exampleOrder, devices int) error {
	o.arrays = nil
	for d := range devices {
		a, err := n.session.Put(o.host, shapes.Make(dtypes.Int32, len(o.host)), d)
		if err != nil {
			return err
		}
		o.arrays = append(o.arrays, []*session.Array{a})
	}
	return nil
}
