package fit

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// minBroadcastBytes is plan's, but in tests.
var minBroadcastBytes = plan.BroadcastBytes

// broadcast gives the other devices what device 0 has.
func (r *run) broadcast(l []*session.Array) (copies, error) {
	n := r.net
	if !r.usesAllReduce() {
		return replicate(l, r.devices)
	}
	p, err := r.wait(r.ctx, r.broadcastProgram())
	if err != nil {
		return nil, err
	}
	empty, err := r.wait(r.ctx, r.zeroState())
	if err != nil {
		return nil, err
	}
	all, replicas := copies{l}, make(copies, r.devices)
	for d := range r.devices {
		if replicas[d], err = n.integers(d, d); err != nil {
			return nil, err
		}
		if d > 0 {
			none, err := empty.Run(session.Call{Device: d})
			if err != nil {
				return nil, err
			}
			defer free(none...)
			all = append(all, none)
		}
	}
	defer replicas.free()
	sent, err := runOnce(p, all, replicas)
	if err != nil {
		return nil, err
	}
	free(sent[0]...) // what device 0 had stays
	sent[0] = l
	return sent, nil
}

// usesAllReduce says whether there are other devices, and the state is large enough and made
// of what they can add up.
func (r *run) usesAllReduce() bool {
	bytes := 0
	for _, s := range r.net.slots(r.main.Part) {
		switch s.shape.DType {
		case dtypes.Float32, dtypes.Int32, dtypes.Uint64:
			bytes += int(s.shape.ByteSize())
		default:
			return false
		}
	}
	return r.devices > 1 && bytes >= minBroadcastBytes
}

// zeroState begins to make the program ready that makes a state of zeros.
func (r *run) zeroState() *future {
	n := r.net
	return n.prepare(fmt.Sprintf("blank/%t", r.main.Packed), func() (*hlo.Program, error) {
		return n.trace("blank", func(t *trace) (zeros []*Node) {
			for _, s := range n.slots(r.main.Part) {
				zeros = append(zeros, Zeros(t.g, s.shape))
			}
			return zeros
		})
	}, nil)
}

// broadcastProgram begins to make the program ready that adds the state of device 0 to
// zeros of the others: state, replica → state. Numbers are added as integers of the same
// bits, so that each comes as it was, be it -0 or not a number.
func (r *run) broadcastProgram() *future {
	n := r.net
	return n.prepare(fmt.Sprintf("broadcast/%d/%t", r.devices, r.main.Packed), func() (*hlo.Program, error) {
		return n.traceFor(r.devices, "broadcast", func(t *trace) (out []*Node) {
			state := t.slots(n.slots(r.main.Part))
			replica := Parameter(t.g, "replica", shapes.Make(dtypes.Int32))
			first := Equal(replica, t.scalar(int32(0)))
			for _, x := range state {
				bits := x
				if x.DType() == dtypes.Float32 {
					bits = Bitcast(x, dtypes.Int32)
				}
				sum := t.allReduce(Mul(bits, ConvertDType(first, bits.DType())))
				if x.DType() == dtypes.Float32 {
					sum = Bitcast(sum, dtypes.Float32)
				}
				out = append(out, sum)
			}
			return out
		})
	}, nil)
}
