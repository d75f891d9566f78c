package fit

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// copies are arrays on several devices: those of device d are copies[d].
type copies [][]*session.Array

// slice takes some arrays of each device.
func (c copies) slice(from, to int) copies {
	l := make(copies, len(c))
	for d := range c {
		l[d] = c[d][from:to:to]
	}
	return l
}

// free frees all of them.
func (c copies) free() {
	for _, l := range c {
		free(l...)
	}
}

// runOnce runs a program once, on as many devices as it is for.
func runOnce(p *session.Program, parts ...copies) (copies, error) {
	devices := len(parts[0])
	var in []*session.Array
	for d := range devices {
		for _, part := range parts {
			in = append(in, part[d]...)
		}
	}
	out, err := p.Run(session.Call{Inputs: in})
	if err != nil {
		return nil, err
	}
	n := len(out) / devices
	l := make(copies, devices)
	for d := range l {
		l[d] = out[d*n : (d+1)*n : (d+1)*n]
	}
	return l, nil
}

// randomProgram gives each device random numbers of its own: rng, replica → rng.
// They stay apart, whatever is drawn from them: drawing counts on from a number.
func (n *Net) randomProgram(devices int) (*hlo.Program, error) {
	return n.traceFor(devices, "apart", func(t *trace) []*Node {
		state := Parameter(t.g, "rng", shapes.Make(dtypes.Uint64, 3))
		replica := Parameter(t.g, "replica", shapes.Make(dtypes.Int32))
		return []*Node{randomOf(state, replica)}
	})
}

// randomOf are the random numbers of a device; those of device 0 are state.
func randomOf(state, replica *Node) *Node {
	return Add(state, Mul(ConvertDType(replica, dtypes.Uint64), Const(state.Graph(), uint64(0x9e3779b97f4a7c15))))
}

// copiesOn copies arrays of device 0 to the others, once.
func (n *Net) copiesOn(l []*session.Array, devices int) (copies, error) {
	return onDevices(l, devices, func(a *session.Array, device int) (b *session.Array, err error) {
		key := onDevice{a, device}
		if n.deviceCopies[key] == nil {
			if b, err = copyTo(a, device); err != nil {
				return nil, err
			}
			n.deviceCopies[key] = b
		}
		return n.deviceCopies[key], nil
	})
}

// replicate copies arrays of device 0 to the others.
func replicate(l []*session.Array, devices int) (copies, error) {
	return onDevices(l, devices, copyTo)
}

// onDevices are arrays of device 0, and what copies them to each of the others.
func onDevices(l []*session.Array, devices int, to func(*session.Array, int) (*session.Array, error)) (copies, error) {
	all := copies{l}
	for d := 1; d < devices; d++ {
		var there []*session.Array
		for _, a := range l {
			b, err := to(a, d)
			if err != nil {
				return nil, err
			}
			there = append(there, b)
		}
		all = append(all, there)
	}
	return all, nil
}

// onDevice names a copy of an array.
type onDevice struct {
	*session.Array
	device int
}

func copyTo(a *session.Array, device int) (*session.Array, error) {
	b, err := a.CopyToDevice(compute.DeviceNum(device))
	if err != nil {
		return nil, err
	}
	return b.(*session.Array), nil
}

// costOf is what a training step is made of as it is written; Work is what it needs. It
// writes the step's program, which takes milliseconds, only once.
func (n *Net) costOf(s *Set, batch int) (hlo.Cost, error) {
	key := fmt.Sprintf("%s/%d", s.key(), batch)
	if c, is := n.stepCost[key]; is {
		return c, nil
	}
	p, err := n.stepProgram(s, batch)
	if err != nil {
		return hlo.Cost{}, err
	}
	n.stepCost[key] = p.Cost()
	return n.stepCost[key], nil
}

// stepProgram is one training step, to be counted.
func (n *Net) stepProgram(s *Set, batch int) (*hlo.Program, error) {
	return n.epochProgram(s, plan.Part{Batch: batch, Inner: 1, Unroll: 1, Limit: 1, Form: plan.InPlace, Devices: 1})
}
