// Package plan decides how a net is trained, once for each call of Train: how the steps of an
// epoch are cut into parts, whether they are a loop, with which kernels, on how many devices,
// and whether the state is packed. [Decide] is a pure function of a [Training], which says
// what is known of the net, its data and the target. The thresholds are in package lower.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"gaiden/lib/lower"
)

// Plan is how a net is trained: decided once for each call of Train, and carried by all
// that write or run its programs. String prints it with the reason of each choice.
type Plan struct {
	Training
	// Devices is how many devices train.
	Devices int
	// Main, Odd and Tail are the steps of an epoch: those that one program does many of,
	// full batches that are left over, and the last batch, if it is smaller. A part
	// without turns is not there.
	Main, Odd, Tail Part
	// Final and Cut are the steps of a last epoch that has fewer than the others: turns of
	// Main, and what is left over.
	Final, Cut Part
	// Packed says whether the state is kept as a few vectors while it is trained.
	Packed bool
	// Merged says whether all epochs are one loop: each is a single step.
	Merged bool
	// Note is what a user should know, "" if nothing: why fewer devices are used.
	Note string

	reasons []string
}

// Form is how the steps of a part follow each other.
type Form int

const (
	// Looped steps are a loop in one program, which copies the state first.
	Looped Form = iota
	// Peeled is Looped, with the first turn before the loop: it writes the next state to
	// fresh memory, which the loop changes in place.
	Peeled
	// InPlace steps are runs of one program, which changes a copy of the state in place.
	InPlace
	// Fresh steps are runs of one program, each of which writes the next state to fresh
	// memory.
	Fresh
)

// Single says whether each turn is a run of its own.
func (f Form) Single() bool { return f == InPlace || f == Fresh }

// Part is some steps of an epoch that one program does: turns of Inner·Unroll steps that
// XLA counts, and at most Limit turns in one run.
type Part struct {
	Batch, Inner, Unroll, Limit int
	Form                        Form
	Packed                      bool // the program takes the state as a few vectors
	// Devices run the program at once. Each takes its share of a batch, if Split, or else
	// all of it.
	Devices int
	Split   bool
	// OwnRows says that each device has only the rows that it reads, in that order.
	OwnRows bool
	Kernels *Set // nil: XLA's
	tilings int
	// Accumulate is how many parts a batch's gradients are computed in; 0: 1.
	Accumulate int

	First int // example of the epoch
	Turns int // in an epoch
	Chunk int // turns of a chunk, where that is decided beforehand; else 0
}

// Key tells programs apart.
func (p Part) Key() string {
	if n := p.Accumulate; n > 1 {
		p.Accumulate = 0
		return fmt.Sprintf("%s in %d parts", p.Key(), n)
	}
	return fmt.Sprintf("b%d %d·%d≤%d form %d packed %t devices %d split %t own rows %t kernels %s/%d", p.Batch, p.Inner, p.Unroll, p.Limit, p.Form, p.Packed, p.Devices, p.Split, p.OwnRows, p.Kernels.kind(), p.tilings)
}

// Share is the number of examples of a batch that one device takes.
func (p Part) Share() int {
	if p.Split {
		return p.Batch / p.Devices
	}
	return p.Batch
}

// Turn is the number of steps of one turn.
func (p Part) Turn() int { return p.Inner * p.Unroll }

// Steps are so many steps of a batch in a plain loop, with XLA's kernels on one device, for
// those that look at single steps.
func Steps(t lower.Target, convolves bool, batch, limit int) Part {
	p := Part{Batch: batch, Inner: 1, Unroll: 1, Limit: limit, Devices: 1}
	if Unlooped(t, convolves) {
		p.Form = InPlace
	}
	return p
}

