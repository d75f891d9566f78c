package gemm

import "golang.org/x/sys/cpu"

// entry is the address of gemm.c's function product.
var entry uintptr

// Handler is the address of the custom call's C function, an XLA_FFI_Handler; 0 where the
// processor lacks what it needs.
func Handler() uintptr {
	x := &cpu.X86
	if !x.HasAVX512F || !x.HasAVX512CD || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL || !x.HasBMI2 || !x.HasFMA {
		return 0
	}
	return entry
}
