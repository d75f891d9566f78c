package fit

import (
	"errors"
	"strings"

	"gaiden/lib/engine/wire"
	"gaiden/lib/lower/plan"
)

// What a run says when memory is short: notebooks/pages/trouble.md explains it.
const (
	noteAlone   = "there is memory for the weights of one chunk of steps at a time: the device waits between them"
	noteStepped = "there is memory for the weights of one step at a time: the device waits after each"
)

// crowded says whether there was no memory for the first chunk beside the one that was at
// work when it was asked for, or for the weights of one of its turns beside those of the
// turn before and those that have the names. The state that it began with is still there,
// if it is not packed.
func (r *run) crowded(err error) bool {
	c := r.asked[0]
	return errors.Is(err, wire.OutOfMemory) && !c.portion.Packed && (c.beside || c.portion.Form == plan.Fresh && c.turns > 1)
}

// again requests the chunks again that came to nothing, one after the other, or, where the
// first had no other beside it, for one turn after the other. From here on so does the run.
func (r *run) again() error {
	failed := r.asked
	r.asked, r.alone = nil, true
	if note := noteAlone; failed[0].beside {
		r.note(note)
	} else {
		r.stepped = true
		r.history.Note = strings.TrimSuffix(strings.TrimSuffix(r.history.Note, note), "; ")
		r.note(noteStepped)
	}
	for _, c := range failed {
		defer c.order.hold().release()
		c.drop()
	}
	r.net.session.Wait() // what it says of them is known
	for _, c := range failed {
		if c.first == 0 { // an epoch's: the order may have failed with it, or have come of what failed
			c.order.order.free()
			if err := r.shuffle(c.order); err != nil {
				return err
			}
		}
		for turn := 0; turn < c.turns; {
			turns := c.turns - turn
			if r.paces(c.portion) {
				turns = 1
			}
			retried, err := r.ask(r.state, c.portion, c.order, c.first+turn*c.portion.Turn()*c.portion.Batch, turns)
			if err != nil {
				return err
			}
			r.asked, turn = append(r.asked, retried), turn+turns
			if err := r.drain(0); err != nil {
				return err
			}
		}
	}
	return nil
}

// paces says whether a portion's turns are asked for one by one, since memory is short.
func (r *run) paces(p *portion) bool { return r.stepped && p.Form == plan.Fresh }
