package fit

import (
	"maps"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/lower/xla"
	"gaiden/lib/session"
)

// compile makes a program ready.
func (n *Net) compile(p *hlo.Program, donate []bool) (*session.Program, error) {
	return n.session.Compile(p, session.Options{Donate: donate, Flags: n.flags(p, donate), FirstLook: n.config.FirstLook, Origin: n.config.Origin})
}

// made traces a program and makes it ready.
func (n *Net) made(name string, f func(t *trace) []*Node) (*session.Program, error) {
	return n.madeFor(1, name, f)
}

// madeFor is made for a program that runs on several devices at once.
func (n *Net) madeFor(devices int, name string, f func(t *trace) []*Node) (*session.Program, error) {
	p, err := n.traceFor(devices, name, f)
	if err != nil {
		return nil, err
	}
	return n.compile(p, nil)
}

// inPlace says whether a program takes the memory of most of its parameters, or has a loop and
// takes that of some.
func inPlace(p *hlo.Program, donate []bool) bool {
	taken := 0
	for _, d := range donate {
		if d {
			taken++
		}
	}
	return 2*taken > len(donate) || taken > 0 && p.Has("while")
}

// flags are XLA's options for a program.
func (n *Net) flags(p *hlo.Program, donate []bool) map[string]any {
	flags := maps.Clone(n.config.Flags)
	set := func(name string, value any) {
		if flags == nil {
			flags = map[string]any{}
		}
		if _, is := flags[strings.TrimSuffix(name, "?")]; !is {
			flags[name] = value
		}
	}
	for name, value := range plan.Flags(n.target, p, inPlace(p, donate), n.oneDNN()) {
		set(name, value)
	}
	return flags
}

func (n *Net) oneDNN() bool { return n.config.OneDNN && n.target.CPU() }

// lowering is what the net says about how its operations are written.
func (n *Net) lowering() lower.Options {
	o := n.options
	o.OneDNN = n.oneDNN()
	o.ExamplesLast = xla.ExamplesLast(n.target, n.model)
	return o
}
