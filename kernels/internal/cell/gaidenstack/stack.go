// Package gaidenstack bounds the stacks of a cell's goroutines. It is part of the
// programs, not of the kernel: package cell writes it into the notebook's module,
// and every program imports it for what it does when it is initialized.
//
// Go's own bound is 512 MiB. A function that calls itself without an end fills it
// in half a second, and then the runtime walks the whole stack for its last words:
// 9 s on a slow machine, in which a notebook seems to hang, and a gigabyte of
// memory. With an eighth of that such a cell ends in 2 s, and still has a depth of
// half a million calls of a hundred bytes each. Who needs more says so in the cell:
//
//	debug.SetMaxStack(1 << 30)
package gaidenstack

import "runtime/debug"

const limit = 64 << 20

func init() { debug.SetMaxStack(limit) }
