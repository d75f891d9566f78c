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

// probed and probedBefore are the names, in a job's log, of what its probe has found at the step
// whose numbers are not finite and at the one before it.
const probed, probedBefore = "probe", "probe before"

// explainStep is a step that looks where numbers come from that are not finite.
type explainStep struct {
	program       *hlo.Program
	inputs, names []string
	read          []wire.Read
}

// explain adds the steps that look where numbers come from that are not finite, when a
// chunk of so many steps has ended the job with them. They do what
// Net.explain does: the chunk's good steps once more, from the state that was
// kept, and a look at the next one; and the same for the step before it.
func (b *jobBuilder) explain(p *portion, steps int, state []string, results, at string) error {
	n := b.net
	astray, err := n.astrayProgram(b.data, p.Part, steps)
	if err != nil {
		return err
	}
	c := n.plainSteps(p.Batch, max(2, steps)) // a program of one turn would always do it
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
	where := b.scratchNames("astray/where", "astray/first", "astray/where before", "astray/first before")
	after := make([]string, len(state)+1) // and the results, for which there is no use
	for i := range state {
		after[i] = fmt.Sprintf("%sastray/%d", b.prefix, i)
	}
	sources := b.sources(b.data)
	order := b.prefix + "order"
	drafts := map[*hlo.Program]*session.Program{}
	redo := func(at, first, name string) []explainStep {
		return []explainStep{
			{again, append(append(append([]string{}, state...), sources...), order, b.prefix+"rate", at), after, nil},
			{probe, append(append(append([]string{}, after[:len(n.layout.variables)]...), sources...), order, first), nil, []wire.Read{{Output: 0, Name: name}}},
		}
	}
	all := append([]explainStep{{astray, []string{results, at}, where, nil}}, redo(where[0], where[1], probed)...)
	for _, s := range append(all, redo(where[2], where[3], probedBefore)...) {
		x := drafts[s.program]
		if x == nil {
			if x, err = n.session.Draft(s.program, session.Options{Flags: n.flags(s.program, nil), Origin: n.config.Origin}); err != nil {
				return err
			}
			drafts[s.program] = x
		}
		b.addStep(session.JobStep{Program: x, When: wire.NotFinite, Inputs: session.Named(s.inputs...), Names: s.names, Read: s.read})
	}
	return nil
}

// astrayProgram says how many of a chunk's steps were good, as epochProgram takes it to do
// these again, and where the batch of the next one begins; and the same of the step before, which
// is itself for the first: results, where [place, replica, turns] → [place, replica, steps], first,
// [place, replica, steps], first.
func (n *Net) astrayProgram(s *Set, c plan.Part, steps int) (*hlo.Program, error) {
	return n.trace("astray", func(t *trace) []*Node {
		loss := Slice(Parameter(t.g, "results", n.resultsOf(s, c)), AxisRange(0, steps), AxisRange(0, 1))
		place := Reshape(Slice(Parameter(t.g, "where", shapes.Make(dtypes.Int32, 3)), AxisRange(0, 1)))
		number := Iota(t.g, shapes.Make(dtypes.Int32, steps, 1), 0)
		good := ReduceAllMin(Where(IsFinite(loss), BroadcastToDims(t.scalar(int32(steps)), steps, 1), number))
		var out []*Node
		for _, k := range []*Node{good, MaxScalar(AddScalar(good, -1), 0)} {
			out = append(out, Stack([]*Node{place, t.scalar(int32(0)), k}, 0), Add(place, Mul(k, t.scalar(int32(c.Batch)))))
		}
		return out
	})
}
