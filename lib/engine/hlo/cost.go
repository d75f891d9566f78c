package hlo

import (
	"math"
	"slices"

	"github.com/gomlx/compute/shapes"
)

// Cost is how much work something is, counted from the program as written.
//
// The counts are those of XLA's HloCostAnalysis: a multiplication with an
// addition is two FLOPs; exp, log, tanh, sqrt, power and the like are counted
// apart, one for each element; moving data is no FLOP. Bytes are the operands
// and results of each op as if it ran alone, so they are an upper bound: fused
// ops keep what they hand on to each other in registers.
type Cost struct {
	FLOPs           float64
	Transcendentals float64
	Bytes           float64
	// OpenLoops is the number of loops whose trips are not known beforehand;
	// each is counted as one trip.
	OpenLoops int
}

func (c Cost) plus(d Cost) Cost {
	return Cost{c.FLOPs + d.FLOPs, c.Transcendentals + d.Transcendentals, c.Bytes + d.Bytes, c.OpenLoops + d.OpenLoops}
}

func (c Cost) times(n float64) Cost {
	return Cost{c.FLOPs * n, c.Transcendentals * n, c.Bytes * n, c.OpenLoops}
}

// LabelCost is the cost of the ops with one label.
type LabelCost struct {
	Label string // "" for ops without one
	Cost
}

// CallCost is the cost of the custom calls with one name and label.
type CallCost struct {
	Name, Label string  // the name is that in the call's configuration
	Times       float64 // in an execution
	Cost                // of one call; the mean where they differ
}

// Cost returns the work of one execution, on one replica.
func (p *Program) Cost() Cost { return total(p.costs) }

// Costs returns the same by label, in the order of their first op.
func (p *Program) Costs() []LabelCost {
	var l []LabelCost
	for _, c := range p.costs {
		i := slices.IndexFunc(l, func(x LabelCost) bool { return x.Label == c.label })
		if i < 0 {
			i, l = len(l), append(l, LabelCost{Label: c.label})
		}
		l[i].Cost = l[i].plus(c.Cost)
	}
	return l
}

// Calls returns the work of custom calls whose configuration has a name, by label
// and name, in the order of their first call.
func (p *Program) Calls() []CallCost {
	var l []CallCost
	for _, c := range p.costs {
		if c.call != "" && c.times > 0 {
			l = append(l, CallCost{Name: c.call, Label: c.label, Times: c.times, Cost: c.Cost.times(1 / c.times)})
		}
	}
	return l
}

// FLOPs returns the floating point operations of one execution, on one replica.
func (p *Program) FLOPs() float64 { return p.Cost().FLOPs }

// entry is what ops have in common that are counted together: their label, and
// the name of custom calls.
type entry struct{ label, call string }

// counted is the cost of an entry's ops.
type counted struct {
	entry
	times float64 // that they run
	Cost
}

// tally adds costs up by entry.
type tally struct {
	costs []counted
	place map[entry]int
}

func (t *tally) add(e entry, times float64, c Cost) {
	i, ok := t.place[e]
	if !ok {
		if t.place == nil {
			t.place = map[entry]int{}
		}
		i = len(t.costs)
		t.place[e] = i
		t.costs = append(t.costs, counted{entry: e})
	}
	t.costs[i].times += times
	t.costs[i].Cost = t.costs[i].plus(c)
}

func (t *tally) addAll(costs []counted, times float64) {
	for _, c := range costs {
		t.add(c.entry, c.times*times, c.Cost.times(times))
	}
}

// count returns the cost of the live statements of f, and of what they run.
// The costs of functions that are called are kept in called.
func count(f *Function, called map[*Function][]counted) []counted {
	var t tally
	for _, s := range f.statements {
		if !s.live {
			continue
		}
		switch {
		case s.callee != nil:
			if _, ok := called[s.callee]; !ok {
				called[s.callee] = count(s.callee, called)
			}
			t.addAll(called[s.callee], 1)
		case s.op == "stablehlo.while":
			n, known := trips(s)
			if !known {
				n = 1
				t.add(entry{label: s.label}, 0, Cost{OpenLoops: 1})
			}
			t.addAll(count(s.regions[0], called), n+1)
			t.addAll(count(s.regions[1], called), n)
		case s.op == "stablehlo.if": // the dearer branch, as XLA has it
			branch := count(s.regions[0], called)
			if other := count(s.regions[1], called); total(other).FLOPs > total(branch).FLOPs {
				branch = other
			}
			t.addAll(branch, 1)
		default: // what runs inside other regions is part of s.cost
			if s.cost != (Cost{}) {
				t.add(entry{s.label, s.call}, 1, s.cost)
			}
		}
	}
	return t.costs
}

func total(costs []counted) Cost {
	var sum Cost
	for _, c := range costs {
		sum = sum.plus(c.Cost)
	}
	return sum
}

