package fit

import (
	"fmt"
	"slices"
	"strings"

	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// optimizerOf is the optimizer of a variable; nil: it is frozen.
func (n *Net) optimizerOf(v slot) optim.Optimizer {
	if !v.shape.DType.IsFloat() {
		return n.config.Optimizer
	}
	return optim.For(n.config.Optimizer, v.name, v.shape)
}

// patternsFit proves that each pattern of the optimizer's groups, of LoRA and of Int8 is that of
// some variable.
func (n *Net) patternsFit(names []string) error {
	if p := n.model.Unadapted(names); p != "" {
		return fmt.Errorf("fit: %s: no layer matches the pattern %q of LoRA (dense layers) or Int8 (these and embeddings); %q matches all; the variables are %s", n.name, p, "*", strings.Join(names, ", "))
	}
	if p := optim.Unused(n.config.Optimizer, names); p != "" {
		return fmt.Errorf("fit: %s: no variable matches %q of optim.Groups: want a layer, or a pattern such as \"body/*\", of some of %s", n.name, p, strings.Join(names, ", "))
	}
	return nil
}

// averaged are variables whose values Evaluate and Predict use: averages of weights in place
// of those that have one, once a step has been done.
func (n *Net) averaged() ([]slot, error) {
	slots := n.usedSlots()
	if slices.EqualFunc(slots, n.layout.variables, func(a, b slot) bool { return a.name == b.name }) {
		return slots, nil
	}
	done, err := n.stepsDone()
	if err != nil {
		return nil, err
	}
	left, err := n.stepsLeftOut()
	if err != nil || done == left {
		return n.layout.variables, err
	}
	return slots, nil
}

// stepsLeftOut is how many of the steps done were none, for their gradients were not finite.
func (n *Net) stepsLeftOut() (int, error) {
	if !n.config.F16 {
		return 0, nil
	}
	scale, err := n.state([]slot{{name: lossScale, shape: lossScaleShape}})
	if err != nil {
		return 0, err
	}
	defer free(scale...)
	parts := make([]float32, lossScaleShape.Size())
	err = scale[0].Values(parts)
	return int(parts[2]), err
}

// stepsDone is how many training steps the net has done.
func (n *Net) stepsDone() (int, error) {
	step, err := n.state([]slot{n.layout.step})
	if err != nil {
		return 0, err
	}
	defer free(step...)
	done := make([]int32, 1)
	err = step[0].Values(done)
	return int(done[0]), err
}

// usedSlots are the variables, or the averages of those that have one.
func (n *Net) usedSlots() []slot {
	slots := slices.Clone(n.layout.variables)
	for k, i := range n.layout.trained {
		if optim.Averages(n.layout.optimizer[k]) {
			moments := momentsOf(&n.layout, k, n.layout.moments)
			slots[i] = moments[len(moments)-1]
		}
	}
	return slots
}

// used are the arrays of averaged.
func (n *Net) used() ([]*session.Array, error) {
	slots, err := n.averaged()
	if err != nil {
		return nil, err
	}
	return n.state(slots)
}
