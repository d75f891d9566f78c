package report

import (
	"fmt"
	"math"
	"strings"

	"gaiden/lib/profile"
	"gaiden/lib/timing/units"
)

// netName is what a net is called in titles: with its model, if that is another
// word.
func netName(net, model string) string {
	if model == "" || model == net {
		return net
	}
	return fmt.Sprintf("%s (%s)", net, model)
}

// Phases shows where the time of a step goes: a table of phases, layers and ops, a
// bar chart of phases and layers, and the bottleneck.
func Phases(p *profile.Phases) Rich { return phases{p} }

type phases struct{ *profile.Phases }

func (p phases) String() string {
	return p.table().String() + "\n\n" + p.bars().String() + "\n\nBottleneck: " + p.finding()
}

func (p phases) HTML() string {
	return p.table().HTML() + p.bars().HTML() + "<p><b>Bottleneck:</b> " + strings.ReplaceAll(escape(p.finding()), "\n", "<br>") + "</p>"
}

// finding is the bottleneck, or why none is known.
func (p phases) finding() string {
	return strings.TrimPrefix(p.Bottleneck().String(), "no bottleneck: ")
}

func (p phases) table() Table {
	t := Table{Title: fmt.Sprintf("%s on %s: batch %d, %s an epoch, %s", netName(p.Net, p.Model), p.Data, p.Batch, units.Plural(p.Steps, "step"), p.Peaks.Device),
		Head: []string{"", "time", "spread", "share", "calls", "an epoch", "FLOPs", "bytes", "of peak", "kernels"}}
	for _, l := range []profile.Line{p.TrainError, p.TestError} {
		if l.Time.N() > 0 {
			t.Rows = append(t.Rows, p.row(l.Phase, l))
		}
	}
	for _, l := range p.Phases.Phases {
		t.Rows = append(t.Rows, p.row(l.Phase, l))
	}
	if len(p.Phases.Phases) > 0 {
		t.Rows = append(t.Rows, []string{"sum of the phases", units.Seconds(p.Sum()), "", "", units.Count(p.Steps), units.Seconds(p.Estimate())})
		if rest := p.Rest(); p.Busy() == "" && !math.IsNaN(rest) {
			name := "rest: more in a step than alone"
			if rest < 0 {
				name = "rest: less in a step than alone"
			}
			t.Rows = append(t.Rows, []string{name, units.Seconds(rest), "", units.Percent(rest / p.Chain.Seconds()), units.Count(p.Steps), units.Seconds(rest * float64(p.Steps))})
		}
		t.Rows = append(t.Rows, p.row("step of these programs", p.Chain))
	}
	if p.Epoch.Time.N() > 0 {
		name := "step of the epoch's program"
		if p.Devices > 1 {
			name += fmt.Sprintf(", on %d devices", p.Devices)
		}
		t.Rows = append(t.Rows, p.row(name, p.Epoch))
	}
	section := func(title string, lines []profile.Line) {
		if len(lines) == 0 {
			return
		}
		t.Rows = append(t.Rows, []string{title})
		for _, l := range lines {
			name := "  " + l.Name()
			if l.Times > 1 {
				name += fmt.Sprintf(" ×%d", l.Times)
			}
			t.Rows = append(t.Rows, p.row(name, l))
		}
	}
	section("forward, layer by layer", p.Forward)
	section("backward, layer by layer", p.Backward)
	for from := 0; from < len(p.Ops); {
		to := from
		for to < len(p.Ops) && p.Ops[to].Phase == p.Ops[from].Phase && p.Ops[to].Layer == p.Ops[from].Layer {
			to++
		}
		kinds, title := p.Kinds(p.Ops[from].Phase, p.Ops[from].Layer), "op by op"
		if len(kinds) < to-from {
			title = fmt.Sprintf("%d ops by kind, the mean of each", to-from)
		}
		section(p.Ops[from].Layer+" "+p.Ops[from].Phase+", "+title, kinds)
		from = to
	}
	inside := func(title string, groups []profile.Group) {
		if len(groups) == 0 {
			return
		}
		t.Rows = append(t.Rows, []string{title})
		for _, g := range fold(groups) {
			row := []string{"  " + g.Name, units.Seconds(g.Seconds), "", units.Percent(g.Share), units.Count(p.Steps), units.Seconds(g.Seconds * float64(p.Steps)), "", "", "", units.Count(g.Kernels)}
			t.Rows = append(t.Rows, row)
		}
	}
	inside("kernels of a step of these programs", p.InChain)
	inside("kernels of a step of the epoch's program", p.InEpoch)
	t.Notes = p.notes()
	return t
}

// fold joins the groups at the end that take less than half a percent each: an
// epoch's program has dozens of them, such as the kernels of its shuffle.
func fold(groups []profile.Group) []profile.Group {
	from := len(groups)
	for from > 0 && groups[from-1].Share < 0.005 {
		from--
	}
	if len(groups)-from < 3 {
		return groups
	}
	rest := profile.Group{Name: units.Plural(len(groups)-from, "other")}
	for _, g := range groups[from:] {
		rest.Seconds, rest.Share, rest.Kernels = rest.Seconds+g.Seconds, rest.Share+g.Share, rest.Kernels+g.Kernels
	}
	return append(groups[:from:from], rest)
}

