package fit

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// probed is the name of what a job's probe has found, in its log.
const probed = "probe"

// explain adds the steps that look where numbers come from that are not finite, when a
// chunk of so many steps has ended the job with them. They do what
// Net.explain does: the chunk's good steps once more, from the state that was
// kept, and a look at the next one.
func (b *jobBuilder) explain(p *portion, steps int, state []string, results, at string) error {
	n := b.net
	astray, err := n.astrayProgram(b.data, p.Part, steps)
	if err != nil {
		return err
	}
	c := n.plainSteps(p.Batch, steps)
	c.Accumulate = p.Accumulate
	c.Form = plan.Looped // how many steps to do is known by the device only
	again, err := n.epochProgram(b.data, c)
	if err != nil {
		return err
	}
	probe, err := n.probeProgram(b.data, p.Batch)
	if err != nil {
		return err
	}
	where := b.scratchNames("astray/where", "astray/first")
	after := make([]string, len(state)+1) // and the results, for which there is no use
	for i := range state {
		after[i] = fmt.Sprintf("%sastray/%d", b.prefix, i)
	}
	sources := b.sources(b.data)
	order := b.prefix + "order"
	for _, s := range []struct {
		program *hlo.Program
		inputs  []string
		names   []string
		read    []wire.Read
	}{
		{astray, []string{results, at}, where, nil},
		{again, append(append(append([]string{}, state...), sources...), order, b.prefix+"rate", where[0]), after, nil},
		{probe, append(append(append([]string{}, after[:len(n.layout.variables)]...), sources...), order, where[1]), nil, []wire.Read{{Output: 0, Name: probed}}},
	} {
		x, err := n.session.Draft(s.program, session.Options{Flags: n.flags(s.program, nil), Origin: n.config.Origin})
		if err != nil {
			return err
		}
		b.addStep(session.JobStep{Program: x, When: wire.NotFinite, Inputs: session.Named(s.inputs...), Names: s.names, Read: s.read})
	}
	return nil
}

// astrayProgram says how many of a chunk's steps were good, as epochProgram takes it to do
// these again, and where the batch of the next one begins: results, where [place,
// replica, turns] → [place, replica, steps], first.
func (n *Net) astrayProgram(s *Set, c plan.Part, steps int) (*hlo.Program, error) {
	return n.trace("astray", func(t *trace) []*Node {
		loss := Slice(Parameter(t.g, "results", n.resultsOf(s, c)), AxisRange(0, steps), AxisRange(0, 1))
		place := Reshape(Slice(Parameter(t.g, "where", shapes.Make(dtypes.Int32, 3)), AxisRange(0, 1)))
		number := Iota(t.g, shapes.Make(dtypes.Int32, steps, 1), 0)
		good := ReduceAllMin(Where(IsFinite(loss), BroadcastToDims(t.scalar(int32(steps)), steps, 1), number))
		return []*Node{Stack([]*Node{place, t.scalar(int32(0)), good}, 0), Add(place, Mul(good, t.scalar(int32(c.Batch))))}
	})
}
