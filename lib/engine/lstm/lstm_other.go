//go:build !amd64

package lstm

import "gaiden/lib/engine/gemm"

// Handlers are none for this processor.
func Handlers() []gemm.Handler { return nil }
