package profile

import (
	"fmt"
	"math"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// A Level says what a line is about.
type Level int

const (
	// Phase is a part of a step.
	Phase Level = iota
	// Layer is one layer, forwards or backwards.
	Layer
	// Operation is one op of a layer.
	Operation
)

func (l Level) String() string { return [...]string{"phase", "layer", "operation"}[l] }

// A Line is one thing that takes time.
type Line struct {
	Level Level
	// Phase is next, forward, loss, backward or update; Layer the layer's
	// name, and Operation the op's as StableHLO calls it, where there are.
	Phase, Layer, Operation string

	// Time is what one run takes, measured from the host.
	Time timing.Measurement
	// Device is what its kernels take in seconds, by the profiler; 0 where
	// there is none.
	Device float64
	// Kernels is how many there are in a run, -1 where nobody can tell.
	Kernels int

	// Floor is the shortest time that could be seen, in seconds: what is not longer is
	// only known to be at most that.
	Floor float64

	// InStep is what a phase takes in its place in a step, in seconds; 0 where it
	// is not known, and for layers and ops.
	InStep float64

	// Times is how often a step does it, where that is more than once: a layer that a
	// models.Repeat has several times is measured once. 0 is once.
	Times int

	// Calls is how often an epoch does it.
	Calls int

	// FLOPs and Bytes are the work of a run: operations, an exponential and
	// the like being one, and what must be read and written at least.
	FLOPs, Bytes float64

	// Narrow says that the net computes in bfloat16 or float16: so do its matmuls.
	Narrow bool

	// Share is the part of its group that it takes: of a step for a phase, of
	// all layers in that direction for a layer, of its layer for an op.
	Share float64
}

// Name is the line's name inside its group.
func (l Line) Name() string {
	switch l.Level {
	case Operation:
		return l.Operation
	case Layer:
		return l.Layer
	}
	return l.Phase
}

// Path is the line's whole name: backward/pool/scatter.
func (l Line) Path() string {
	path := l.Phase
	for _, part := range []string{l.Layer, l.Operation} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// String is the line with what a table has in its columns: "backward/pool
// 421 µs ± 3 %, 16.9 % of the layers, 329 kFLOP, 627 kB".
func (l Line) String() string {
	if l.Time.N() == 0 && l.Device == 0 {
		return l.Path() + "   not measured"
	}
	text := l.Path() + "   "
	if l.AtMost() {
		text += "≤ "
	}
	text += units.Seconds(l.Seconds())
	if l.Device == 0 && !l.AtMost() {
		text += fmt.Sprintf(" ± %.0f %%", 100*l.Time.Spread())
	}
	if l.Share > 0 {
		text += ", " + units.Percent(l.Share) + [...]string{" of a step", " of the layers", " of its layer"}[l.Level]
	}
	if l.Times > 1 {
		text += fmt.Sprintf(", %d times a step", l.Times)
	}
	if l.Kernels > 0 {
		text += fmt.Sprintf(", %d kernels", l.Kernels)
	}
	if l.FLOPs > 0 || l.Bytes > 0 {
		text += ", " + units.FLOPs(l.FLOPs) + ", " + units.Bytes(l.Bytes)
	}
	return text
}

// Seconds is what one run takes: on the device where that is known, else as
// seen from the host. NaN if nothing was measured.
func (l Line) Seconds() float64 {
	if l.Device > 0 {
		return l.Device
	}
	return l.Time.Median()
}

// InAll is what all of its runs in a step take together, in seconds.
func (l Line) InAll() float64 { return l.Seconds() * float64(max(1, l.Times)) }

// AtMost reports that Seconds is an upper bound: the host could not ask fast
// enough to see the device's own time, or the time is too short to be seen.
func (l Line) AtMost() bool {
	return l.Device == 0 && (l.Time.DispatchBound() || l.Floor > 0 && l.Seconds() <= l.Floor)
}

// maxSpread is how far samples may spread for a time to mean anything.
const maxSpread = 0.25

// Unclear says why the line's time cannot be believed, "" if it can.
func (l Line) Unclear() string {
	switch {
	case l.Time.N() == 0 && l.Device == 0:
		return "not measured"
	case l.Device == 0 && !l.AtMost() && l.Time.Spread() > maxSpread:
		return fmt.Sprintf("%s spread %.0f %%", l.Path(), 100*l.Time.Spread())
	}
	return ""
}

// work counts what a program does.
func (l *Line) work(p *hlo.Program) {
	c := p.Cost()
	l.FLOPs = c.FLOPs + c.Transcendentals
	l.Bytes = traffic(p)
}

// traffic is what a program must read and write: its operands and results, or
// what its ops touch of them where that is less.
func traffic(p *hlo.Program) float64 {
	n := 0.0
	for _, s := range p.Inputs {
		n += float64(s.ByteSize())
	}
	for _, s := range p.Outputs {
		n += float64(s.ByteSize())
	}
	if touched := p.Cost().Bytes; touched > 0 {
		n = math.Min(n, touched)
	}
	return n
}

// share sets the shares of lines that make up one thing.
func share(lines []Line) {
	sum := Total(lines)
	for i := range lines {
		lines[i].Share = lines[i].InAll() / sum
	}
}

// Total is the sum of the lines' times in seconds, of those that were measured.
func Total(lines []Line) float64 {
	sum := 0.0
	for _, l := range lines {
		if s := l.InAll(); !math.IsNaN(s) {
			sum += s
		}
	}
	return sum
}
