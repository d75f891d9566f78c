package plan

import (
	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
)

// The thresholds of all choices, in FLOPs of a step, bytes and counts. They are rules of
// thumb from measurements on H100s, H200s and CPUs of 2 cores; where kernels are chosen,
// package fit's tuner compares both forms of a net's step and has the last word.
const (
	// singleStepFLOPs is about a millisecond of work on a GPU: a heavier step hides what it
	// costs to run a program, and becomes a program of its own.
	singleStepFLOPs = 2e10
	// singleMatmulFLOPs is the same for matrix multiplications on a Hopper GPU.
	singleMatmulFLOPs = 1.5e11
	// matmulIntensity is how many FLOPs a byte a step has at least whose time is that of its
	// matrix multiplications.
	matmulIntensity = 20
	// unrollFLOPs is about 100 µs of work on a GPU: the body of a loop of heavier steps
	// holds one of them, as more gain nothing and take longer to compile.
	unrollFLOPs = 2e9
	// freshFLOPs is the work of a step on a CPU from which a chunk holds so few steps that
	// to copy the state for it costs more than to write each next state to fresh memory.
	freshFLOPs = 2e9
	// peeledBytes is the size of a state whose copy a loop on a CPU saves by doing its first
	// turn before it.
	peeledBytes = 4 << 20
	// countedSteps is how many steps an epoch has at least whose loop XLA counts. In others
	// the host looks at the device before each turn.
	countedSteps = 16
	// largeMatmulFLOPs is the work of a matrix multiplication from which cuBLAS is faster than
	// Gaiden's kernels.
	largeMatmulFLOPs = 2e9
	// packedArrays is how many arrays a state has at least that is packed: to run a program
	// costs the host about 2 µs for each.
	packedArrays = 100
	// severalDevicesFLOPs is the work of a step from which several GPUs are faster than one.
	severalDevicesFLOPs = 1e11
)

// unrolls are how many steps the body of a loop may hold, the best first.
var unrolls = []int{10, 8, 5, 4}

// loopFLOPs is the work of a step from which it is a program of its own on a GPU.
func (t Training) loopFLOPs() float64 {
	if t.Target.Hopper() && t.FeedForward && t.Work.FLOPs >= matmulIntensity*t.Work.Bytes {
		return singleMatmulFLOPs
	}
	return singleStepFLOPs
}

// largeMatmuls says whether matrix multiplications that cuBLAS does faster are at least
// half of what the net computes on its way forward.
func (t Training) largeMatmuls(batch int) bool {
	large := 0.0
	for _, v := range t.Variables {
		if f := 2 * float64(batch) * float64(v.Shape.Size()); v.Trainable && v.Shape.Rank() == 2 && f >= largeMatmulFLOPs {
			large += f
		}
	}
	return large > 0 && large >= t.ForwardFLOPs*float64(batch)/2
}

// Unlooped says whether steps and batches of a net are not to be put into a loop: XLA's
// CPU compiler has no fast convolutions inside of one.
func Unlooped(t lower.Target, convolves bool) bool { return t.CPU() && convolves }

// manyOps is the number of operations from which a program's kernels are launched one by
// one, not as CUDA graphs, unless it works in place: where arrays lie elsewhere in each
// run, the graphs must be changed each time.
const manyOps = 2000

// Flags are XLA's options for a program on a target, besides those that the user has set:
// whether its kernels become CUDA graphs, and whether those run side by side, which is
// good for small kernels. inPlace says whether the program takes the memory of most of
// its parameters. Convolutions of cuDNN stay out of graphs: a worker that loads such a
// program from disk fails to capture a kernel that was never run.
func Flags(t lower.Target, p *hlo.Program, inPlace, oneDNN bool) map[string]any {
	switch convolves := p.Has("convolution"); {
	case t.CPU() && oneDNN && convolves:
		return map[string]any{"xla_cpu_use_onednn": true, "xla_cpu_experimental_onednn_custom_call": true}
	case t.CPU() || !t.Graphs():
	case p.Size() >= manyOps && !inPlace:
		return map[string]any{"xla_gpu_enable_command_buffer": ""}
	case p.Size() >= manyOps || convolves:
	default:
		return map[string]any{"xla_gpu_command_buffer_scheduling_mode?": "CONCURRENT"}
	}
	return nil
}
