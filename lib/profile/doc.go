// Package profile finds out where the time of a net goes: phase by phase, layer
// by layer, op by op.
//
//	p, err := profile.Measure(ctx, net, train, profile.Options{Batch: 8, Test: test})
//	fmt.Println(p.Bottleneck())
//
//	backward takes 80.1 % of a step; pool takes 93.6 % of that; its scatter takes 98.6 % of that: 9.50 ms
//
// Package report shows the result as a table and as bars (report.Phases), and
// the magics %phases and %bottleneck do both in one line. The net is not
// changed: its weights are what they were.
//
// # What is measured
//
// The phases of a step (next, forward, loss, backward, update) are programs of
// their own, see fit.Net.Phases, and so is every layer, forwards and backwards,
// and every op of a layer's program. Each is run many times with the devices
// idle at both ends of the clock; those that are compared are measured in
// turns, so that a machine that gets slower meanwhile is equally slow for all.
// On devices with a profiler, a [Recording] of the same runs tells the time of
// the kernels, and how many there are.
//
// Parts alone take longer than the parts of a whole, since what one hands to
// the next is written to memory and read again; XLA joins them where it can.
// So sums are compared with wholes, and the difference is in the result:
//
//   - the phases alone against the phases within a step (InStep): the
//     rest is what they lose one after the other, since others have filled the
//     cache and memory for their results is not there yet;
//   - those against the step (Chain), which is measured apart: what is left should
//     be little;
//   - that step against a step of the epoch, which is one program (Epoch);
//   - layers against their phase, ops against their layer.
//
// FLOPs are counted from the program's text; bytes are what the program must at
// least read and write: its operands and results. [Peaks] are measured on the
// device at hand, once, and kept.
//
// # What it refuses
//
// It prints nothing and trains nothing. A device without a profiler has no
// kernels to tell (Kernels is -1, Record fails), and where the host could not
// ask as fast as the device works, the measurement says so
// (timing.Measurement.DispatchBound): the figure is then an upper bound.
package profile
