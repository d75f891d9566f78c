//go:build !amd64

package gemm

// Handlers are none for this processor.
func Handlers() []Handler { return nil }
