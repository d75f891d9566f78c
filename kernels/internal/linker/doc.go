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
// The packages that a cell needs are loaded while the user types. The process takes its
// heap from the system at once, which spares page faults, and reports when the program is
// written, not when it has released everything.
//
// The search for the symbols that a program needs begins with those of the previous
// program, if it had the same packages loaded: a notebook's cells differ little. Surplus
// symbols are removed when they are more than an eighth. The resulting file is the same.
//
// It is optional. The change is made only in the Go releases with which it has been
// tested, and there only to source whose hash is known. With another Go, with a linker
// that is damaged, or when its process fails, the toolchain's own linker links the cell.
package linker
