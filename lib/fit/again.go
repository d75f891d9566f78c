package fit

import (
	"errors"

	"gaiden/lib/engine/wire"
)

// crowded says whether there was no memory for the first chunk beside the one that
// was at work when it was asked for. The state that it began with is still there, if it is
// not packed.
func (r *run) crowded(err error) bool {
	return errors.Is(err, wire.OutOfMemory) && r.asked[0].beside && !r.asked[0].portion.Packed
}

// again asks anew for the chunks that came to nothing, one after the other. From here on
// the run has no chunk beside another.
func (r *run) again() error {
	failed := r.asked
	r.asked, r.alone = nil, true
	r.note("there is memory for the weights of one chunk of steps at a time: the device waits between them")
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
		anew, err := r.ask(r.state, c.portion, c.order, c.first, c.turns)
		if err != nil {
			return err
		}
		r.asked = append(r.asked, anew)
		if err := r.drain(0); err != nil {
			return err
		}
	}
	return nil
}
