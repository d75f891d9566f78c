// Package gaidenkeep carries variables from one cell's program to the next. It
// is part of the programs, not of the kernel: package cell writes it into the
// notebook's module, and the calls into the programs that need it.
//
//	var _ = gaidenkeep.Load("x", &x) // before all other variables
//	var x []float64
//
//	func main() {
//		gaidenkeep.Track("x", &x)
//		defer gaidenkeep.Save()
//		gaidenkeep.Watch()
//		x[0]++
//	}
//
// # What is kept
//
// The memory that a variable reaches, exactly: unexported fields, cycles,
// pointers into the middle of other values, slices of one array, and what
// several variables share. Only the capacity of slices beyond their length is
// lost. Plain data of a large slice is written from where it lies and mapped,
// not read, by the next program: a cell that does not touch it hardly pays.
//
// What it refuses, with the reason: channels, functions, unsafe pointers,
// values of unexported types in interfaces, types that stand for something
// outside of memory (files, connections, the number of an open file in a variable
// or field named FD), and a sync.WaitGroup with somebody in it. A mutex comes back
// unlocked: whoever held it has ended. Types of the standard library that
// hide their fields are kept if they marshal themselves, or if they are known
// to be memory and nothing else. A time keeps its location and loses its
// monotonic clock.
//
// # How the kernel and the program talk
//
// The environment variable GAIDEN_KEEP names a directory. Its file "in" says
// which file holds which variable; the program writes new files and, when all
// of them are whole, a file "manifest" that says what they hold. A program that
// is about to be stopped finds a file "stop" there and saves what it has. One that
// is killed leaves no manifest, and the kernel continues with what it had. A value
// whose type is no longer the one it was kept with is never converted: the
// program names it in the manifest and ends before anything has happened.
package gaidenkeep