// Decide makes the plan. It is a pure function of its input.
func Decide(t Training) (*Plan, error) {
	p := &Plan{Training: t}
	p.merge()
	t = p.Training
	if err := p.devices(); err != nil {
		return nil, err
	}
	kernels := p.kernels(t.Batch)
	p.Main = p.main(kernels)
	p.Main.Turns = t.Steps / p.Main.Turn()
	if left := t.Steps % p.Main.Turn(); left > 0 {
		p.Odd = Steps(t.Target, t.Convolves, t.Batch, left)
		p.Odd.Kernels, p.Odd.First, p.Odd.Turns = kernels, (t.Steps-left)*t.Batch, left
	}
	if t.Rest > 0 {
		p.Tail = Steps(t.Target, t.Convolves, t.Rest, 1)
		p.Tail.Kernels, p.Tail.First, p.Tail.Turns = p.kernels(t.Rest), t.Steps*t.Batch, 1
	}
	if t.Last > 0 {
		p.Final = p.Main
		p.Final.Turns = t.Last / p.Main.Turn()
		if left := t.Last % p.Main.Turn(); left > 0 {
			p.Cut = Steps(t.Target, t.Convolves, t.Batch, left)
			p.Cut.Kernels, p.Cut.First, p.Cut.Turns = kernels, (t.Last-left)*t.Batch, left
		}
	}
	p.Packed = p.packs()
	p.attend()
	if h := p.Head; h.Rows > 0 {
		if h.Rows *= p.Main.Share(); h.Pieces(p.Target, p.Options) > 0 && p.WholeHead != "" {
			p.because("cross entropy: all at once: %s", p.WholeHead)
		} else if h.Pieces(p.Target, p.Options) > 0 {
			p.because("cross entropy: %s", h.Reason(p.Target, p.Options))
		}
	}
	for _, part := range append(p.Parts(), &p.Final, &p.Cut) {
		part.Devices, part.Split = p.Devices, p.Devices > 1 && part.Batch%p.Devices == 0 // what cannot be shared, each does
		if t.Accumulate > 1 {
			part.Accumulate = partsOf(part.Share(), p.Main.Share()/t.Accumulate)
		}
		if part.Kernels != nil {
			part.tilings = 1 + t.Tilings
		}
		if p.Packed {
			*part = part.pack(t.Target)
		}
	}
	return p, nil
}

// partsOf is in how many parts of the same size, at most so many examples, a batch is divided.
func partsOf(batch, most int) int {
	for n := 1; n < batch; n++ {
		if batch%n == 0 && batch/n <= most {
			return n
		}
	}
	return batch
}

// Parts are the parts of an epoch, in order.
func (p *Plan) Parts() []*Part { return []*Part{&p.Main, &p.Odd, &p.Tail} }

func (p *Plan) because(format string, args ...any) {
	p.reasons = append(p.reasons, fmt.Sprintf(format, args...))
}

// devices decides how many devices train.
func (p *Plan) devices() error {
	t := p.Training
	want, have := max(1, t.Settings.Devices), max(1, t.Target.Devices)
	p.Devices = 1
	switch {
	case want > have:
		return fmt.Errorf("%d devices: the session has %d: want no more in Config.Devices", want, have)
	case want == 1:
	case t.Batch%want != 0:
		return fmt.Errorf("a batch of %d for %d devices: want a multiple, such as %d", t.Batch, want, max(1, t.Batch/want)*want)
	case t.AllDevices:
		p.Devices = want
	case t.Target.CPU():
		p.Note = fmt.Sprintf("used 1 of %d devices: those of a CPU share its cores", want)
	case t.Work.FLOPs < lower.SeveralDevicesFLOPs:
		p.Note = fmt.Sprintf("used 1 of %d devices: a step of %.2g FLOPs is faster on one (from %.0e on, more are used)", want, t.Work.FLOPs, lower.SeveralDevicesFLOPs)
	default:
		p.Devices = want
	}
	return nil
}

// main decides how the full batches of an epoch are cut.
//
// On a GPU XLA counts the turns of a loop of light steps: as many as divide the epoch, for
// what is left over needs a program of its own. Such a program does one turn: between two
// of them the device would wait until the host has seen that there is another one. Not on
// several devices: XLA 0.11.2 ends the process when it finds an all_reduce in a counted
// loop. The body of a loop of steps with kernels holds several: their batches are one
// kernel, and so is the loop's count.
func (p *Plan) main(kernels *Set) Part {
	t := p.Training
	m := Steps(t.Target, t.Convolves, t.Batch, 1)
	m.Form, m.Kernels = p.form(), kernels
	m.Unroll = min(max(1, t.Unroll), t.Steps)
	if kernels != nil && t.Unroll == 0 && t.Work.FLOPs <= lower.UnrollFLOPs && !m.Form.Single() {
		if i := slices.IndexFunc(unrolls, func(k int) bool { return t.Steps%k == 0 && t.callsAlign(k) }); i >= 0 {
			m.Unroll = unrolls[i]
		}
	}
	turns := t.Steps / m.Unroll
	if limit := t.loopFLOPs(); !t.Target.CPU() && !m.Form.Single() && p.Devices == 1 && t.Work.FLOPs < limit && turns*m.Unroll > lower.CountedSteps {
		most := min(max(128, 256/m.Unroll), turns, max(16, int(50*limit/max(1, t.Work.FLOPs*float64(m.Unroll)))))
		if m.Inner = min(64, most); t.Interval > 0 {
			m.Inner = 1
		}
		for k := most; k >= min(16, turns); k-- {
			if turns%k == 0 && t.callsAlign(k*m.Unroll) {
				m.Inner = k
				break
			}
		}
	}
	if m.Inner == 1 {
		m.Limit = max(1, min(turns, 8192/m.Turn()))
	}
	if m.Form == Peeled {
		m.Chunk = max(1, int(lower.PeeledFLOPs/max(1, t.Work.FLOPs*float64(m.Turn()))))
	}
	return m
}

