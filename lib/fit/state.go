package fit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// deviceState is a net's state on the devices of a run.
type deviceState struct {
	devices int
	state   copies // variables, moments, step; or packed
	rate    copies
	bound   bool // the net's names are those of the state; of a packed one they follow
	boundAt time.Time
	learned bool // the net's encoder is that of the run's data
}

// distribute packs the state, if it is to be, and copies it to the other devices.
func (r *run) distribute() error {
	n := r.net
	if r.main.Packed {
		p, err := r.wait(r.ctx, n.prepare("pack", n.packProgram, nil))
		if err != nil {
			return err
		}
		packed, err := runOnce(p, r.state)
		if err != nil {
			return err
		}
		r.state.free()
		r.state, r.boundAt = packed, time.Now()
	}
	all, err := n.replicate(r.state[0], r.devices)
	if err != nil {
		return err
	}
	r.state = all
	return r.splitRandom()
}

// splitRandom gives devices that share batches random numbers of their own.
func (r *run) splitRandom() error {
	n, at := r.net, slices.IndexFunc(r.net.slots(r.main.Part), func(s slot) bool { return s.path == rng })
	if r.devices == 1 || at < 0 {
		return nil
	}
	p, err := r.wait(r.ctx, n.prepare(fmt.Sprintf("apart/%d", r.devices), func() (*hlo.Program, error) { return n.randomProgram(r.devices) }, nil))
	if err != nil {
		return err
	}
	replicas := make(copies, r.devices)
	for d := range replicas {
		if replicas[d], err = n.integers(d, d); err != nil {
			return err
		}
	}
	defer replicas.free()
	own, err := runOnce(p, r.state.slice(at, at+1), replicas)
	if err != nil {
		return err
	}
	for d := 1; d < r.devices; d++ { // that of device 0 is as it was
		r.state[d][at].Finalize()
		r.state[d][at] = own[d][0]
	}
	free(own[0]...)
	return nil
}

// unpackState is the net's state of device 0, as the net's names want it. A run that
// was stopped needs it, too.
func (r *run) unpackState() ([]*session.Array, error) {
	n, ctx := r.net, context.WithoutCancel(r.ctx)
	p, err := r.wait(ctx, n.prepare("unpack", n.unpackProgram, nil))
	if err != nil {
		return nil, err
	}
	out, err := runOnce(p, r.state[:1])
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// bindState gives the state of a packed run its names.
func (r *run) bindState() error {
	if r.bound {
		return nil
	}
	arrays, err := r.unpackState()
	if err != nil {
		return err
	}
	defer free(arrays...)
	if err := arrays[len(arrays)-1].Values(make([]int32, 1)); err != nil { // names are for arrays that are there
		return err
	}
	return r.bindArrays(r.state, arrays, r.history.Steps > 0)
}

// bindArrays gives the arrays of a packed state its names.
func (r *run) bindArrays(state copies, arrays []*session.Array, trained bool) error {
	r.bound, r.boundAt = &state[0][0] == &r.state[0][0], time.Now()
	if trained {
		return r.bindTrained(arrays)
	}
	return r.net.bind(r.net.layout.all(), arrays)
}

// bindTrained gives arrays their names after a step or more. From then on, and not before, the
// net's encoder is that of the run's data: a run that fails at once leaves the one that the weights fit.
func (r *run) bindTrained(arrays []*session.Array) error {
	if !r.learned {
		if err := r.net.learnsFrom(r.data); err != nil {
			return err
		}
		r.learned = true
	}
	return r.net.bind(r.net.layout.all(), arrays)
}