// row is a line of the table. What is not known is left empty.
func (p phases) row(name string, l profile.Line) []string {
	if l.Time.N() == 0 && l.Device == 0 {
		return []string{name, "not measured"}
	}
	row := []string{name, units.Seconds(l.Seconds()), "", "", "", "", "", "", "", ""}
	if l.AtMost() {
		row[1] = "≤ " + row[1]
	}
	if l.Device == 0 && l.Time.N() > 1 && !l.AtMost() {
		row[2] = fmt.Sprintf("± %.0f %%", 100*l.Time.Spread())
	}
	if l.Share > 0 {
		row[3] = units.Percent(l.Share)
	}
	if l.Calls > 0 {
		row[4], row[5] = units.Count(l.Calls), units.Seconds(l.Seconds()*float64(l.Calls))
	}
	if l.Bytes > 0 {
		row[6], row[7] = units.FLOPs(l.FLOPs), units.Bytes(l.Bytes)
		if !l.AtMost() {
			row[8] = ofPeak(p.Peaks.Share(l))
		}
	}
	if l.Kernels >= 0 {
		row[9] = units.Count(l.Kernels)
	}
	return row
}

// ofPeak is what a line has of the peak that bounds it.
func ofPeak(share float64, bound string) string {
	switch {
	case bound == "cache":
		return "in cache"
	case math.IsNaN(share):
		return "not measurable"
	}
	return units.Percent(share) + " " + bound
}

// notes compare sums with wholes, and explain.
func (p phases) notes() []string {
	var notes []string
	quiet := p.Busy() == "" // else comparisons mean nothing
	if left := p.Left(); quiet && !math.IsNaN(left) {
		var places []string
		for _, l := range p.Phases.Phases {
			places = append(places, l.Phase+" "+units.Seconds(l.InStep))
		}
		why := "the other phases have filled the cache, and memory for results is not allocated yet"
		if p.Rest() < 0 {
			why = "each phase finds in the cache what the one before has written, or the machine was slower while they ran alone"
		}
		notes = append(notes, fmt.Sprintf("Within a step the phases take %s (%s), %+.1f %% compared with running alone: %s. The step as one program takes %s, %+.1f %% compared with that sum.",
			units.Seconds(p.InStep), strings.Join(places, ", "), 100*p.Rest()/p.Sum(), why, units.Seconds(p.Chain.Seconds()), 100*left/p.InStep))
	}
	if step := p.Epoch.Seconds(); quiet && step > 0 {
		notes = append(notes, fmt.Sprintf("Estimated epoch (sum × steps): %s; measured: %s (%s), which is %s of the estimate: %s.",
			units.Seconds(p.Estimate()), units.Seconds(p.Measured()), p.seen(), units.Percent(p.Measured()/p.Estimate()), p.why()))
	}
	if mfu := p.MFU(); quiet && mfu > 0 {
		notes = append(notes, fmt.Sprintf("Model FLOPs utilisation (MFU): %s of the peak of this device's matmuls, by a step of the epoch's program.", units.Percent(mfu)))
	}
	if sum := profile.Total(p.Forward); sum > 0 {
		notes = append(notes, fmt.Sprintf("The layers alone take %s forward and %s backward: each reads and writes everything between it and the next, where the phase's program joins ops.",
			units.Seconds(sum), units.Seconds(profile.Total(p.Backward))))
	}
	if p.Chain.Time.N() > 0 && p.Chain.Kernels < 0 {
		notes = append(notes, "This device has no profiler: kernels are not known, and ops are timed as programs of their own.")
	}
	for _, l := range p.Lines() {
		if l.AtMost() {
			notes = append(notes, "≤: an upper bound, because the device was faster than the host could dispatch or than the clock can tell.")
			break
		}
	}
	if host := p.Chain.Time.Median(); p.Chain.Device > 0 && host > 1.5*p.Chain.Device {
		notes = append(notes, fmt.Sprintf("Times are kernel times from the profiler. Run as five programs, a step takes %s, because the host cannot dispatch them faster.", units.Seconds(host)))
	}
	if p.Peaks.Copy > 0 {
		notes = append(notes, "Peaks of "+p.Peaks.String())
	}
	if p.Partial {
		notes = append(notes, "stopped: a partial result")
	}
	for _, w := range p.Warnings {
		notes = append(notes, "warning: "+w.Error())
	}
	return notes
}

func (p phases) seen() string {
	if p.Seen >= p.Steps {
		return fmt.Sprintf("by %s steps", units.Count(p.Seen))
	}
	return fmt.Sprintf("by %s of its steps", units.Count(p.Seen))
}

// why says where the difference between the epoch and the phases comes from.
func (p phases) why() string {
	switch ratio := p.Measured() / p.Estimate(); {
	case ratio < 0.95:
		return "one program fuses what five write and read again, and is dispatched once"
	case ratio <= 1.05:
		return "joining the phases saves nothing here"
	}
	return "in one program XLA chooses slower code here than in five, or the machine was busier then"
}

// bars shows phases, and the layers of forward and backward.
func (p phases) bars() Bars {
	b := Bars{Title: "Time of a step"}
	for group, lines := range [][]profile.Line{p.Phases.Phases, p.Forward, p.Backward} {
		for _, l := range lines {
			b.Bars = append(b.Bars, Bar{Name: strings.TrimSpace(l.Path()), Value: l.InAll(), Text: units.Seconds(l.InAll()) + " " + units.Percent(l.Share), Group: group})
		}
	}
	return b
}
