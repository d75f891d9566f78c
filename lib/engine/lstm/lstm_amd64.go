package lstm

import "gaiden/lib/engine/gemm"

// entry512 and entry256 are the addresses of the function in lstm.c.
var entry512, entry256 uintptr

// Handlers are those of the custom call that the processor has instructions for, the widest
// first.
func Handlers() []gemm.Handler { return gemm.Suited(entry512, entry256) }
