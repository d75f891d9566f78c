package fit

import (
	"context"
	"errors"
	"math"
	"time"
)

// chunk runs some turns from an example of the epoch on, and keeps what they
// made when their losses are finite.
func (r *run) chunk(p *portion, order copies, first, turns int) error {
	n := r.net
	began := time.Now()
	out, results, err := p.steps.do(r.state, r.data, order, r.rate, first, turns)
	if err != nil {
		return err
	}
	values := make([]float32, p.results().Size())
	err = during(r.ctx, func() { r.tell("train") }, func() error { return results.Values(values) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	r.history.Device += took
	wrong := values[len(values)-1] != 0
	values = values[:turns*p.turn()*columns]
	if bad := notFinite(values); bad >= 0 {
		return r.diagnose(p, order, first, bad, float64(values[bad*columns]))
	}
	if wrong { // the last step's gradient was not finite, though its loss was
		return r.diagnose(p, order, first, turns*p.turn(), math.NaN())
	}
	if err := n.bind(n.layout.all(), out[0]); err != nil {
		return err
	}
	r.state.free()
	results.Finalize()
	r.state = out
	steps := turns * p.turn()
	r.count(values, p.Batch, steps)
	switch pace := took / time.Duration(steps); {
	case p.Batch == r.Batch && r.done > steps: // the first chunk of a run also warms up
		r.pace = pace
		n.paces[r.main.key(r.data)] = pace // the next run need not feel its way
	case r.pace == 0:
		r.pace = max(pace/4, 1)
	}
	return nil
}

// count adds the results of steps to the epoch's.
func (r *run) count(values []float32, batch, steps int) {
	for i := range steps {
		row := values[i*columns:]
		r.sum += float64(row[0]) * float64(row[1])
		r.weight += float64(row[1])
		r.epoch.Train.Right += int(row[2])
		r.history.Losses = append(r.history.Losses, row[0])
	}
	if r.joined {
		r.join(values, batch, steps)
		return
	}
	r.epoch.Train.N += steps * batch
	r.step += steps
	r.done += steps
	r.history.Steps += steps
	r.epoch.Train.Loss = r.sum / r.weight
}

// join makes an epoch of each step.
func (r *run) join(values []float32, batch, steps int) {
	elapsed := time.Since(r.began)
	for i := range steps {
		row := values[i*columns:]
		r.done++
		r.epoch = Epoch{Number: r.done, Elapsed: elapsed,
			Train: Score{Loss: float64(row[0]), Right: int(row[2]), N: batch, Labels: r.data.targets == 0}}
		r.history.Epochs = append(r.history.Epochs, r.epoch)
	}
	r.step = 1
	r.history.Steps += steps
	r.saves.ask(r.snapshot)
}

// notFinite is the first step whose loss is not finite, -1 if there is none.
func notFinite(values []float32) int {
	for i := 0; i < len(values); i += columns {
		if l := float64(values[i]); math.IsNaN(l) || math.IsInf(l, 0) {
			return i / columns
		}
	}
	return -1
}

// diagnose makes the error of a chunk whose step number bad had a loss that is
// not finite. The chunk's results are dropped.
func (r *run) diagnose(p *portion, order copies, first, bad int, loss float64) error {
	e := &NotFiniteError{Net: r.net.name, Loss: loss, Epoch: r.epoch.Number, Step: r.step + bad + 1, Kept: r.step, KeptEpoch: r.epoch.Number}
	if r.joined {
		e.Epoch, e.Step, e.Kept, e.KeptEpoch = r.done+bad+1, 1, min(r.done, 1), r.done
	}
	var err error
	e.Layer, e.Part, err = r.net.probe(r.ctx, r.data, p.Batch, order[0][0], first, bad, r.state[0], r.rate[0])
	if err != nil && !errors.Is(err, context.Canceled) {
		return errors.Join(e, err)
	}
	return e
}
