package fit

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// portion is the steps of an epoch that one program does.
type portion struct {
	plan.Part
	steps *stepPrograms
}

// key distinguishes portions whose steps take different times.
func (p *portion) key(s *Set) string { return fmt.Sprintf("%s/%d/%d", s.key(), p.Batch, p.Devices) }

// plainSteps are so many steps of a batch, for those that look at single steps.
func (n *Net) plainSteps(batch, limit int) plan.Part {
	return plan.Steps(n.target, n.convolves, batch, limit)
}

// stepPrograms are the programs that do a chunk of steps.
type stepPrograms struct {
	plan.Part
	net                 *Net
	copiedSlots         []int // see Net.copiedSlots
	futures             [3]*future
	start, main, finish *session.Program
}

// stepPrograms begins to make the programs ready.
func (n *Net) stepPrograms(s *Set, c plan.Part) *stepPrograms {
	x := &stepPrograms{Part: c, net: n, copiedSlots: n.copiedSlots(c)}
	for i, part := range []struct {
		name   string
		build  func() (*hlo.Program, error)
		donate func(*hlo.Program) []bool
	}{
		{"epoch/" + s.key() + "/" + itoa(s.N), func() (*hlo.Program, error) { return n.epochProgram(s, c) }, n.donated(c)},
		{"start", func() (*hlo.Program, error) { return n.startProgram(s, c) }, nil},
		{"finish", func() (*hlo.Program, error) { return n.finishProgram(s, c) }, nil},
	} {
		if part.name == "start" && !c.Form.Single() || part.name == "finish" && (!c.Form.Single() || c.Packed) {
			continue
		}
		x.futures[i] = n.prepare(fmt.Sprintf("%s/%s/%d", part.name, c.Key(), n.columns(s)), part.build, part.donate)
	}
	return x
}

// ready waits for them.
func (x *stepPrograms) ready(ctx context.Context, alive func()) error {
	for i, to := range []**session.Program{&x.main, &x.start, &x.finish} {
		if x.futures[i] == nil {
			continue
		}
		p, err := x.net.wait(ctx, x.futures[i], alive)
		if err != nil {
			return err
		}
		*to = p
	}
	return nil
}

// run does some turns from example first of the order on: the state after them,
// and their results. The state it is given is kept, if it is not packed.
func (x *stepPrograms) run(state copies, s *Set, order, rate copies, first, turns int) (after copies, results *session.Array, err error) {
	sources, err := x.net.copiesOn(s.all(), x.Devices)
	if err != nil {
		return nil, nil, err
	}
	if x.OwnRows {
		first /= x.Devices
	}
	fixed := make(copies, x.Devices)
	for d := range fixed {
		where, err := x.net.session.Put([]int32{int32(first), int32(d), int32(turns)}, shapes.Make(dtypes.Int32, 3), d)
		if err != nil {
			return nil, nil, err
		}
		defer where.Finalize()
		fixed[d] = append(append(append(append([]*session.Array{}, sources[d]...), order[d]...), rate[d]...), where)
	}
	n := len(state[0])
	if !x.Form.Single() {
		out, err := runOnce(x.main, state, fixed)
		if err != nil {
			return nil, nil, err
		}
		for d := 1; d < len(out); d++ {
			free(out[d][n])
		}
		return out.slice(0, n), out[0][n], nil
	}
	out, err := x.startState(state)
	for i := 0; i < turns && err == nil; i++ {
		in := out
		if out, err = runOnce(x.main, in, fixed); x.Form == plan.Fresh && i > 0 {
			x.freeState(in)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	last := out.slice(n, n+1)
	if !x.Packed {
		if last, err = runOnce(x.finish, out.slice(0, len(x.net.layout.variables)), last); err != nil {
			return nil, nil, err
		}
		out.slice(n, n+1).free()
	}
	for d := range out {
		free(out[d][n+1]) // begin
		if d > 0 {
			free(last[d]...)
		}
	}
	return out.slice(0, n), last[0][0], nil
}

// startState is what the first turn of Single programs takes: the state, copied where the
// turn changes it in place, empty results, and the number of the turn.
func (x *stepPrograms) startState(state copies) (copies, error) {
	old := make(copies, len(state))
	for d := range state {
		for _, i := range x.copiedSlots {
			old[d] = append(old[d], state[d][i])
		}
	}
	started, err := runOnce(x.start, old)
	if err != nil {
		return nil, err
	}
	in := make(copies, len(state))
	for d := range state {
		in[d] = slices.Clone(state[d])
		for k, i := range x.copiedSlots {
			in[d][i] = started[d][k]
		}
		in[d] = append(in[d], started[d][len(x.copiedSlots):]...)
	}
	return in, nil
}

// freeState frees the state that a Fresh turn has read, but for what it has
// taken.
func (x *stepPrograms) freeState(state copies) {
	n := len(x.net.layout.all())
	for d := range state {
		for i, a := range state[d][:n] {
			if !slices.Contains(x.copiedSlots, i) { // of a Fresh chunk, one at most
				a.Finalize()
			}
		}
	}
}

// donated are the parameters whose memory a program of an epoch takes for what it
// returns: what was copied for it or is packed, and what is between two runs.
func (n *Net) donated(c plan.Part) func(p *hlo.Program) []bool {
	return func(p *hlo.Program) []bool {
		mask := make([]bool, len(p.Inputs))
		state := len(n.slots(c))
		for i := range state {
			mask[i] = c.Packed
		}
		if c.Form.Single() {
			for _, i := range append(n.copiedSlots(c), state, state+1) {
				mask[i] = true
			}
		}
		return mask
	}
}
