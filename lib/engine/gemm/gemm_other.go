//go:build !amd64

package gemm

// Handler is 0: there is none for this processor.
func Handler() uintptr { return 0 }
