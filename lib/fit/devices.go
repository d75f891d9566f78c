package fit

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
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

// stepOf is the number of steps done, which ends each state.
func stepOf(state copies) copies { return state.slice(len(state[0])-1, len(state[0])) }

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
	var missing []*session.Array
	for _, a := range l {
		if devices > 1 && n.deviceCopies[onDevice{a, devices - 1}] == nil {
			missing = append(missing, a)
		}
	}
	if len(missing) > 0 {
		made, err := n.replicate(missing, devices)
		if err != nil {
			return nil, err
		}
		for d := 1; d < devices; d++ {
			for i, a := range missing {
				n.deviceCopies[onDevice{a, d}] = made[d][i]
			}
		}
	}
	all := copies{l}
	for d := 1; d < devices; d++ {
		var there []*session.Array
		for _, a := range l {
			there = append(there, n.deviceCopies[onDevice{a, d}])
		}
		all = append(all, there)
	}
	return all, nil
}

// freeCopies frees what copiesOn has made of some arrays.
func (n *Net) freeCopies(l []*session.Array) {
	for at, there := range n.deviceCopies {
		if slices.Contains(l, at.Array) {
			delete(n.deviceCopies, at)
			there.Finalize()
		}
	}
}

// replicate copies arrays of device 0 to the others.
func (n *Net) replicate(l []*session.Array, devices int) (copies, error) {
	if slices.ContainsFunc(n.session.Welcome().Devices[:devices], func(d wire.DeviceInfo) bool { return d.Host != "" }) {
		return n.broadcast(l, devices)
	}
	all := copies{l}
	for d := 1; d < devices; d++ {
		var there []*session.Array
		for _, a := range l {
			b, err := a.CopyToDevice(compute.DeviceNum(d))
			if err != nil {
				return nil, err
			}
			there = append(there, b.(*session.Array))
		}
		all = append(all, there)
	}
	return all, nil
}

// broadcast is replicate to devices of other hosts: a sum in which those give zeros. So the
// devices send the data themselves, at their own rate, where a copy would go through the
// session's memory and its connection to each host.
func (n *Net) broadcast(l []*session.Array, devices int) (copies, error) {
	var s []shapes.Shape
	for _, a := range l {
		shape, err := a.Shape()
		if err != nil {
			return nil, err
		}
		s = append(s, shape)
	}
	blank, sum, err := n.broadcastPrograms(s, devices)
	if err != nil {
		return nil, err
	}
	in := copies{l}
	defer func() { in[1:].free() }()
	for d := 1; d < devices; d++ {
		zeros, err := blank.Run(session.Call{Device: d})
		if err != nil {
			return nil, err
		}
		in = append(in, zeros)
	}
	all, err := runOnce(sum, in)
	if err != nil {
		return nil, err
	}
	free(all[0]...)
	all[0] = l
	return all, nil
}

// broadcastPrograms make the zeros of the other devices, and the sum.
func (n *Net) broadcastPrograms(s []shapes.Shape, devices int) (blank, sum *session.Program, err error) {
	blanks := n.blanks(s)
	broadcast := n.prepare(fmt.Sprint("broadcast/", devices, "/", s), func() (*hlo.Program, error) { return n.broadcastProgram(s, devices) }, nil)
	if blank, err = n.wait(n.Context(), blanks, nil); err == nil {
		sum, err = n.wait(n.Context(), broadcast, nil)
	}
	return blank, sum, err
}

// blanks begins to make a program of zeros ready.
func (n *Net) blanks(s []shapes.Shape) *future {
	return n.prepare(fmt.Sprint("blanks/", s), func() (*hlo.Program, error) {
		return n.trace("blanks", func(t *trace) []*Node { return t.zeros(s) })
	}, nil)
}

// broadcastProgram adds arrays up over the devices.
func (n *Net) broadcastProgram(l []shapes.Shape, devices int) (*hlo.Program, error) {
	return n.traceFor(devices, "broadcast", func(t *trace) (out []*Node) {
		for i, s := range l {
			x := Parameter(t.g, "x"+itoa(i), s)
			if s.DType == dtypes.Bool { // which NCCL does not add up
				x = ConvertDType(x, dtypes.Uint8)
			}
			out = append(out, ConvertDType(t.allReduce(x), s.DType))
		}
		return out
	})
}

// onDevice names a copy of an array.
type onDevice struct {
	*session.Array
	device int
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
