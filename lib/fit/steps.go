package fit

import (
	"context"
	"fmt"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// steps are the programs that do a chunk of steps.
type steps struct {
	chunk
	net                 *Net
	keys                [3]string
	wait                [3]*future
	start, main, finish *session.Program
}

// steps begins to make the programs ready.
func (n *Net) steps(s *Set, c chunk) *steps {
	x := &steps{chunk: c, net: n}
	for i, part := range []struct {
		name   string
		build  func() (*hlo.Program, error)
		donate func(*hlo.Program) []bool
	}{
		{"epoch/" + s.key() + "/" + itoa(s.N), func() (*hlo.Program, error) { return n.epochProgram(s, c) }, n.taken},
		{"start", func() (*hlo.Program, error) { return n.startProgram(c) }, nil},
		{"finish", func() (*hlo.Program, error) { return n.finishProgram(c) }, nil},
	} {
		x.keys[i] = fmt.Sprintf("%s/%v", part.name, c)
		x.wait[i] = n.prepare(x.keys[i], part.build, part.donate)
	}
	return x
}

// ready waits for them.
func (x *steps) ready(ctx context.Context, alive func()) error {
	for i, to := range []**session.Program{&x.main, &x.start, &x.finish} {
		p, err := x.net.wait(ctx, x.keys[i], x.wait[i], alive)
		if err != nil {
			return err
		}
		*to = p
	}
	return nil
}

// do does some turns from example first of the order on: the state after them,
// and their results. The state it is given is kept.
func (x *steps) do(state []*session.Array, s *Set, order, rate *session.Array, first, turns int) (after []*session.Array, results *session.Array, err error) {
	scalars, err := x.net.integers(first, turns)
	if err != nil {
		return nil, nil, err
	}
	defer free(scalars...)
	runs := 1
	if x.Single {
		scalars, runs = scalars[:1], turns
	}
	fixed := append(append(s.arrays(), order, rate), scalars...)
	out, err := x.start.Run(session.Call{Inputs: state})
	for i := 0; i < runs && err == nil; i++ {
		out, err = x.main.Run(session.Call{Inputs: append(out, fixed...)})
	}
	if err != nil {
		return nil, nil, err
	}
	n := len(state)
	results = out[n]
	last, err := x.finish.Run(session.Call{Inputs: append(out[:len(x.net.layout.variables):len(x.net.layout.variables)], results)})
	if err != nil {
		return nil, nil, err
	}
	free(results, out[n+1])
	return out[:n:n], last[0], nil
}
