package fit

import (
	"fmt"

	"gaiden/lib/lower/plan"
)

// portion is the steps of an epoch that one program does.
type portion struct {
	plan.Part
	steps *steps
}

// key tells portions apart whose steps differ in pace.
func (p *portion) key(s *Set) string { return fmt.Sprintf("%s/%d/%d", s.key(), p.Batch, p.Devices) }

// Loop is what an epoch's steps are: [AutoLoop], [LoopedSteps] or [SingleSteps].
type Loop = plan.Loop

const (
	// AutoLoop is SingleSteps for heavy steps on one GPU and for nets with convolutions on a
	// CPU, where they are faster, and LoopedSteps for others.
	AutoLoop = plan.AutoLoop
	// LoopedSteps are a loop in one program.
	LoopedSteps = plan.LoopedSteps
	// SingleSteps are a program that is run for each.
	SingleSteps = plan.SingleSteps
)

// plainSteps are so many steps of a batch, for those that look at single steps.
func (n *Net) plainSteps(batch, limit int) plan.Part {
	return plan.Steps(n.target, n.convolves, batch, limit)
}
