package fit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// epochs runs them all. Where nothing is decided between two of them, the next one
// is asked for while the devices are still at work on the one before.
func (r *run) epochs() error {
	key, order := r.net.order(r.data.N, !r.InOrder, r.devices)
	if r.plan.Packed {
		r.net.prepare("pack", r.net.packProgram, nil)
		r.net.prepare("unpack", r.net.unpackProgram, nil)
	}
	if r.usesAllReduce() {
		r.broadcastProgram()
		r.zeroState()
	}
	r.prepare(&r.main)
	if err := r.ready(&r.main); err != nil {
		return err
	}
	r.prepare(&r.odd)
	r.prepare(&r.tail)
	if r.Validation != nil {
		r.net.tester(r.Validation)
	}
	err := r.distribute()
	if err != nil {
		return err
	}
	if r.order, err = r.wait(r.ctx, key, order); err != nil {
		return err
	}
	defer r.settle()
	r.open(1)
	epochs := r.Epochs
	if r.joined {
		epochs = 1
	}
	for e := 1; e <= epochs && r.history.Stopped == ""; e++ {
		if err := r.one(e); err != nil {
			return err
		}
	}
	return r.drain(0)
}

// note adds to the run's note.
func (r *run) note(text string) {
	r.history.Note = strings.TrimPrefix(r.history.Note+"; "+text, "; ")
}

// open begins an epoch: the next chunk that is kept is its first.
func (r *run) open(epoch int) {
	r.epoch, r.seen = Epoch{Number: epoch, Train: Score{Labels: r.data.targets == 0}}, 0
	r.step, r.sum, r.weight = 0, 0, 0
}

// one asks for one epoch.
func (r *run) one(epoch int) error {
	r.asking = epoch
	if err := r.resetState(); err != nil {
		return err
	}
	order := &exampleOrder{}
	defer order.release()
	for _, p := range []*portion{&r.main, &r.odd, &r.tail} {
		if err := r.ready(p); err != nil {
			return err
		}
		if err := r.portion(p, order); err != nil {
			return err
		}
	}
	if r.drains {
		return r.drain(0)
	}
	return nil
}

// front is the state after all that has been asked for.
func (r *run) front() copies {
	if n := len(r.asked); n > 0 && !r.asked[n-1].portion.Packed {
		return r.asked[n-1].after
	}
	return r.state
}

// portion asks for an epoch's turns of a portion, chunk after chunk.
func (r *run) portion(p *portion, order *exampleOrder) error {
	for turn := 0; turn < p.Turns; {
		if err := r.drain(r.ahead()); err != nil {
			return err
		}
		if err := context.Cause(r.ctx); err != nil { // Progress may have stopped the run
			return err
		}
		if order.order == nil {
			if err := r.shuffle(order); err != nil {
				return err
			}
		}
		turns := r.turns(p, p.Turns-turn)
		c, err := r.ask(r.front(), p, order, p.First+turn*p.Turn()*p.Batch, turns)
		if err != nil {
			return err
		}
		r.asked, turn = append(r.asked, c), turn+turns
	}
	return nil
}

// shuffle orders the examples for what comes after all that has been asked for.
func (r *run) shuffle(s *exampleOrder) (err error) {
	step := len(r.front()[0]) - 1
	s.order, err = run1(r.order, r.front().cut(step, step+1))
	return err
}

// drain keeps chunks until so many are left.
func (r *run) drain(left int) error {
	for len(r.asked) > left {
		c := r.asked[0]
		switch err := r.keep(c); {
		case r.crowded(err):
			if err := r.again(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		r.asked = r.asked[1:]
		c.order.release()
		if c.closes && !r.joined && !r.settling {
			if err := r.finish(); err != nil {
				return err
			}
		} else {
			r.tell("train")
		}
	}
	return nil
}

// settle gives back what a run that ends early has asked for. The steps of a
// packed state are in it: they count.
func (r *run) settle() {
	if len(r.asked) > 0 && r.asked[0].portion.Packed && r.ctx.Err() != nil {
		r.ctx, r.settling = context.WithoutCancel(r.ctx), true
		r.drain(0) // what fails is dropped
	}
	for _, c := range r.asked {
		r.history.Dropped += c.turns * c.portion.Turn()
		c.drop()
	}
	r.asked = nil
}

// finish ends an epoch whose chunks are kept, with its test and what is decided
// by it.
func (r *run) finish() error {
	if r.Validation != nil {
		if err := r.bindState(); err != nil {
			return err
		}
		key, f := r.net.tester(r.Validation)
		if _, err := r.wait(r.ctx, key, f); err != nil {
			return err
		}
		r.tell("test")
		v, err := r.net.score(r.ctx, r.Validation, func() { r.tell("test") })
		if err != nil {
			return err
		}
		r.epoch.Validation = v
	}
	r.epoch.Elapsed = time.Since(r.began)
	r.history.Epochs = append(r.history.Epochs, r.epoch)
	r.saves.request(r.save)
	r.tell("train")
	if r.epoch.Number < r.Epochs {
		if r.history.Stopped = r.enough(); r.history.Stopped == "" {
			r.open(r.epoch.Number + 1)
		}
	}
	return nil
}

// enough says why no more epochs are wanted; "" if they are.
func (r *run) enough() string {
	what, loss := "loss", r.epoch.Train.Loss
	if v := r.epoch.Validation; v != nil {
		what, loss = "loss of the validation", v.Loss
	}
	if loss < r.best {
		r.best, r.since = loss, 0
	} else {
		r.since++
	}
	switch {
	case r.Threshold != 0 && loss < r.Threshold:
		return fmt.Sprintf("%s %.6g is below the threshold %g after epoch %d", what, loss, r.Threshold, r.epoch.Number)
	case r.Patience > 0 && r.since >= r.Patience:
		return notSmaller(what, loss, r.best, r.since)
	}
	return ""
}

// notSmaller says for how many epochs a loss has not become smaller than the best, and
// that it is no number where it is none.
func notSmaller(what string, loss, best float64, epochs int) string {
	switch number := !math.IsNaN(loss) && !math.IsInf(loss, 0); {
	case math.IsInf(best, 1):
		return fmt.Sprintf("%s is %v, and was no finite number for %d epochs", what, loss, epochs)
	case !number:
		return fmt.Sprintf("%s is %v, and has not become smaller than %.6g for %d epochs", what, loss, best, epochs)
	}
	return fmt.Sprintf("%s has not become smaller than %.6g for %d epochs", what, best, epochs)
}

// exampleOrder is the order of an epoch's examples. Its chunks hold it, as the one
// that asks for them does.
type exampleOrder struct {
	order copies
	held  int // by chunks
}

func (s *exampleOrder) hold() *exampleOrder {
	s.held++
	return s
}

// release gives the order back when nobody holds it any more.
func (s *exampleOrder) release() {
	if s.held--; s.held < 0 {
		s.order.free()
	}
}
