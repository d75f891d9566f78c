package fit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// Evaluate is the loss, accuracy and metrics over a whole set.
func (n *Net) Evaluate(s *Set) (*Score, error) {
	ctx := n.Context()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.infer(s); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		return nil, err
	}
	if err := cmp.Or(n.canTrain(s), n.suitsEncoder(s.Name, s.Encoder, true)); err != nil {
		return nil, err
	}
	return n.score(ctx, s, nil)
}

// batchesOf is how many batches a set is tested in.
func (n *Net) batchesOf(s *Set) int {
	size := plan.TestBatch(s.N, s.size)
	return (s.N + size - 1) / size
}

// tester begins to make the program ready that tests the set.
func (n *Net) tester(s *Set) *future {
	size, single := plan.TestBatch(s.N, s.size), plan.Unlooped(n.target, n.convolves)
	return n.prepare(fmt.Sprintf("test/%s/%d/%d/%t", s.key(), s.N, size, single), func() (*hlo.Program, error) { return n.testProgram(s, size, n.batchesOf(s), single) }, nil)
}

// score tests the set, in chunks that ctx can come between.
func (n *Net) score(ctx context.Context, s *Set, alive func()) (*Score, error) {
	began := time.Now()
	sums, answers, err := n.sumsOf(ctx, s, alive)
	if err != nil {
		return nil, err
	}
	answers = n.measured(s).answers(sums[lossColumns:], answers)
	return &Score{N: answers, Labels: n.labelled(s), Loss: mean(sums[0], sums[1]), Right: int(sums[2]), Metrics: n.measured(s).values(sums[lossColumns:]), Elapsed: time.Since(began)}, nil
}

// sumsOf are the sums of the results of all batches, and how many answers there are.
func (n *Net) sumsOf(ctx context.Context, s *Set, alive func()) (sums []float64, answers int, err error) {
	if s.stream == nil {
		sums, err = n.sumsOfSet(ctx, s, alive)
		return sums, s.N * s.answers(), err
	}
	from := n.blocks(ctx, s, 1, 0, 1, 1)
	defer from.close()
	sums = make([]float64, n.columns(s))
	for last := false; !last; {
		b, err := from.receive(ctx, alive)
		if err != nil {
			return nil, 0, err
		}
		o, err := n.upload(from, b, b.rows, b.rows, false, 1)
		if err != nil {
			return nil, 0, err
		}
		of, err := n.sumsOfSet(ctx, o.data, alive)
		o.release()
		if err != nil {
			return nil, 0, err
		}
		for i, x := range of {
			sums[i] += x
		}
		answers, last = answers+b.rows*s.answers(), b.last
	}
	return sums, answers, nil
}

func (n *Net) sumsOfSet(ctx context.Context, s *Set, alive func()) ([]float64, error) {
	columns := n.columns(s)
	batches, single := n.batchesOf(s), plan.Unlooped(n.target, n.convolves)
	p, err := n.wait(ctx, n.tester(s), alive)
	if err != nil {
		return nil, err
	}
	state, err := n.used()
	if err != nil {
		return nil, err
	}
	defer free(state...)
	results, err := n.session.Put(make([]float32, batches*columns), shapes.Make(dtypes.Float32, batches, columns), 0)
	if err != nil {
		return nil, err
	}
	values := make([]float32, batches*columns)
	for done, next := 0, 1; done < batches; {
		chunk := time.Now()
		next = min(next, batches-done)
		runs, count := 1, next
		if single {
			runs, count = next, 1
		}
		for i := range runs {
			scalars, err := n.integers(0, done+i*count, count)
			if err != nil {
				return nil, err
			}
			in := append(append(append([]*session.Array{}, state...), s.all()...), results)
			out, err := p.Run(session.Call{Inputs: append(in, scalars...)})
			if err != nil {
				return nil, err
			}
			free(append(scalars, results)...)
			results = out[0]
		}
		if err := during(ctx, alive, func() error { return results.Values(values) }); err != nil {
			return nil, err
		}
		done += next
		next = max(1, int(float64(next)*lower.ChunkTime.Seconds()/time.Since(chunk).Seconds()))
	}
	results.Finalize()
	sums := make([]float64, columns)
	for row := range slices.Chunk(values, columns) {
		for i, x := range row {
			sums[i] += float64(x)
		}
	}
	return sums, nil
}

// testProgram scores count batches of size examples, a single one only the
// first of them:
//
//	variables, x, y[, v], results [batches columns], first, count → results
//
// with the sum of the losses, the number to divide it by and the right answers
// of each. The last batch begins early where it would not be full, and does not
// count what the one before has.
func (n *Net) testProgram(s *Set, size, batches int, single bool) (*hlo.Program, error) {
	return n.trace("test", func(t *trace) []*Node {
		variables := t.variables()
		sources := t.sources(s)
		results := Parameter(t.g, "results", shapes.Make(dtypes.Float32, batches, n.columns(s)))
		first := Parameter(t.g, "first", shapes.Make(dtypes.Int32))
		count := Parameter(t.g, "count", shapes.Make(dtypes.Int32))
		zero, width, latest := t.scalar(int32(0)), t.scalar(int32(size)), t.scalar(int32(s.N-size))
		score := func(i *Node, state []*Node) []*Node {
			place := Add(first, i)
			begin := Mul(place, width)
			from := Min(begin, latest)
			b := t.gather(size, s, sources, window(from, size, zero))
			var mask *Node
			if s.N%size != 0 {
				number := Add(Iota(t.g, shapes.Make(dtypes.Int32, size), 0), from)
				mask = ConvertDType(GreaterOrEqual(number, begin), dtypes.Float32)
			}
			var result *Node
			if n.config.Step != nil {
				result = t.scoreStep(variables, b, mask)
			} else {
				t.set(variables)
				out := t.apply(b.in, false)
				result = row(t.results(s, out, b, mask))
			}
			return []*Node{DynamicUpdateSlice(state[0], result, []*Node{place, zero})}
		}
		if single {
			return score(zero, []*Node{results})
		}
		return t.repeat(count, 1, []*Node{results}, score)
	})
}
