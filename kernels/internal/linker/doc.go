// Package linker links a cell's program with a linker that has read the
// libraries before the program was there.
//
// Almost half of a link is the reading of compiled packages and the sorting of
// their symbols, and these are the same for every cell. [Make] builds Go's own
// linker, from the source that comes with Go, with a change: it can load the
// packages that it is told first, and then wait. A [Linker] keeps one such
// process at hand:
//
//	program, err := linker.Make(ctx, "go", cache) // once; about 15 s
//
//	program, err := linker.Find(cache, version) // verified: an error means damage
//	l := &linker.Linker{Program: program}
//	job := linker.Job{Config: importcfg, Object: "main.a", Packages: []string{"fmt"}}
//	l.Prepare(job) // while the user types
//	…
//	done, err := l.Link(ctx, job, out) // not done: use the toolchain's linker
//
// Measured on 2 cores (gaiden bench cells, in turn with and without, medians of
// 20): a changed cell that takes one training step of a session's net, 300 ms after
// the cell before: 329 ms, and 241 ms with the packages loaded, of which the link
// 241 and 153; sent at once when the cell before is idle: 331 and 291.
//
// The process takes its heap from the system at once and tells when the program is
// written, not when it has given all back: the link alone, of the same cell, two
// runs in turn, 187 → 161 ms and 148 → 142, with 5,800 page faults fewer.
//
// Which symbols a program needs is found beginning with those that the program
// before needed, where it had the same packages loaded: a notebook's cells differ
// little. What is too much by then goes when it is more than an eighth. The link
// alone, of a cell that takes a training step, ten in turn on a slower host: 216 →
// 167 ms, the file byte for byte the same; gaiden bench cells without and with it,
// one after the other: 272 → 220 ms, of which the link 163 → 116.
//
// The change is made only to source that is known word for word (by its hash);
// for another Go there is no such linker, and cells are linked as ever. Package
// linker refuses: to be needed. Whatever it cannot do is the toolchain's to do.
package linker
