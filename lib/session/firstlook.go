package session

import (
	"encoding/json"
	"maps"
)

// FirstLook returns XLA options that make a program on this platform ("cpu", "cuda")
// compile faster and run slower: a quick compile. Use them for a program that runs
// only a few times, for example while a net is being written. Results are the same
// except for rounding.
//
// On a CPU, LLVM does not optimize: compiling takes about a third less time and a
// step about twice as long, which pays off for about ten steps of a large net and up
// to about 200 of a small one. On a GPU, XLA does not autotune and does not use
// Triton kernels for matmuls, which is most of its compile time; steps are only
// slightly slower.
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
