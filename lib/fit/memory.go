package fit

import (
	"errors"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/models"
)

// withSize makes an error of memory one of the net's own arrays.
func (n *Net) withSize(err error) error {
	var why *wire.Error
	if !errors.Is(err, wire.OutOfMemory) || !errors.As(err, &why) {
		return err
	}
	return &result.MemoryError{Net: n.name, Step: n.stateBytes(), Free: n.freeBytes(), Err: why}
}

// withBatchHint makes an error of memory one that says which batch would fit.
func (n *Net) withBatchHint(err error, s *Set, batch int) error {
	if !errors.Is(err, wire.OutOfMemory) {
		return err
	}
	free := n.freeBytes()
	state, kept := n.stepBytes(s, batch)
	e := &result.MemoryError{Net: n.name, Batch: batch, Step: state + kept, Free: free, Err: err}
	e.Fits = largestBatch(batch, state, kept, free)
	if e.Fits > 0 && n.config.Step == nil {
		e.Settings = append(e.Settings, fmt.Sprintf("the same batch with Train.Accumulate: %d", (batch+e.Fits-1)/e.Fits))
	}
	names := n.model.Names()
	for i, l := range n.model.Layers {
		if r, is := l.(models.Repeat); is && r.Times > 1 && !r.Recompute {
			e.Settings = append(e.Settings, fmt.Sprintf("Recompute: true in the models.Repeat %s", names[i]))
		}
	}
	if len(n.attentions) > 0 {
		e.Settings = append(e.Settings, "shorter sequences")
	}
	return e
}

// freeBytes is how many bytes the device has left, or the notebook's quota, -1 where that is
// not known.
func (n *Net) freeBytes() int64 {
	st, err := n.session.Status()
	if err != nil || len(st.Devices) == 0 {
		return -1
	}
	left := st.Devices[0].Left
	if st.Devices[0].Memory == 0 { // an older session does not tell
		left = -1
	}
	own := st.Space(n.session.Space())
	if spare := max(0, own.Quota-own.Bytes); own.Quota > 0 && (left < 0 || spare < left) {
		left = spare
	}
	return left
}

// backwardFactor is how much more memory a step needs while it computes the gradients than
// what the forward pass keeps for them.
const backwardFactor = 2

// largestBatch is the largest half, quarter, … of a batch that fits.
func largestBatch(batch int, state, kept, free int64) int {
	if free < 0 {
		return batch / 2
	}
	for b := batch / 2; b > 0; b /= 2 {
		if state+backwardFactor*kept/int64(batch)*int64(b) <= free {
			return b
		}
	}
	return 0
}

// stepBytes is what a step needs in addition to the net's arrays and the data: whatever the
// batch, and for one of this size.
func (n *Net) stepBytes(s *Set, batch int) (state, kept int64) {
	if state = n.stateBytes(); n.config.Step != nil {
		return state, 0 // a step of your own has no forward pass that is known
	}
	p := &phaseWriter{net: n, data: s, batch: batch}
	_, err := n.trace("memory", func(t *trace) []*Node {
		w := p.fullStep(t)
		for _, r := range t.residuals(w.reverse, w.gradients) {
			kept += int64(r.Shape().ByteSize())
		}
		return w.gradients
	})
	if err != nil {
		return state, 0 // the step was built before: only an estimate is lost
	}
	return state, kept
}
