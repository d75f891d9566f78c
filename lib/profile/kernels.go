package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gaiden/lib/engine/hlo"
)

// Lines are what kernels take of one of the steps that were recorded, the longest
// first. Those of one op and label are one line, and what runs beside others counts
// in full. calls are those of the steps' program; other kernels are XLA's, whose FLOPs
// and Bytes are not known: NaN.
func (r *Recording) Lines(steps int, calls []hlo.CallCost) []Line {
	var lines []Line
	var runs []float64
	places := map[string]int{}  // of lines, by their path
	known := map[source]place{} // a loop runs the same few kernels thousands of times
	for _, k := range r.Kernels {
		from := source{kernel: k.Name, op: k.Op, label: k.Label}
		at, ok := known[from]
		if !ok {
			l := k.line(calls)
			at.flops, at.bytes = l.FLOPs, l.Bytes
			if at.line, ok = places[l.Path()]; !ok {
				at.line = len(lines)
				places[l.Path()] = at.line
				l.FLOPs, l.Bytes = 0, 0
				lines, runs = append(lines, l), append(runs, 0)
			}
			known[from] = at
		}
		runs[at.line]++
		l := &lines[at.line]
		l.Device += k.Seconds
		l.FLOPs += at.flops
		l.Bytes += at.bytes
	}
	n := float64(steps)
	for i := range lines {
		l := &lines[i]
		l.Kernels, l.Device, l.FLOPs, l.Bytes = int(math.Round(runs[i]/n)), l.Device/n, l.FLOPs/n, l.Bytes/n
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(b.Device, a.Device) })
	return lines
}

// place is where a kernel counts, and the work of a run.
type place struct {
	line         int
	flops, bytes float64
}

// line is a kernel's, with the work of a run.
func (k Kernel) line(calls []hlo.CallCost) Line {
	l := Line{Level: Operation, Phase: k.Phase(), Operation: k.Op, FLOPs: math.NaN(), Bytes: math.NaN()}
	if layer, is := strings.CutSuffix(k.Label, "/"+l.Phase); is {
		l.Layer = layer
	}
	switch l.Operation {
	case "", "custom-call", "tuple": // which say less than the compiler's name
		l.Operation = base(k.Name)
	}
	if own, is := k.call(calls); is {
		l.Operation = strings.TrimSuffix(own.Name, "__"+hlo.Symbol(k.Label))
		l.FLOPs, l.Bytes = own.FLOPs+own.Transcendentals, own.Bytes
	}
	return l
}

// call finds the call that a kernel belongs to: by its name, which may have got a
// number, and where several have that, by the label too. If it has none, it can be
// any of them: the cost is their mean.
func (k Kernel) call(calls []hlo.CallCost) (hlo.CallCost, bool) {
	for _, name := range []string{k.Name, base(k.Name)} {
		var found hlo.CallCost
		for _, c := range calls {
			if c.Name != name {
				continue
			}
			if c.Label == k.Label {
				return c, true
			}
			n := found.Times + c.Times
			found.Name, found.Times = name, n
			found.FLOPs += (c.FLOPs - found.FLOPs) * c.Times / n
			found.Transcendentals += (c.Transcendentals - found.Transcendentals) * c.Times / n
			found.Bytes += (c.Bytes - found.Bytes) * c.Times / n
		}
		if found.Times > 0 {
			return found, true
		}
	}
	return hlo.CallCost{}, false
}
