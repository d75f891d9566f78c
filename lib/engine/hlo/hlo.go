// Package hlo turns a computation, built op by op through GoMLX's
// compute.Builder and compute.Function, into StableHLO text: what an XLA
// plugin compiles. It is pure Go and needs no device, so that a cell can
// build its programs without a compiler, a plugin or a session at hand.
//
//	b := hlo.NewBuilder(nil, "double", func(p *hlo.Program) (compute.Executable, error) {
//		return session.load(p.Text(nil)) // what the backend does with a program
//	})
//	f := b.Main()
//	x, err := f.Parameter("x", shapes.Make(dtypes.Float32, 3), nil)
//	y, err := f.Add(x, x)
//	err = f.Return([]compute.Value{y}, nil)
//	executable, err := b.Compile()
//
// # What the text promises
//
// The text of a program is its identity: the session knows programs by
// [Hash]. So the text depends on nothing but the computation and the labels.
// The module is always @m, parameters are %arg0, %arg1 and so on, functions
// are @f0, @f1 in the order of their first call; the graph's name, Go function
// names, parameter names and counters stay out. Ops whose results nobody uses
// are left out, and so are functions nobody calls. Only the donation marks
// differ between two texts of one program.
//
// Every shape is inferred and checked here, in Go, before there is any text:
// an error names the op and the shapes it got. An op that XLA does not have
// (dynamic shapes, GoMLX's fused ops) answers compute.ErrNotImplemented, and
// GoMLX falls back on simpler ones.
//
// # Closures
//
// GoMLX hangs every closure below main, whatever the loop it is written in,
// and remembers scalar constants for a whole graph. Here a closure belongs to
// the op that uses it, and a value may be used wherever it can be seen:
//
//   - in the function that made it, and in every closure inside it;
//   - a constant everywhere, because each region writes its own copy;
//   - the result of an op in a closure that has ended: the op is made again
//     where it is used. The parameters of such a closure, and whatever depends
//     on them, are refused.
//
// An op stays where it was written. What the body of a loop makes of values
// around it is made on every trip, unless XLA moves it out: write it before
// the loop. What a branch of If makes is made only if the branch is taken.
//
// Comparators of Sort and functions made by NewFunction see constants and
// their own parameters only, because StableHLO has it so.
//
// # What it refuses
//
// It does not write text for shapes with dynamic axes, nor divide a program
// over several devices by itself (they all run one program, joined by
// AllReduce). It does
// not run, cache or send anything: that is the [Compile] function's. A Builder
// belongs to one goroutine; a [Program] may be shared freely.
//
// # Why not go-xla's writer
//
// go-xla's stablehlo package writes such text too. It puts an op in the function
// of its operands, which moves work out of the branches of If; and locations,
// donation marks, custom calls of version 4, constants in the region that uses
// them, and counting costs all need its statements, which are not public.
package hlo