// trips returns how often a While runs, if that can be seen: if its condition
// compares one integer of the state with a constant, and its body adds a
// constant to it.
func trips(s *statement) (float64, bool) {
	cond, body := s.regions[0], s.regions[1]
	test := cond.outputs[0].stmt
	if test == nil || len(test.in) != 2 {
		return 0, false
	}
	var direction string
	for _, c := range comparisons {
		if test.op == "stablehlo.compare "+c.direction+"," {
			direction = c.direction
		}
	}
	counter, limit := test.in[0], test.in[1]
	if counter.isConstant() {
		counter, limit = limit, counter
		direction = map[string]string{"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}[direction]
	}
	if !counter.isParameter() || counter.home != cond || limit.integer == nil {
		return 0, false
	}
	start, next := s.in[counter.index], body.outputs[counter.index].stmt
	if start.integer == nil || next == nil || len(next.in) != 2 {
		return 0, false
	}
	old, step := next.in[0], next.in[1]
	if next.op == "stablehlo.add" && old.isConstant() {
		old, step = step, old
	}
	if old != body.params[counter.index] || step.integer == nil {
		return 0, false
	}
	by := float64(*step.integer)
	switch next.op {
	case "stablehlo.add":
	case "stablehlo.subtract":
		by = -by
	default:
		return 0, false
	}
	n := (float64(*limit.integer) - float64(*start.integer)) / by
	switch {
	case direction == "LT" && by > 0 || direction == "GT" && by < 0:
		n = math.Ceil(n)
	case direction == "LE" && by > 0 || direction == "GE" && by < 0:
		n = math.Floor(n) + 1
	case direction == "NE" && n >= 0 && n == math.Trunc(n):
	default:
		return 0, false
	}
	return max(0, n), true
}

// bytesOf is the size of tensors in memory.
func bytesOf(ss ...shapes.Shape) float64 {
	var n float64
	for _, s := range ss {
		n += float64(s.Size()) * float64(s.DType.Bits()) / 8
	}
	return n
}

// elementwiseCost is one operation an element; add knows the bytes.
func elementwiseCost(shape shapes.Shape, transcendental bool) Cost {
	n := float64(shape.Size())
	if transcendental {
		return Cost{Transcendentals: n}
	}
	return Cost{FLOPs: n}
}

// movementCost is reading from and writing to.
func movementCost(from, to shapes.Shape) Cost { return Cost{Bytes: bytesOf(from, to)} }

// reduceCost is one operation for each element that goes.
func reduceCost(from, to shapes.Shape) Cost {
	return Cost{FLOPs: float64(from.Size() - to.Size()), Bytes: bytesOf(from, to)}
}

// windowCost is one operation for each element of a window but the first.
func windowCost(from, to shapes.Shape, window []int) Cost {
	n := 1
	for _, d := range window {
		n *= d
	}
	return Cost{FLOPs: float64(to.Size()) * float64(n-1), Bytes: bytesOf(from, to)}
}

// dotCost is a multiplication and an addition for each element of the result
// and each place that is summed over.
func dotCost(lhs, rhs, out shapes.Shape, depth int) Cost {
	return Cost{FLOPs: 2 * float64(out.Size()) * float64(depth), Bytes: bytesOf(lhs, rhs, out)}
}

// cost counts the multiplications with elements of the input, not those with
// its padding, as HloCostAnalysis::HandleConvolution does.
func (c *convolution) cost() Cost {
	valid := 1.0
	for i, axis := range c.axes.InputSpatial {
		length := c.input.Dimensions[axis]
		hits := 0
		for o := range c.output.Dimensions[c.axes.OutputSpatial[i]] {
			for k := range c.kernel.Dimensions[c.axes.KernelSpatial[i]] {
				at := o*c.strides[i] + k*c.kernelDilations[i] - c.paddings[i][0]
				if at >= 0 && at%c.inputDilations[i] == 0 && at/c.inputDilations[i] < length {
					hits++
				}
			}
		}
		valid *= float64(hits)
	}
	batch := float64(c.output.Dimensions[c.axes.OutputBatch])
	channels := float64(c.kernel.Dimensions[c.axes.KernelInputChannels]) * float64(c.kernel.Dimensions[c.axes.KernelOutputChannels])
	return Cost{FLOPs: 2 * batch * channels * valid, Bytes: bytesOf(c.input, c.kernel, c.output)}
}

// normCost counts perElement operations an element, a square root for each
// feature, and touches readings or writings of x. Inference subtracts,
// multiplies twice and adds (4). Training sums x and x² first (+3). The
// gradient sums g and g·(x-mean) (4), and joins the three terms of the
// gradient of x (7), as in HloBatchNormExpander.
func normCost(x, vector shapes.Shape, perElement, touches int) Cost {
	n := float64(x.Size())
	return Cost{
		FLOPs:           n * float64(perElement),
		Transcendentals: float64(vector.Size()),
		Bytes:           float64(touches)*bytesOf(x) + 4*bytesOf(vector),
	}
}

// fftCost is 5·n·log₂n, the usual count for radix 2 (benchFFT); half of it
// for real numbers.
func fftCost(from, to shapes.Shape, lengths []int) Cost {
	n, log := 1.0, 0.0
	for _, l := range lengths {
		n *= float64(l)
		log += math.Log2(max(1, float64(l)))
	}
	transforms := float64(max(from.Size(), to.Size())) / n
	if !from.DType.IsComplex() || !to.DType.IsComplex() {
		whole := from
		if from.DType.IsComplex() {
			whole = to
		}
		transforms = float64(whole.Size()) / n / 2
	}
	return Cost{FLOPs: 5 * n * log * transforms, Bytes: bytesOf(from, to)}
}

// sortCost is n·log₂n comparisons, as HloCostAnalysis::HandleSort has it.
func sortCost(in []shapes.Shape) Cost {
	n := float64(in[0].Size())
	if n == 0 {
		return Cost{}
	}
	return Cost{FLOPs: n * math.Ceil(math.Log2(n)), Bytes: 2 * bytesOf(in...)}
}