// callsAlign says whether the user's function, if there is one, is called between two turns of
// so many steps: in each epoch.
func (t Training) callsAlign(turn int) bool {
	all := t.Steps
	if t.Rest > 0 {
		all++
	}
	return t.Interval == 0 || t.Interval%turn == 0 && all%turn == 0
}

// form decides whether steps are a loop.
func (p *Plan) form() Form {
	t, work := p.Training, p.Training.Work.FLOPs
	single := false
	switch unlooped := Unlooped(t.Target, t.Convolves); {
	case t.Loop == LoopedSteps:
		p.because("loop: as requested")
	case t.Loop == SingleSteps:
		single = true
		p.because("single steps: as requested")
	case unlooped:
		single = true
		p.because("single steps: a CPU has no fast convolutions inside of a loop")
	case !t.Target.CPU() && work >= t.loopFLOPs() && p.Devices == 1:
		single = true
		p.because("single steps: one of %.2g FLOPs hides the cost of running a program", work)
	default:
		p.because("loop: a step is light, or runs on a CPU or several devices")
	}
	switch {
	case single && t.Use != Job && (!t.Target.CPU() || work >= lower.FreshFLOPs):
		return Fresh
	case single:
		return InPlace
	case t.Target.CPU() && t.StateBytes >= lower.PeeledBytes:
		return Peeled
	}
	return Looped
}

// packs decides whether the state is packed: where a GPU does heavy steps on many arrays,
// with an optimizer that treats all elements alike.
func (p *Plan) packs() bool {
	t := p.Training
	if t.PackState && t.Use == Call {
		return true
	}
	if t.Use != Call || t.Target.CPU() || t.Work.FLOPs < t.loopFLOPs() || p.Main.Kernels != nil || t.StateArrays < lower.PackedArrays || t.Rule == nil || t.Loop == LoopedSteps || t.Carries {
		return false
	}
	for _, v := range t.Variables {
		if v.Trainable && v.Shape.DType.String() != "Float32" {
			return false
		}
	}
	if m := t.Target.Memory; m > 0 && lower.PackedCopies*t.StateBytes > m {
		p.because("state not packed: there is no memory for %d copies of it", lower.PackedCopies)
		return false
	}
	p.because("state packed: %d arrays would cost the host 2 µs each at every step", t.StateArrays)
	return true
}

// attend notes how attention is computed.
func (p *Plan) attend() {
	seen := map[lower.Attention]bool{}
	for _, a := range p.Attentions {
		if a.N *= p.Main.Share(); !seen[a] {
			seen[a] = true
			p.because("attention: %s", a.Reason(p.Target, p.Options))
		}
	}
}

// pack is the part with a packed state. A program is run for each of its steps on a GPU.
func (p Part) pack(t lower.Target) Part {
	p.Packed = true
	if p.Form.Single() || !t.CPU() {
		p.Form = InPlace
	}
	return p
}

// WithoutKernels is the part with XLA's kernels.
func (p Part) WithoutKernels(o Settings) Part {
	p.Kernels, p.tilings = nil, 0
	if o.Unroll == 0 {
		p.Inner, p.Unroll = p.Turn(), 1
	}
	return p
}

// WithKernels is the part with kernels that Decide did not choose, to be compared.
func (p Part) WithKernels(k *Set, tilings int) Part {
	if p.Kernels == nil {
		p.Kernels = k
	}
	p.tilings = 1 + tilings
	return p
}

// String has a line for each choice.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "target           %s\n", p.Target)
	for i, part := range p.Parts() {
		if part.Turns == 0 {
			continue
		}
		name := []string{"steps", "left over", "last batch"}[i]
		form := []string{"a loop", "a loop", "one run each", "one run each"}[part.Form]
		fmt.Fprintf(&b, "%-16s %d of %d examples, %s", name, part.Turns*part.Turn(), part.Batch, form)
		if part.Turn() > 1 {
			fmt.Fprintf(&b, ", %d × %d counted by XLA", part.Inner, part.Unroll)
		}
		if part.Devices > 1 {
			fmt.Fprintf(&b, ", on %d devices", part.Devices)
		}
		b.WriteString("\n")
	}
	for _, r := range p.reasons {
		name, why, _ := strings.Cut(r, ": ")
		fmt.Fprintf(&b, "%-16s %s\n", name, why)
	}
	if p.Main.Kernels != nil {
		b.WriteString(p.Main.Kernels.String())
	}
	return b.String()
}
