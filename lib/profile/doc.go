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
// and every op of a layer's program. Each runs many times, and the clock is read
// only while the devices are idle. Programs that are compared run alternately,
// so that a machine whose speed changes is equally slow for all of them. On
// devices with a profiler, a [Recording] of the same runs has the number of
// kernels and their times.
//
// A part takes longer alone than within a whole, because its results are
// written to memory and read again; XLA fuses parts where it can. So sums of
// parts are compared with the whole, and the result has the differences:
//
//   - the phases alone, and the phases within a step (InStep): within a step,
//     other phases have filled the caches, and memory for results is allocated;
//   - the phases within a step, and the whole step (Chain), measured separately:
//     the difference should be small;
//   - that step, and a step of the epoch, which is one program (Epoch);
//   - layers and their phase, ops and their layer.
//
// FLOPs are counted from the program's text. Bytes are what the program must
// read and write at least: its operands and results. [Peaks] are measured once
// for each device, and stored.
//
// # What it refuses
//
// It prints nothing and trains nothing. On a device without a profiler,
// Kernels is -1 and Record fails. If the host could not launch programs as fast
// as the device runs them, the measurement says so
// (timing.Measurement.DispatchBound): the figure is then an upper bound.
package profile
