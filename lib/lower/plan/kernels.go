package plan

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Set is the kernels of a net's steps.
type Set struct {
	// Layers has a kernel or more for each layer and its gradient. nil: only LSTM layers have
	// kernels, inside GoMLX's graph.
	Layers *fused.Plan
}

func (s *Set) kind() string {
	switch {
	case s == nil:
		return "XLA"
	case s.Layers != nil:
		return "layers"
	}
	return "some"
}

// String lists the layers with their kernels.
func (s *Set) String() string {
	switch {
	case s == nil:
		return ""
	case s.Layers != nil:
		return s.Layers.String()
	}
	return "kernels          for LSTM layers only\n"
}

// kernels decides which kernels the steps of a batch have; nil: XLA's.
func (p *Plan) kernels(batch int) *Set {
	t := p.Training
	set, err := t.Available()
	switch {
	case t.Settings.Kernels == PlainKernels:
		if set == nil {
			set = &Set{}
		}
		return set
	case !t.Target.Triton:
		p.because("XLA's kernels: Gaiden's are for CUDA GPUs")
	case t.Settings.Kernels == XLAKernels:
		p.because("XLA's kernels: as requested")
	case t.Accumulate > 1:
		p.because("XLA's kernels: a batch is computed in %d parts", t.Accumulate)
	case p.Devices > 1:
		p.because("XLA's kernels: on several devices")
	case err != nil:
		p.because("XLA's kernels: %v", err)
	case t.Settings.Kernels == FusedKernels:
		p.because("Gaiden's kernels: as requested")
		return set
	default:
		known := Known{}
		if t.Known != nil {
			known = t.Known(batch)
		}
		switch {
		case known.Refused != "":
			p.because("XLA's kernels: the device does not take Gaiden's: %s", known.Refused)
		case !known.nothing() && known.PreferXLA:
			p.because("XLA's kernels: measured %.1f µs a step, with Gaiden's %.1f", known.XLA, known.Fused)
		case !known.nothing():
			p.because("Gaiden's kernels: measured %.1f µs a step, with XLA's %.1f", known.Fused, known.XLA)
			return set
		case t.largeMatmuls(batch):
			p.because("XLA's kernels: most of the work is in matrix multiplications of %.0e FLOPs and more; Tune measures Gaiden's", lower.LargeMatmulFLOPs)
		default:
			p.because("Gaiden's kernels: expected to be faster; Tune measures it")
			return set
		}
	}
	return nil
}

// Available are the kernels that steps could have on a GPU. Its error says why there are
// none.
func (t Training) Available() (*Set, error) {
	plan, err := t.layers()
	if err == nil {
		return &Set{Layers: plan}, nil
	}
	if slices.ContainsFunc(t.Net.Layers, func(l models.Layer) bool { _, is := PlainLSTM(l); return is }) {
		return &Set{}, nil
	}
	return nil, err
}

// layers divides the net into fused operations.
func (t Training) layers() (*fused.Plan, error) {
	switch {
	case t.Measured:
		return nil, errors.New("metrics need the net's output, which Gaiden's kernels do not write")
	case !t.CrossEntropy:
		return nil, errors.New("Gaiden has none for this loss: want cross entropy of labels")
	case t.Rule == nil:
		return nil, errors.New("Gaiden has none for this optimizer: want one with an element-wise rule")
	case t.Numbers > math.MaxInt32:
		return nil, fmt.Errorf("Gaiden has none for the %d numbers of the data: want less than 2³¹", t.Numbers)
	}
	for _, v := range t.Variables {
		switch {
		case v.Trainable && v.Shape.DType != dtypes.Float32:
			return nil, fmt.Errorf("Gaiden has none for %s of %s: want Float32", v.Name, v.Shape.DType)
		case !v.Trainable && v.Shape.DType.IsFloat():
			return nil, fmt.Errorf("Gaiden has none for %s, which a step changes without a gradient", v.Name)
		}
	}
	return fused.NewPlan(t.Net)
}

// PlainLSTM is a layer's LSTM, if kernels can do it: not too wide, and with no settings
// but name, units and first values.
func PlainLSTM(layer models.Layer) (l models.LSTM, is bool) {
	if l, is = layer.(models.LSTM); !is || l.Units > kernels.LargestUnits {
		return l, false
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Name", "Units", "Init":
		default:
			if !v.Field(i).IsZero() {
				return l, false
			}
		}
	}
	return l, true
}
