package device

import (
	"fmt"
	"slices"
	"strings"

	"gaiden/lib/engine/wire"
)

// checkJob refuses a job that could not run.
func checkJob(b *wire.JobBody) *wire.Error {
	bad := func(format string, args ...any) *wire.Error {
		return wire.Errorf(wire.Invalid, "job %s: %s", wire.ShownBriefly(b.Name, 80), fmt.Sprintf(format, args...))
	}
	if why := wire.CheckName(b.Name); why != nil {
		e := bad("%s", strings.TrimPrefix(why.Text, "array "))
		e.Next = why.Next
		return e
	}
	if len(b.Steps) == 0 || b.Turns < 0 || b.Save < 0 || b.Period < 0 {
		return bad("got %d steps, %d turns, %d to a period, a snapshot each %d periods: want 1 step or more and no negative number", len(b.Steps), b.Turns, b.Period, b.Save)
	}
	for _, p := range b.Programs {
		for _, t := range append(append([]wire.Type{}, p.Inputs...), p.Outputs...) {
			if _, err := t.Bytes(); err != nil || len(t.Dims) > wire.MaxRank {
				return bad("program %s has the type %s, which is none", p.Name, t)
			}
		}
	}
	reads := map[string]bool{}
	for i, s := range b.Steps {
		if s.Program < 0 || s.Program >= len(b.Programs) {
			return bad("step %d runs program %d: there are %d", i, s.Program, len(b.Programs))
		}
		p := &b.Programs[s.Program]
		replicas := max(1, int(p.Replicas))
		switch {
		case len(s.Inputs) != len(p.Inputs)*replicas:
			return bad("step %d has %d inputs: program %s wants %d", i, len(s.Inputs), p.Name, len(p.Inputs)*replicas)
		case len(s.Names) != 0 && len(s.Names) != len(p.Outputs)*replicas:
			return bad("step %d has names for %d outputs: program %s has %d", i, len(s.Names), p.Name, len(p.Outputs)*replicas)
		case s.Donate != nil && len(s.Donate) != len(s.Inputs):
			return bad("step %d has %d donation marks for %d inputs", i, len(s.Donate), len(s.Inputs))
		case s.Finite && s.Donate != nil:
			return bad("step %d gives its inputs away and wants to see first whether its results are finite", i)
		case !slices.Contains([]wire.Moment{wire.EachTurn, wire.FirstTurn, wire.LastTurn, wire.AtStart, wire.NotFinite, wire.AtEnd}, s.When):
			return bad("step %d runs at unknown moment %q", i, s.When)
		case s.When == wire.NotFinite && (i == 0 || !b.Steps[i-1].Finite && b.Steps[i-1].When != wire.NotFinite):
			return bad("step %d waits for numbers that are not finite: want it right after a step that is to be finite", i)
		case s.When == wire.NotFinite && s.Finite:
			return bad("step %d waits for numbers that are not finite, and wants to be finite", i)
		case s.Repeat < 0:
			return bad("step %d repeats %d times", i, s.Repeat)
		}
		for _, n := range s.Names {
			if n == "" {
				continue
			}
			if why := wire.CheckName(n); why != nil {
				return bad("step %d: %s", i, why.Text).WithHint("%s", why.Next)
			}
		}
		for k, in := range s.Inputs {
			if (in.Name == "") == (len(in.Each) == 0) {
				return bad("step %d, input %d: want one name, or one for each repetition", i, k)
			}
		}
		for _, r := range s.Read {
			if r.Output < 0 || r.Output >= len(p.Outputs)*replicas {
				return bad("step %d reads output %d of program %s, which has %d", i, r.Output, p.Name, len(p.Outputs)*replicas)
			}
			reads[r.Name] = true
		}
		if len(p.Text) == 0 {
			return bad("program %s has no text: it could not be resumed", p.Name)
		}
	}
	if !slices.ContainsFunc(b.Steps, func(s wire.JobStep) bool { return s.When == wire.EachTurn }) {
		return bad("no step is done each turn: there would be turns without work")
	}
	if b.Copies != "" && (b.Scratch == "" || !strings.HasPrefix(b.Copies, b.Scratch)) {
		return bad("its copies begin with %q: want names that begin with %q, which are deleted when it has ended", b.Copies, b.Scratch)
	}
	if u := b.Until; u != nil && !reads[u.Read] {
		return bad("it ends by %q, which no step reads", u.Read)
	}
	return nil
}

// cannotRun says why a job cannot run on the worker's devices, and when it can; "" if it can now.
func (w *Worker) cannotRun(b *wire.JobBody) (why, until string) {
	need := 1
	for _, s := range b.Steps {
		p := &b.Programs[s.Program]
		need = max(need, int(p.Replicas), s.Device+1)
		for _, d := range p.Devices {
			need = max(need, int(d)+1)
		}
	}
	if need > len(w.devices) {
		return fmt.Sprintf("it needs %d devices, and the session has %d", need, len(w.devices)), "they are back, by %hosts add or after a restart"
	}
	used, all := map[int]bool{}, map[int]bool{}
	for i, d := range w.devices {
		if all[d.Node()] = true; i < need {
			used[d.Node()] = true
		}
	}
	if len(used) > 1 && len(used) < len(all) { // see hosts.Client
		return fmt.Sprintf("it runs on %d hosts, and the session has %d: a program is for all hosts or for one", len(used), len(all)), "%hosts remove has taken the others out"
	}
	return "", ""
}

// nextPlace is the place after this one.
func nextPlace(p wire.Place, b *wire.JobBody) wire.Place {
	if p.Repeat++; p.Repeat < max(1, b.Steps[p.Step].Repeat) {
		return p
	}
	p.Repeat = 0
	p.Step++
	return firstPlace(p, b)
}

// firstPlace is the first place from this one on where there is something to do,
// or the end.
func firstPlace(p wire.Place, b *wire.JobBody) wire.Place {
	for ; p.Turn < max(1, b.Turns); p = (wire.Place{Turn: p.Turn + 1}) {
		for ; p.Step < len(b.Steps); p.Step++ {
			if b.Steps[p.Step].When.Holds(p.Turn, b.Period) {
				return p
			}
		}
	}
	return wire.Place{Turn: p.Turn}
}

// numbers are the elements of an array, at most MaxEntry.
func numbers(t wire.Type, b []byte) []float64 {
	size, number := elementOf(t.DType)
	n := min(len(b)/size, wire.MaxEntry)
	l := make([]float64, n)
	for i := range l {
		l[i] = number(b[i*size:])
	}
	return l
}
