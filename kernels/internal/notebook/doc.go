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
// as far as Go can write them down; %whos lists them. A cell with %% is GoNB's:
// a program of its own, in which every var begins as it is declared. As in every
// kernel, a restart forgets declarations and values; the history stays, and so
// does what the device session holds by name.
//
// A program speaks to the notebook by its standard streams, by the pipes of
// GoNB's package gonbui (displays, updates, input), and by the result. All of
// it has been passed on when Execute returns, what was displayed in the cell's
// last instant included.
//
// Tab completes Go by gopls, magics and files by itself, and names in quotes by
// what Named knows: a program that has arrays under names says so there.
//
// Each cell's programs bear a mark in their environment (wire.CellEnv). Stop
// ends all of them; so does the end of the kernel, however it comes: a small
// guard process survives it for as long as that takes.
//
// GoNB's buttons, sliders and lists work where a page of a Jupyter server shows the
// notebook: package widget carries their values. Where nobody can press them
// (nbconvert, papermill, gaiden run) a cell that waits for them fails.
//
// What it refuses: %wasm, which needs a compiler for the browser.
package notebook
