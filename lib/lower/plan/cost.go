package plan

import (
	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
)

// unrolls are how many steps the body of a loop may hold, the best first.
var unrolls = []int{10, 8, 5, 4}

// loopFLOPs is the work of a step from which it is a program of its own on a GPU.
func (t Training) loopFLOPs() float64 {
	if t.Target.Hopper() && t.FeedForward && t.Work.FLOPs >= lower.MatmulIntensity*t.Work.Bytes {
		return lower.SingleMatmulFLOPs
	}
	return lower.SingleStepFLOPs
}

// largeMatmuls says whether matrix multiplications that cuBLAS does faster are at least
// half of what the net computes on its way forward.
func (t Training) largeMatmuls(batch int) bool {
	large := 0.0
	for _, v := range t.Variables {
		if f := 2 * float64(batch) * float64(v.Shape.Size()); v.Trainable && v.Shape.Rank() == 2 && f >= lower.LargeMatmulFLOPs {
			large += f
		}
	}
	return large > 0 && large >= t.ForwardFLOPs*float64(batch)/2
}

// Unlooped says whether steps and batches of a net are not to be put into a loop: XLA's
// CPU compiler has no fast convolutions inside of one.
func Unlooped(t lower.Target, convolves bool) bool { return t.CPU() && convolves }

// Flags are XLA's options for a program on a target, besides those that the user has set:
// whether its kernels become CUDA graphs, and whether those run side by side, which is
// good for small kernels. inPlace says whether the program takes the memory of most of
// its parameters, or has a loop and takes that of some, as one that generates a text. Convolutions of cuDNN stay out of graphs: a worker that loads such a
// program from disk fails to capture a kernel that was never run.
func Flags(t lower.Target, p *hlo.Program, inPlace, oneDNN bool) map[string]any {
	switch convolves := p.Has("convolution"); {
	case t.CPU() && oneDNN && convolves:
		return map[string]any{"xla_cpu_use_onednn": true, "xla_cpu_experimental_onednn_custom_call": true}
	case t.CPU() || !t.Graphs():
	case !inPlace && (p.Size() >= lower.ManyOps || max(len(p.Inputs), len(p.Outputs)) >= lower.PackedArrays && moves(p)):
		return map[string]any{"xla_gpu_enable_command_buffer": ""}
	case p.Size() >= lower.ManyOps || convolves:
	default:
		return map[string]any{"xla_gpu_command_buffer_scheduling_mode?": "CONCURRENT"}
	}
	return nil
}

// moves says whether a program only moves its many arrays, as one that packs a state does: to
// change a graph for each that lies elsewhere costs more than to launch a copy.
func moves(p *hlo.Program) bool {
	for _, op := range []string{"while", "dot", "convolution", "custom_call", "reduce", "multiply"} {
		if p.Has(op) {
			return false
		}
	}
	return true
}
