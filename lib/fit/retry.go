package fit

import "strings"

// What a run says when memory is short: notebooks/pages/trouble.md explains it.
const (
	noteOneChunk = "there is memory for the weights of one chunk of steps at a time: the device waits between them"
	noteOneTurn  = "there is memory for the weights of one step at a time: the device waits after each"
)

// retry requests the chunks again that had no memory, one after the other, or, where the
// first was the only one, one turn after the other. So does the run from here on.
func (r *run) retry() error {
	failed := r.pending
	r.pending = nil
	if failed[0].behind {
		r.memory = max(r.memory, oneChunk)
		r.note(noteOneChunk)
	} else {
		r.memory = oneTurn
		r.history.Note = strings.TrimSuffix(strings.TrimSuffix(r.history.Note, noteOneChunk), "; ")
		r.note(noteOneTurn)
	}
	for _, c := range failed {
		defer c.order.hold().release()
		c.drop()
	}
	r.net.session.Wait() // what it says of them is known
	for _, c := range failed {
		if c.first == 0 { // an epoch's: the order may have failed with it, or have come of what failed
			c.order.arrays.free()
			if err := r.shuffle(c.order); err != nil {
				return err
			}
		}
		for turn := 0; turn < c.turns; {
			turns := c.turns - turn
			if r.turnByTurn(c.portion) {
				turns = 1
			}
			retried, err := r.request(r.state, c.portion, c.order, c.first+turn*c.portion.Turn()*c.portion.Batch, turns)
			if err != nil {
				return err
			}
			r.pending, turn = append(r.pending, retried), turn+turns
			if err := r.await(0); err != nil {
				return err
			}
		}
	}
	return nil
}
