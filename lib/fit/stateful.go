package fit

import (
	"fmt"
	"slices"
)

// What a net with layers that are Stateful needs: their state continues from batch
// to batch, so example i of a batch continues example i of the one before.

// ResetState sets the state of stateful layers to zero.
func (n *Net) ResetState() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.assertFree(); err != nil {
		return err
	}
	slots := n.carriedSlots()
	if len(slots) == 0 {
		return nil
	}
	zeros, err := n.zeros(slots)
	if err != nil {
		return err
	}
	defer free(zeros...)
	return n.bind(slots, zeros)
}

// carriedSlots are the slots of what is carried on.
func (n *Net) carriedSlots() []slot {
	if count, _ := n.model.Sequences(); count == 0 {
		return nil
	}
	var l []slot
	for _, v := range n.layout.variables {
		if slices.Contains(n.model.States(), v.name) {
			l = append(l, v)
		}
	}
	return l
}

// checkCarried refuses to train a net that carries state on batches that do not
// continue each other.
func (n *Net) checkCarried(s *Set, t Train) error {
	count, layer := n.model.Sequences()
	if count == 0 {
		return nil
	}
	who := fmt.Sprintf("fit: %s: layer %s carries on %d sequences from batch to batch", n.name, layer, count)
	switch {
	case t.Batch != count:
		return fmt.Errorf("%s: got a batch of %d, want %d", who, t.Batch, count)
	case s.N%count != 0:
		return fmt.Errorf("%s: got %d examples, want a multiple", who, s.N)
	case !t.InOrder:
		return fmt.Errorf("%s: got shuffled examples: want Train.InOrder, and example i of a batch to continue that of the one before", who)
	case n.config.Devices > 1:
		return fmt.Errorf("%s: got %d devices: want 1", who, n.config.Devices)
	}
	return nil
}

// resetState begins an epoch with zeros.
func (r *run) resetState() error {
	slots := r.net.carriedSlots()
	if len(slots) == 0 || r.KeepState {
		return nil
	}
	zeros, err := r.net.zeros(slots)
	if err != nil {
		return err
	}
	state := slices.Clone(r.state[0])
	for i, v := range r.net.layout.variables {
		for k, s := range slots {
			if v.name == s.name {
				state[i].Finalize()
				state[i] = zeros[k]
			}
		}
	}
	r.state = copies{state}
	return nil
}
