package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/fused"
	"gaiden/lib/lower"
)

// Set is the kernels of a net's steps.
type Set struct {
	// Layers has a kernel or more for each layer and its gradient. nil: only recurrences have
	// kernels, inside GoMLX's graph.
	Layers *fused.Plan
	// Loops are why recurrences have no kernels.
	Loops []string
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
	if s == nil {
		return ""
	}
	text := "kernels          for recurrent layers only\n"
	if s.Layers != nil {
		text = s.Layers.String()
	}
	for _, why := range s.Loops {
		text += "XLA's loop       " + why + "\n"
	}
	return text
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
		case set.Layers != nil && t.largeMatmuls(batch):
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
	var loops []string
	for _, why := range t.Recurrences {
		if why != "" && !slices.Contains(loops, why) {
			loops = append(loops, why)
		}
	}
	plan, err := t.layers()
	if err == nil || slices.Contains(t.Recurrences, "") {
		return &Set{Layers: plan, Loops: loops}, nil
	}
	if loops != nil {
		err = fmt.Errorf("%w; %s", err, strings.Join(loops, "; "))
	}
	return nil, err
}

// layers divides the net into fused operations.
func (t Training) layers() (*fused.Plan, error) {
	switch {
	case t.Measured:
		return nil, errors.New("metrics need the net's output, which Gaiden's kernels do not write")
	case t.OtherLoss != "":
		return nil, fmt.Errorf("Gaiden has none for %s", t.OtherLoss)
	case t.Rule == nil:
		return nil, errors.New("Gaiden has none for this optimizer: want one with an element-wise rule")
	case t.Numbers > math.MaxInt32:
		return nil, fmt.Errorf("Gaiden has none for the %d numbers of the data: want less than 2³¹", t.Numbers)
	}
	for _, v := range t.Variables {
		if v.Trainable && v.Shape.DType != dtypes.Float32 {
			return nil, fmt.Errorf("Gaiden has none for %s of %s: want Float32", v.Name, v.Shape.DType)
		}
	}
	p, err := fused.NewPlan(t.Net)
	if err != nil {
		return nil, err
	}
	// What kernels gain is in their gradients, which are updates at once, and they cannot be with a
	// packed state.
	var all, some int
	for _, v := range t.Variables {
		if v.Trainable {
			all += v.Shape.Size()
			if layer, _, _ := strings.Cut(v.Name, "/"); p.HasKernel(layer) {
				some += v.Shape.Size()
			}
		}
	}
	if 2*some < all {
		return nil, fmt.Errorf("Gaiden has some for layers with %d of %d weights: want half of them", some, all)
	}
	return p, nil
}
