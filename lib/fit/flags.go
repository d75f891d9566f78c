package fit

import (
	"bytes"
	"maps"
	"strings"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
	"gaiden/lib/lower/xla"
	"gaiden/lib/session"
)

// compile makes a program ready.
func (n *Net) compile(p *hlo.Program, donate []bool) (*session.Program, error) {
	return n.session.Compile(p, session.Options{Donate: donate, Flags: n.flags(p, donate), FirstLook: n.config.FirstLook, Origin: n.config.Origin})
}

// many is the number of ops from which XLA launches a program's kernels one by
// one, not as CUDA graphs, if the program does not work in place: where arrays are
// elsewhere in each run the graphs have to be changed. Measured on H200s with
// ResNet152's step, 3,500 kernels, which take 31 ms: launched one by one 44 to 46
// ms a step, as graphs 60; in place 39, and 36 to 38 as graphs; on two in place 36
// and 29.
const many = 2000

// inPlace says whether a program takes the memory of most of its parameters.
func inPlace(donate []bool) bool {
	taken := 0
	for _, d := range donate {
		if d {
			taken++
		}
	}
	return 2*taken > len(donate)
}

// XLA's options for CUDA graphs: what is launched as such, and in what order. What
// does not need each other can run side by side, which is good for the small
// kernels of small nets: on an H200 Peaks took 34.4 µs a step in place of 44.2,
// SeedCNN 18.9 of 19.7, LeNet5 88.8 of 91.5. Kernels that fill the GPU are in each
// other's way: ResNet152 took 31.3 ms so and 28.7 one after the other, on two 19.7
// and 18.3; Keras' CNN 235 to 246 µs and 239.
//
// cuDNN's convolutions stay out of graphs, as XLA has it. In graphs the CNN took 239 µs
// for 249 and DeepPose 1 % less, but a worker that had the program from the disk, and
// so had not tried out its algorithms, ended its first step with cuDNN's status 5003, on
// an H100. A kernel that cuDNN has not run before may need to be loaded, which is not
// allowed while a graph is made.
const (
	graphs     = "xla_gpu_enable_command_buffer"
	scheduling = "xla_gpu_command_buffer_scheduling_mode?"
	concurrent = "CONCURRENT"
)

// flags are XLA's options for a program.
func (n *Net) flags(p *hlo.Program, donate []bool) map[string]any {
	flags := maps.Clone(n.config.Flags)
	set := func(name string, value any) {
		if flags == nil {
			flags = map[string]any{}
		}
		if _, is := flags[strings.TrimSuffix(name, "?")]; !is {
			flags[name] = value
		}
	}
	switch {
	case n.oneDNN() && convolves(p):
		set("xla_cpu_use_onednn", true)
		set("xla_cpu_experimental_onednn_custom_call", true)
	case n.target.CPU():
	case p.Size() >= many && !inPlace(donate):
		set(graphs, "")
	case p.Size() >= many || convolves(p):
	default:
		set(scheduling, concurrent)
	}
	return flags
}

func (n *Net) oneDNN() bool { return n.config.OneDNN && n.target.CPU() }

// convolves says whether a program has convolutions of XLA's.
func convolves(p *hlo.Program) bool {
	return has(p, "convolution")
}

// has says whether a program has such an op of StableHLO.
func has(p *hlo.Program, op string) bool {
	return bytes.Contains(p.Text(nil), []byte("stablehlo."+op))
}

// products are the threads of the session's own matrix products and LSTMs, 0 where the net is
// to have XLA's.
func (n *Net) products() int {
	if !n.target.CPU() || n.config.Kernels == XLAKernels || n.oneDNN() {
		return 0
	}
	return n.target.Threads
}

// lowering is what the net says about how its operations are written.
func (n *Net) lowering() lower.Options {
	o := n.options
	o.OneDNN, o.NativeProducts = n.oneDNN(), n.products() > 0
	o.NativeUpdates = o.NativeProducts && n.knobbed() != nil
	o.ExamplesLast = xla.ExamplesLast(n.target, n.model)
	return o
}
