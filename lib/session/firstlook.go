package session

import (
	"encoding/json"
	"maps"
)

// FirstLook are the XLA options, by platform, of a program whose first result is
// wanted soon: while a net is being written, say, and each try is another
// program. Its results are the same but for rounding.
//
// On a CPU LLVM does not optimize. Whole first training of two steps, all
// programs compiled, and then a step, on 2 cores, medians of 2 to 6 in turns
// (the last one once): SeedCNN 1.59 s and 3.2 ms, with FirstLook 1.01 s and
// 6.2 ms; MLP 1.58 s and 16.5 ms, 1.13 s and 38 ms; KerasCNN 3.3 s and 224 ms,
// 2.4 s and 378 ms; ResNet14 8.8 s and 425 ms, 6.5 s and 788 ms. So it pays back
// in runs of up to 190 steps, 20, 8 and 8. LLVM's other options, XLA's preset
// for fast compiling and fewer parts for its compiler's threads gained nothing.
//
// On a GPU XLA tries no tilings and takes no Triton kernel of its own for a
// product, which is most of what it does while it compiles: the MLP's first call
// took 0.42 s in place of 2.0 on an H200, and a step 84 in place of 79 µs, by the
// second option alone.
func FirstLook(platform string) map[string]any {
	if platform == "cpu" {
		return map[string]any{"xla_backend_optimization_level": 0}
	}
	return map[string]any{"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": false}
}

// flags are the options as they cross the socket: Flags come before FirstLook.
func (o *Options) flags(platform string) (string, error) {
	flags := o.Flags
	if o.FirstLook {
		flags = FirstLook(platform)
		maps.Copy(flags, o.Flags)
	}
	if len(flags) == 0 {
		return "", nil
	}
	b, err := json.Marshal(flags)
	return string(b), err
}
