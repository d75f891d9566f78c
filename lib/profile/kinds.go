package profile

import (
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

// listed is how many ops of a layer are told one by one; of more, those of a kind are joined.
const listed = 24

// Kinds are the ops of a layer in their order: each by itself, or, where there are very many,
// all of a kind as one line, with their mean and how many they are (Times).
func (p *Phases) Kinds(phase, layer string) []Line {
	var ops []Line
	for _, l := range p.Ops {
		if l.Phase == phase && l.Layer == layer {
			ops = append(ops, l)
		}
	}
	if len(ops) <= listed {
		return ops
	}
	var names []string
	kinds := map[string][]Line{}
	for _, l := range ops {
		kind := base(l.Operation)
		if kinds[kind] == nil {
			names = append(names, kind)
		}
		kinds[kind] = append(kinds[kind], l)
	}
	joined := make([]Line, len(names))
	for i, name := range names {
		joined[i] = mean(name, kinds[name])
	}
	share(joined)
	return joined
}

// mean is a line for ops of one kind. Its samples are the means of the ops' quartiles.
func mean(name string, ops []Line) Line {
	l := ops[0]
	l.Operation, l.Times = name, len(ops)
	l.Device, l.Floor, l.FLOPs, l.Bytes, l.Calls, l.Kernels = 0, 0, 0, 0, 0, 0
	quartiles := make([]float64, 3)
	part := 1 / float64(len(ops))
	for _, o := range ops {
		l.Device, l.Floor = l.Device+part*o.Device, l.Floor+part*o.Floor
		l.FLOPs, l.Bytes = l.FLOPs+part*o.FLOPs, l.Bytes+part*o.Bytes
		l.Calls, l.Kernels = l.Calls+o.Calls, l.Kernels+o.Kernels
		for i := range quartiles {
			quartiles[i] += part * stats.Quantile(o.Time.Samples, 0.25*float64(i+1))
		}
	}
	l.Kernels = max(l.Kernels, -1)
	l.Time = timing.Measurement{Samples: quartiles, Loops: 1}
	return l
}
