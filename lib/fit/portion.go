package fit

import (
	"fmt"

	"gaiden/lib/lower/plan"
)

// portion is the steps of an epoch that one program does.
type portion struct {
	plan.Part
	steps *stepPrograms
}

// key tells portions apart whose steps differ in pace.
func (p *portion) key(s *Set) string { return fmt.Sprintf("%s/%d/%d", s.key(), p.Batch, p.Devices) }

// plainSteps are so many steps of a batch, for those that look at single steps.
func (n *Net) plainSteps(batch, limit int) plan.Part {
	return plan.Steps(n.target, n.convolves, batch, limit)
}
