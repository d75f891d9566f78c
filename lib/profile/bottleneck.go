package profile

import (
	"fmt"
	"strings"

	"gaiden/lib/timing/units"
)

// A Bottleneck is what takes most of a step's time: the slowest phase, in it the
// slowest layer, in that the slowest op.
type Bottleneck struct {
	// Chain are the lines from the phase down to what is to blame: one to
	// three of them.
	Chain []Line
	// Advice is what is known to help, "" if nothing is.
	Advice string
	// Doubt says why the finding may be wrong, "" if it is sound.
	Doubt string
}

// Bottleneck finds what takes most of the time.
func (p *Phases) Bottleneck() Bottleneck {
	var b Bottleneck
	worst, ok := p.slowest(p.Phases)
	if !ok {
		return Bottleneck{Doubt: "nothing was measured"}
	}
	b.Chain = []Line{worst}
	layers := map[string][]Line{"forward": p.Forward, "backward": p.Backward}[worst.Phase]
	if layer, ok := p.slowest(layers); ok {
		b.Chain = append(b.Chain, layer)
		var ops []Line
		for _, l := range p.Ops {
			if l.Phase == layer.Phase && l.Layer == layer.Layer {
				ops = append(ops, l)
			}
		}
		if op, ok := p.slowest(ops); ok {
			b.Chain = append(b.Chain, op)
		}
	}
	b.Advice = p.advice(b.Chain)
	last := b.Chain[len(b.Chain)-1]
	switch {
	case worst.AtMost():
		b.Doubt = "the host could not ask as fast as the device works, so the device's own time is not known"
	case last.Device == 0 && last.Time.Spread() > 0.125:
		b.Doubt = fmt.Sprintf("it spread %.0f%% while it was measured", 100*last.Time.Spread())
	}
	return b
}

// fills are the ops by which an array is filled through an index: one element
// at a time.
var fills = map[string]string{"scatter": "indexed fill", "select_and_scatter": "search and fill", "gather": "indexed read"}

// name is how people call the line's op.
func name(l Line) string {
	op, _, _ := strings.Cut(l.Operation, "_2")
	if what := fills[op]; what != "" {
		return fmt.Sprintf("%s (%s)", l.Operation, what)
	}
	return l.Operation
}

// String is the finding in one sentence, and what helps in another.
func (b Bottleneck) String() string {
	if len(b.Chain) == 0 {
		return "no bottleneck: " + b.Doubt
	}
	last := b.Chain[len(b.Chain)-1]
	s := fmt.Sprintf("%s takes %s of a step", b.Chain[0].Phase, units.Percent(b.Chain[0].Share))
	if len(b.Chain) > 1 {
		s += fmt.Sprintf("; in it layer %s takes %s of the layers' time", b.Chain[1].Layer, units.Percent(b.Chain[1].Share))
	}
	if len(b.Chain) > 2 {
		s += fmt.Sprintf(", and of that its %s %s", name(last), units.Percent(last.Share))
	}
	s += ": " + units.Seconds(last.Seconds())
	if b.Doubt != "" {
		s += " (" + b.Doubt + ")"
	}
	if b.Advice != "" {
		s += "\n" + b.Advice
	}
	return s
}

// advice is what helps against the last line.
func (p *Phases) advice(chain []Line) string {
	last := chain[len(chain)-1]
	share, bound := p.Peaks.Share(last)
	op, _, _ := strings.Cut(last.Operation, "_2")
	switch {
	case op == "scatter" || op == "select_and_scatter":
		return "a fill through an index is slow: models.MaxPool2D{Gradient: models.Mask} compares and multiplies instead"
	case share > 0.6:
		return fmt.Sprintf("it runs at %s of this device's %s: little is to be gained here; a larger batch or bfloat16 changes the sum", units.Percent(share), bound)
	case last.AtMost():
		return "the device waits for the host: a larger batch, or whole epochs as one program (fit.Net.Train), keep it busy"
	case op == "while":
		return "a loop runs its kernels one after the other: fewer, larger steps are faster"
	}
	return ""
}
