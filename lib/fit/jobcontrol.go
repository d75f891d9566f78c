package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/metrics"
	"gaiden/lib/session"
)

// What Fit decides after an epoch, as steps of a job: the session has no code of metrics, so
// programs of the device do it.

// judged says whether a job needs such steps.
func (t Train) judged() bool {
	return t.KeepBest || t.ReduceOnPlateau.Patience > 0 || t.Monitor != "" && t.Monitor != "loss"
}

// judging are the numbers of a job's judge: the best result, the best one of the plateau, its
// wait and its cooldown. Of results a smaller one is better; larger ones are negated.
const judging = 4

// monitoredName is the name of the monitored result in a job's log.
func monitoredName(monitor string) string {
	monitor = cmp.Or(monitor, "loss")
	return "validation " + monitor
}

// judge adds the steps that compare the result of an epoch with those before it, from the
// results of its test. They keep the best variables, and change the rate.
func (b *jobBuilder) judge(tested []string, shape shapes.Shape) error {
	n := b.net
	all := n.measured(b.Validation)
	slots := n.bestSlots()
	variables := n.names(slots)
	now, err := n.state(slots)
	if err != nil {
		return err
	}
	kept := make([]string, len(variables))
	for i := range variables {
		kept[i] = fmt.Sprintf("%skept/%d", b.prefix, i)
		b.names, b.values = append(b.names, kept[i]), append(b.values, now[i])
	}
	inf := float32(math.Inf(1))
	state, err := n.session.Put([]float32{inf, inf, 0, 0}, shapes.Make(dtypes.Float32, judging), 0)
	if err != nil {
		return err
	}
	b.bindLater("judge", state)
	known := true
	judge, err := n.made("judge", func(t *trace) []*Node {
		results := Parameter(t.g, "results", shape)
		old := Parameter(t.g, "judge", shapes.Make(dtypes.Float32, judging))
		rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
		now, best := t.slots(slots), t.slots(renamed("kept/", slots))
		value := t.monitored(results, all, b.goal.monitor, b.Validation.N*b.Validation.answers())
		if known = value != nil; !known {
			return []*Node{t.scalar(float32(0))}
		}
		smaller := value
		if b.goal.maximize {
			smaller = Neg(value)
		}
		at := func(i int) *Node { return Reshape(Slice(old, AxisRange(i, i+1))) }
		better := LessThan(smaller, at(0))
		out := []*Node{Reshape(value, 1), nil, nil}
		next := []*Node{Where(better, smaller, at(0))}
		plateau, rate := t.plateau(b.Train, smaller, rate, at(1), at(2), at(3))
		out[1], out[2] = Stack(append(next, plateau...), 0), rate
		for i, x := range now {
			out = append(out, Where(BroadcastToShape(better, shapes.Make(dtypes.Bool, x.Shape().Dimensions...)), x, best[i]))
		}
		return out
	})
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("fit: %s: Monitor is %q in a job: got a metric of your own, want the loss or one of package metrics, or Fit", n.name, b.goal.monitor)
	}
	in := append(append(append([]string{tested[0]}, b.scratchNames("judge", "rate")...), variables...), kept...)
	b.addStep(session.JobStep{Program: judge, When: wire.LastTurn, Inputs: session.Named(in...), Names: append(append([]string{""}, b.scratchNames("judge", "rate")...), kept...),
		Read: []wire.Read{{Output: 0, Name: monitoredName(b.Monitor)}}})
	if b.devices > 1 && b.ReduceOnPlateau.Patience > 0 {
		if err := b.broadcast(wire.LastTurn, b.scratchNames("rate"), []shapes.Shape{shapes.Make(dtypes.Float32)}); err != nil {
			return err
		}
	}
	if !b.KeepBest {
		return nil
	}
	restore, err := n.made("restore", func(t *trace) []*Node {
		state := Parameter(t.g, "judge", shapes.Make(dtypes.Float32, judging))
		now, best := t.slots(slots), t.slots(renamed("kept/", slots))
		some := IsFinite(Reshape(Slice(state, AxisRange(0, 1))))
		for i, x := range now {
			now[i] = Where(BroadcastToShape(some, shapes.Make(dtypes.Bool, x.Shape().Dimensions...)), best[i], x)
		}
		return now
	})
	if err != nil {
		return err
	}
	in = append(append(b.scratchNames("judge"), variables...), kept...)
	b.addStep(session.JobStep{Program: restore, When: wire.AtEnd, Inputs: session.Named(in...), Names: variables})
	return nil
}

// renamed are slots as other parameters of a program.
func renamed(prefix string, slots []slot) []slot {
	l := make([]slot, len(slots))
	for i, s := range slots {
		l[i] = slot{name: prefix + s.name, shape: s.shape}
	}
	return l
}

// monitored is a result of a set, from those of its batches; nil for a metric that only the
// host can compute.
func (t *trace) monitored(results *Node, all measured, monitor string, answers int) *Node {
	sums := ReduceSum(ConvertDType(results, dtypes.Float64), 0)
	part := func(from, n int) *Node { return Slice(sums, AxisRange(from, from+n)) }
	switch monitor {
	case "loss":
		return t.float(Reshape(t.mean(part(0, 1), part(1, 1))))
	case "accuracy":
		if !hasTitle(all, monitor) { // that of labels
			return t.float(DivScalar(Reshape(part(2, 1)), float64(answers)))
		}
	}
	at := lossColumns
	for _, m := range all {
		if m.Title() == monitor {
			if v := metrics.OnDevice(m.Metric, part(at, m.sums)); v != nil {
				return t.float(v)
			}
			return nil
		}
		at += m.sums
	}
	return nil
}

func hasTitle(all measured, title string) bool {
	return slices.ContainsFunc(all, func(m oneMeasured) bool { return m.Title() == title })
}

// plateau is optim.Plateau.Next in a program: best, wait and cooldown, and the rate.
func (t *trace) plateau(tr Train, result, rate, best, wait, cooldown *Node) (state []*Node, next *Node) {
	p := tr.ReduceOnPlateau.Defaults()
	if p.Patience == 0 {
		return []*Node{best, wait, cooldown}, rate
	}
	zero := t.scalar(float32(0))
	number := func(x float64) *Node { return Scalar(t.g, dtypes.Float32, x) }
	wait = Where(GreaterThan(cooldown, zero), zero, wait)
	cooldown = Max(Sub(cooldown, number(1)), zero)
	better := LessThan(result, Sub(best, number(p.MinDelta)))
	waits := LogicalAnd(LogicalNot(better), Equal(cooldown, zero))
	wait = Where(better, zero, Where(waits, Add(wait, number(1)), wait))
	cut := LogicalAnd(LogicalAnd(waits, GreaterOrEqual(wait, number(float64(p.Patience)))), GreaterThan(rate, number(p.MinRate)))
	return []*Node{Where(better, result, best), Where(cut, zero, wait), Where(cut, number(float64(p.Cooldown)), cooldown)},
		Where(cut, Max(Mul(rate, number(p.Factor)), number(p.MinRate)), rate)
}
