// Package debugger lets front ends debug cells: it answers the debug requests of
// Jupyter's protocol, and runs Delve (the program dlv) on the program of a cell that has breakpoints.
//
//	d := &debugger.Debugger{Delve: "/usr/bin/dlv", Temp: dir}
//	response := d.Request(request, event) // on the control socket
//	…
//	d.Cell(code, 3) // cell 3 is about to run
//	if r := d.Begin([]int{3}); r != nil { // it has breakpoints
//		… start the program with r.Environ(), then r.Attach(pid, failed)
//		defer r.End()
//	}
//
// Front ends know a cell by a file name with a hash of its code (dumpCell), Delve by the
// name in the program's debug information, cell[3]: requests and answers are translated.
// Between cells the debugger answers by itself; while a program runs, Delve does.
//
// A program is made for a debugger only when the front end's debugger is on and a cell
// in it has a breakpoint: others run as usual.
//
// It refuses changes of variables, and breakpoints that are set while the program of
// their cell runs are Delve's to judge.
package debugger
