// Package notebook is the interpreter of the Gaiden kernel: it runs notebook
// cells of Go. It joins package magic, which reads a cell, package cell, which
// builds and runs its Go code, and package jupyter, which talks to front ends:
//
//	n := &notebook.Notebook{Library: "/usr/share/gaiden", Cache: cacheDir}
//	n.Magics = append(notebook.Magics(n), magic.Row{Name: "%info", Help: "…", Run: info})
//	err := jupyter.Run(ctx, connectionFile, n, jupyter.Options{})
//
// What a cell may hold is GoNB's, and more: magics and shell commands, run
// first and in order; declarations, which later cells remember; below %%, or
// without it, statements. The value of a cell's last expression is its result.
//
// Variables keep their values from cell to cell, those of := and those of var,
// if they can be serialised; %whos lists them. A cell with %% is GoNB's:
// a program of its own, in which every var begins as it is declared. As in every
// kernel, a restart forgets declarations and values; the history stays, and so
// does what the device session holds by name.
//
// A program talks to the notebook through its standard streams, the pipes of GoNB's package gonbui
// (displays, updates, input), and its result. When Execute returns, all of it has been passed on,
// to the last display.
//
// Tab completes Go by gopls, magics and files by itself, and names in quotes by
// what Named knows: a program that has arrays under names says so there.
//
// Each cell's programs have a mark in their environment (wire.CellEnv). Stop ends all of them, and
// so does the end of the kernel, even a crash: a small guard process survives it for as long as
// that takes.
//
// GoNB's buttons, sliders and lists work where a page of a Jupyter server shows the
// notebook: package widget carries their values. In nbconvert, papermill and gaiden run nobody can
// press them, so a cell that waits for them fails.
//
// What it refuses: %wasm, which needs a compiler for the browser.
package notebook
