package profile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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
	// Fastest are the phases by their fastest runs, the longest first, where there is no Chain
	// because the machine is busy: other load can make a run slower, and none faster.
	Fastest []Line
}

// Bottleneck finds what takes most of the time.
func (p *Phases) Bottleneck() Bottleneck {
	var b Bottleneck
	worst, ok := p.slowest(p.Phases)
	if !ok {
		return Bottleneck{Doubt: "nothing was measured"}
	}
	why := p.Busy()
	if why == "" {
		why = worst.Unclear()
	}
	if why != "" {
		return Bottleneck{Doubt: "not measurable here, the machine is busy: " + why, Fastest: fastest(p.Phases)}
	}
	b.Chain = []Line{worst}
	layers := map[string][]Line{"forward": p.Forward, "backward": p.Backward}[worst.Phase]
	if layer, ok := p.slowest(layers); ok && layer.Unclear() == "" {
		b.Chain = append(b.Chain, layer)
		if op, ok := p.slowest(p.Kinds(layer.Phase, layer.Layer)); ok && op.Unclear() == "" {
			b.Chain = append(b.Chain, op)
		}
	}
	b.Advice = p.advice(b.Chain)
	last := b.Chain[len(b.Chain)-1]
	switch {
	case worst.AtMost():
		b.Doubt = "the host could not ask as fast as the device works, so the device's own time is not known"
	case last.Device == 0 && last.Time.Spread() > 0.125:
		b.Doubt = fmt.Sprintf("it spread %.0f %% while it was measured", 100*last.Time.Spread())
	}
	return b
}

// fastest are lines by their fastest runs, the longest first.
func fastest(lines []Line) []Line {
	l := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return !(l.least() > 0) })
	slices.SortStableFunc(l, func(a, b Line) int { return cmp.Compare(b.least(), a.least()) })
	return l
}

// least is the time of the fastest run in seconds; 0 if nothing was measured.
func (l Line) least() float64 {
	switch {
	case l.Device > 0:
		return l.Device
	case l.Time.N() == 0:
		return 0
	}
	return slices.Min(l.Time.Samples)
}

// apart is how many times longer the fastest run of one line has to be than that of another for
// their order to be believed on a busy machine.
const apart = 1.5

// ranking says what Fastest shows.
func (b Bottleneck) ranking() string {
	if len(b.Fastest) < 2 {
		return ""
	}
	var l []string
	near := 1
	for i, line := range b.Fastest {
		s := line.Path() + " "
		if line.AtMost() {
			s += "≤ "
		}
		l = append(l, s+units.Seconds(line.least()))
		if i > 0 && b.Fastest[0].least() < apart*line.least() {
			near = i + 1
		}
	}
	s := "\nfastest runs, which load disturbs least: " + strings.Join(l, ", ")
	if near == 1 {
		return s + ": probably " + b.Fastest[0].Path() + " takes longest"
	}
	var names []string
	for _, line := range b.Fastest[:near] {
		names = append(names, line.Path())
	}
	return s + ": which of " + strings.Join(names[:near-1], ", ") + " and " + names[near-1] + " takes longest is not certain"
}

// fills are the ops by which an array is filled or read through an index: one
// element at a time.
var fills = map[string]string{"scatter": "indexed fill", "select_and_scatter": "search and fill", "gather": "indexed read", filling: "one by one, through an index"}

// filling is the name of a loop that does nothing but write elements where an
// index says; StableHLO has no name for it.
const filling = "fill"

// operation names an op as its line does: by StableHLO's name, but a loop that
// fills by what it does.
func operation(name, text string) string {
	if name != "while" || !strings.Contains(text, "stablehlo.dynamic_update_slice") {
		return name
	}
	for _, op := range opNames.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(moving, op[1]) {
			return name
		}
	}
	return filling
}

var (
	opNames = regexp.MustCompile(`\bstablehlo\.(\w+)`)
	// moving are the ops of a loop that only moves values: what counts its turns,
	// and what reads and writes at an index.
	moving = []string{"while", "return", "constant", "add", "compare", "select", "reshape", "broadcast_in_dim", "dynamic_slice", "dynamic_update_slice"}
)

// base is an op's name without the number of one that comes again.
func base(operation string) string {
	return strings.TrimRight(strings.TrimRight(operation, "0123456789"), "_")
}

// name is how people call the line's op, or ops.
func name(l Line) string {
	name := l.Operation
	if l.Times > 1 {
		name = units.Plural(l.Times, l.Operation+" op")
	}
	op := base(l.Operation)
	if what := fills[op]; what != "" {
		return fmt.Sprintf("%s (%s)", name, what)
	}
	return name
}

// String is the finding in one sentence, and what helps in another.
func (b Bottleneck) String() string {
	if len(b.Chain) == 0 {
		return "no bottleneck: " + b.Doubt + b.ranking()
	}
	last := b.Chain[len(b.Chain)-1]
	s := fmt.Sprintf("%s takes %s of a step", b.Chain[0].Phase, units.Percent(b.Chain[0].Share))
	if len(b.Chain) > 1 {
		layer, takes := "layer "+b.Chain[1].Layer, "takes"
		if n := b.Chain[1].Times; n > 1 {
			layer, takes = fmt.Sprintf("the %d layers %s", n, b.Chain[1].Layer), "take"
		}
		s += fmt.Sprintf("; in it %s %s %s of the layers' time", layer, takes, units.Percent(b.Chain[1].Share))
	}
	if len(b.Chain) > 2 {
		s += fmt.Sprintf(", and of that its %s %s", name(last), units.Percent(last.Share))
	}
	s += ": " + units.Seconds(last.InAll())
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
	op := base(last.Operation)
	switch {
	case op == "scatter" || op == "select_and_scatter" || op == filling:
		return "a fill through an index is slow: models.MaxPool2D{Gradient: models.Mask} compares and multiplies instead"
	case share > 0.6:
		return fmt.Sprintf("it runs at %s of this device's peak (%s), so faster code would save little; try a larger batch, or bfloat16", units.Percent(share), bound)
	case last.AtMost():
		return "the device waits for the host: a larger batch, or whole epochs as one program (fit.Net.Fit), keep it busy"
	case op == "while":
		return "a loop runs its kernels one after the other: fewer, larger steps are faster"
	}
	return ""
}
