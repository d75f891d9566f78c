package profile

import (
	"fmt"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/phases"
	"gaiden/lib/session"
)

// apart measures each op of a layer's program, on the values that the program
// itself would give it.
func (m *measurer) apart(phase, layer string, f *phases.Phase, calls int) ([]Line, error) {
	operations, _ := f.HLO.Operations()
	values, err := f.Inputs()
	if err != nil {
		return nil, err
	}
	programs := make([]*hlo.Program, len(operations))
	for i, op := range operations {
		programs[i] = op.Program
	}
	compiled, err := m.compile(programs)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, len(operations))
	var tasks []task
	own := len(values)
	defer func() { free(values[own:]...) }()
	seen := map[string]int{}
	for i, op := range operations {
		in := make([]*session.Array, len(op.Inputs))
		for k, n := range op.Inputs {
			in[k] = values[n]
		}
		name := operation(op.Name, string(op.Program.Text(nil)))
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, seen[name])
		}
		lines[i] = Line{Level: Operation, Phase: phase, Layer: layer, Operation: name, Calls: calls, Kernels: -1}
		t, err := m.task(&lines[i], op.Program, in)
		if err != nil {
			return nil, err
		}
		out, err := compiled[i].Run(session.Call{Inputs: in})
		if err != nil {
			return nil, err
		}
		values = append(values, out...)
		tasks = append(tasks, t)
		if err := m.ctx.Err(); err != nil {
			return nil, err
		}
	}
	err = m.measure(tasks)
	share(lines)
	return lines, err
}
