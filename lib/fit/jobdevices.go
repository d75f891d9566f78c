package fit

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// On several devices, a job's programs run on all of them, and each takes arrays of its own.
// Those of device 0 have the names that a job on one device has; the others have copies, which
// device 0 broadcasts when the job begins and when it continues. So snapshots have no copies, and
// an old one continues with what device 0 had.

// copiesPrefix begins the names of copies, after the job's own prefix.
const copiesPrefix = "copies/"

// on are names of arrays on a device.
func (b *jobBuilder) on(device int, names ...string) []string {
	if device == 0 {
		return names
	}
	l := make([]string, len(names))
	for i, n := range names {
		l[i] = fmt.Sprintf("%s%s%d/%s", b.prefix, copiesPrefix, device, n)
	}
	return l
}

// everywhere are names on all devices, in the order in which a program takes and returns arrays.
func (b *jobBuilder) everywhere(names ...string) (l []string) {
	for d := range b.devices {
		l = append(l, b.on(d, names...)...)
	}
	return l
}

// share notes an array that the devices have copies of.
func (b *jobBuilder) share(shape shapes.Shape, name string) {
	b.shared, b.shapes = append(b.shared, name), append(b.shapes, shape)
}

// shareNew is share for one that a step makes: a job that begins has zeros.
func (b *jobBuilder) shareNew(shape shapes.Shape, name string) error {
	if b.devices == 1 {
		return nil
	}
	zeros, err := b.net.zeros([]slot{{shape: shape}})
	if err != nil {
		return err
	}
	b.share(shape, name)
	b.names, b.values = append(b.names, name), append(b.values, zeros[0])
	return nil
}

// copyToDevices adds the steps that give the other devices their arrays. The arrays of a set may
// be large, so they go one by one.
func (b *jobBuilder) copyToDevices() error {
	if b.devices == 1 {
		return nil
	}
	n := b.net
	n.freeCopies(b.data.all()) // of Fit: the job has its own
	for i, name := range b.sources(b.data) {
		if err := b.broadcast(wire.AtStart, []string{name}, []shapes.Shape{b.data.arrays[i].shape}); err != nil {
			return err
		}
	}
	random := []string{}
	for i, s := range n.layout.all() {
		state, next := n.name+"/"+s.name, fmt.Sprintf("%snext/%d", b.prefix, i)
		b.share(s.shape, state)
		b.share(s.shape, next)
		b.names, b.values = append(b.names, next), append(b.values, b.state[0][i])
		if s.path == rng {
			random = append(random, state, next)
		}
	}
	if err := b.broadcast(wire.AtStart, b.shared, b.shapes); err != nil {
		return err
	}
	return b.tellApart(random)
}

// broadcast adds steps that copy arrays of device 0 to the others.
func (b *jobBuilder) broadcast(when wire.Moment, names []string, s []shapes.Shape) error {
	blank, sum, err := b.net.broadcastPrograms(s, b.devices)
	if err != nil {
		return err
	}
	for d := 1; d < b.devices; d++ {
		b.addStep(session.JobStep{Program: blank, When: when, Device: d, Names: b.on(d, names...)})
	}
	all := b.everywhere(names...)
	b.addStep(session.JobStep{Program: sum, When: when, Inputs: session.Named(all...), Names: append(make([]string, len(names)), all[len(names):]...)})
	return nil
}

// tellApart adds the steps by which the copies know their device, and have random numbers of
// their own: those that Net.Fit gives them.
func (b *jobBuilder) tellApart(random []string) error {
	differs := append(b.scratchNames("replica", "where"), random...)
	apart, err := b.net.made("apart", func(t *trace) []*Node {
		replica, where := Parameter(t.g, "replica", shapes.Make(dtypes.Int32)), Parameter(t.g, "where", shapes.Make(dtypes.Int32, 3))
		out := []*Node{replica, DynamicUpdateSlice(where, Reshape(replica, 1), []*Node{t.scalar(int32(1))})}
		for i := range random {
			out = append(out, randomOf(Parameter(t.g, "rng"+itoa(i), shapes.Make(dtypes.Uint64, 3)), replica))
		}
		return out
	})
	if err != nil {
		return err
	}
	for d := 1; d < b.devices; d++ {
		number, err := b.net.made("replica", func(t *trace) []*Node { return []*Node{t.scalar(int32(d))} })
		if err != nil {
			return err
		}
		names := b.on(d, differs...)
		b.addStep(session.JobStep{Program: number, When: wire.AtStart, Device: d, Names: names[:1]})
		b.addStep(session.JobStep{Program: apart, When: wire.AtStart, Device: d, Inputs: session.Named(names...), Names: slices.Clone(names)})
	}
	return nil
}
