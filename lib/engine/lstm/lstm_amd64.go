package lstm

import "golang.org/x/sys/cpu"

// entry512 and entry256 are the addresses of the function in lstm.c.
var entry512, entry256 uintptr

// Handlers are those of the custom call that the processor has instructions for, the widest
// first.
func Handlers() (all []Handler) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512CD && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		all = append(all, Handler{512, entry512})
	}
	return append(all, Handler{256, entry256})
}
