//go:build !pjrtplain

package pjrt

import "unsafe"

// runtime_cgocall switches to the system stack and calls a C function. purego
// is built on the same symbol, which Go keeps for it.
//
//go:linkname runtime_cgocall runtime.cgocall
func runtime_cgocall(fn uintptr, arg unsafe.Pointer) int32

// walkABI0 is the address of the C function in batch_amd64.s.
var walkABI0 uintptr

// walk makes the calls of l in one transition to C.
func walk(l *list) { runtime_cgocall(walkABI0, unsafe.Pointer(l)) }
