package profile

import (
	"math/rand/v2"
	"time"

	"gaiden/lib/fit/phases"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

const (
	leastTurns = 5
	mostTurns  = 60
	inARow     = 10 // steps in a row, whose time is that of a step
)

// inPlace measures, from the host, what each phase takes in its place in a step:
// by how much later the step's first k+1 programs are done than its first k, each
// requested at once. What others leave in the cache and in memory is there then,
// or is not. The step itself is measured in the same turns, as many in a row with
// one wait, so that it is not the sum of the others by the way it is found.
func (m *measurer) inPlace(list []*phases.Phase, lines []Line, chain *Line) error {
	nothing, err := m.gateCost()
	if err != nil {
		return err
	}
	took := func(run func() error) (float64, error) {
		began := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		err := m.session.Wait()
		return time.Since(began).Seconds(), err
	}
	found := timing.Measurement{Name: chain.Path(), Loops: inARow, Device: true, Time: time.Now().UTC()}
	phases, steps := make([][]float64, len(list)), []float64(nil)
	began := time.Now()
	for n := 0; m.ctx.Err() == nil && (n < leastTurns || n < mostTurns && time.Since(began) < 4*m.Budget); n++ {
		until := make([]float64, len(list)+1) // the first k phases are done
		for _, k := range rand.Perm(len(until)) {
			first := func() error { return each(list[:k]) }
			if k == 0 {
				first = nothing.run
			}
			if until[k], err = took(first); err != nil {
				return err
			}
			if _, err = took(func() error { return each(list[k:]) }); err != nil {
				return err
			}
		}
		row, err := took(func() error {
			for range inARow {
				if err := each(list); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for k := range list {
			phases[k] = append(phases[k], until[k+1]-until[k])
		}
		steps = append(steps, until[len(list)]-until[0])
		found.Samples = append(found.Samples, (row-until[0])/inARow)
	}
	for k := range lines {
		lines[k].InStep = max(stats.Median(phases[k]), 0)
	}
	m.result.InStep, chain.Time = stats.Median(steps), found
	return m.ctx.Err()
}
