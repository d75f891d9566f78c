package fit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
)

// Stream is a set of examples from an iterator, such as [data.Batches], which begins
// again at each epoch. At most 2·buffer are on the device; each buffer is shuffled. Of several
// devices, each has only the examples that it reads.
func (n *Net) Stream(name string, all iter.Seq2[Data, error], buffer int) (*Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all == nil {
		return nil, fmt.Errorf("fit: stream %s: the iterator is nil: want one, such as data.Batches", name)
	}
	if buffer < 1 || buffer > mostBuffered {
		return nil, fmt.Errorf("fit: stream %s: buffer of %d examples: want 1 to %d", name, buffer, mostBuffered)
	}
	var first *Data
	err := each(all, func(d Data, err error) error {
		if first = &d; err != nil {
			return err
		}
		return errEnded
	})
	if err != nil && err != errEnded {
		return nil, fmt.Errorf("fit: stream %s: %w", name, err)
	}
	if first == nil {
		return nil, fmt.Errorf("fit: stream %s: the iterator gives no examples: want some", name)
	}
	if err := n.infer(first.X); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		return nil, err
	}
	s, err := n.check(name, *first)
	if err != nil {
		return nil, err
	}
	if s.Encoder, err = n.encoderOf(*first, s); err != nil {
		return nil, err
	}
	s.stream = &stream{all: all}
	s.Labels, s.Fresh = nil, true
	return s.sized(buffer), nil
}

// mostBuffered bounds a stream's buffer, whose examples an int32 counts.
const mostBuffered = 1 << 30

// each calls f with what an iterator gives, until f returns an error. An iterator that continues
// then ends with one that says so: a range over it would be a panic.
func each(all iter.Seq2[Data, error], f func(d Data, err error) error) (err error) {
	continues := errors.New("the iterator continues after yield has returned false: want if !yield(…) { return }")
	defer func() {
		if r := recover(); r == continues {
			if errors.Is(err, errEnded) {
				err = continues
			}
		} else if r != nil {
			panic(r)
		}
	}()
	all(func(d Data, wrong error) bool {
		if err != nil {
			panic(continues)
		}
		err = f(d, wrong)
		return err == nil
	})
	return err
}

// stream is where the examples of a set come from that the session does not hold.
type stream struct{ all iter.Seq2[Data, error] }

// sized is a set for so many examples, without them.
func (s *Set) sized(examples int) *Set {
	c := *s
	c.N = examples
	c.arrays = slices.Clone(s.arrays)
	for i := range c.arrays {
		a := &c.arrays[i]
		dims := slices.Clone(a.shape.Dimensions)
		dims[0] = examples
		a.shape, a.flat, a.Array = shapes.Make(a.shape.DType, dims...), nil, nil
	}
	return &c
}

// refuseStream is the error of what a stream cannot be used for.
func (n *Net) refuseStream(s *Set, what string) error {
	if s == nil || s.stream == nil {
		return nil
	}
	return fmt.Errorf("fit: %s: %s of %s, which is a stream: want a set from Upload, with as many examples as fit", n.name, what, s.Name)
}

// hostBlock is a buffer of a stream's examples on the host.
type hostBlock struct {
	flats []reflect.Value // by the set's arrays, with room for all
	rows  int
	last  bool // of the epoch
	final bool // of the run
	err   error
}

// source reads a stream in a goroutine, some blocks ahead.
type source struct {
	set    *Set // of a block
	blocks chan *hostBlock
	stop   context.CancelFunc
	ready  *exampleOrder // is on the device
	step   int32         // of the net when the run began
	count  int           // blocks
}

// blocks begins to read a stream in blocks like a set, for some epochs, or for steps of batches
// if they are more than 0. Whole is 1, or what the number of an epoch's examples is made a
// multiple of.
func (n *Net) blocks(ctx context.Context, set *Set, epochs, steps, batch, whole int) *source {
	ctx, stop := context.WithCancel(ctx)
	s := &source{set: set, blocks: make(chan *hostBlock, 1), stop: stop}
	go func() {
		defer close(s.blocks)
		f := &filler{net: n, set: set, whole: whole, steps: steps, batch: batch, ended: func() bool { return ctx.Err() != nil }, send: func(b *hostBlock) bool {
			select {
			case s.blocks <- b:
				return true
			case <-ctx.Done():
				return false
			}
		}}
		defer func() {
			if r := recover(); r != nil {
				f.send(&hostBlock{err: fmt.Errorf("fit: stream %s: the iterator: %w", set.Name, result.Panicked(r))})
			}
		}()
		for epoch := 1; epoch <= epochs && ctx.Err() == nil; epoch++ {
			if err := f.epoch(); errors.Is(err, errEnded) {
				return
			} else if err != nil {
				f.send(&hostBlock{err: fmt.Errorf("fit: stream %s, epoch %d: %w", set.Name, epoch, err)})
				return
			}
		}
	}()
	return s
}

var errEnded = errors.New("stopped")

// filler makes blocks of what an iterator gives.
type filler struct {
	net   *Net
	set   *Set
	whole int
	steps int // that are left, of a batch; 0: any number
	batch int
	send  func(*hostBlock) bool
	ended func() bool
	block *hostBlock // being filled
	full  *hostBlock // waits for what follows, since the last one is to know that
	seen  int
}

// epoch reads the iterator from its beginning to its end.
func (f *filler) epoch() error {
	f.block, f.full, f.seen = f.empty(), nil, 0
	item := 0
	err := each(f.set.stream.all, func(d Data, err error) error {
		if err != nil {
			return err
		}
		s, err := f.net.check(f.set.Name, d)
		if err == nil && s.sized(1).key() != f.set.sized(1).key() {
			err = fmt.Errorf("examples are %s, want %s as the first ones", s.sized(1).key(), f.set.sized(1).key())
		}
		if err != nil {
			return fmt.Errorf("item %d of the iterator: %w", item, err)
		}
		if item++; f.ended() {
			return errEnded
		}
		return f.add(s)
	})
	if err != nil {
		return err
	}
	total := f.seen + f.block.rows
	f.block.rows -= f.block.rows % f.whole
	switch {
	case f.block.rows > 0:
		if !f.flush() {
			return errEnded
		}
		f.finish(f.block)
	case f.full != nil:
		f.block = f.full
	default:
		again := ""
		if total == 0 {
			again = ": the iterator is to begin again whenever it is ranged over"
		}
		return fmt.Errorf("%d examples, want at least %d%s", total, f.whole, again)
	}
	f.block.last = true
	if !f.send(f.block) || f.block.final {
		return errEnded
	}
	return nil
}

func (f *filler) empty() *hostBlock {
	b := &hostBlock{}
	for _, a := range f.set.arrays {
		b.flats = append(b.flats, reflect.ValueOf(dtypes.MakeAnySlice(a.shape.DType, a.shape.Size())))
	}
	return b
}

// add takes in examples.
func (f *filler) add(s *Set) error {
	for from := 0; from < s.N; {
		count := min(s.N-from, f.set.N-f.block.rows)
		for i, a := range s.arrays {
			flat, size := a.flat, a.shape.Size()/s.N
			if flat == nil { // SameX
				flat = s.arrays[0].flat
			}
			reflect.Copy(f.block.flats[i].Slice(f.block.rows*size, (f.block.rows+count)*size), reflect.ValueOf(flat).Slice(from*size, (from+count)*size))
		}
		f.block.rows, from = f.block.rows+count, from+count
		if f.block.rows >= f.whole && !f.flush() {
			return errEnded
		}
		if f.block.rows == f.set.N {
			f.finish(f.block)
			if f.block.final {
				f.send(f.block)
				return errEnded
			}
			f.full, f.block = f.block, f.empty()
		}
	}
	return nil
}

// flush sends the full block, which is not the last one.
func (f *filler) flush() bool {
	b := f.full
	f.full = nil
	return b == nil || f.send(b)
}

// finish counts the steps and the examples of a block that is complete.
func (f *filler) finish(b *hostBlock) {
	if steps := (b.rows + f.batch - 1) / f.batch; f.steps > steps {
		f.steps -= steps
	} else if f.steps > 0 {
		b.rows, b.last, b.final = min(b.rows, f.steps*f.batch), true, true
	}
	f.seen += b.rows
}

// close ends the reading, and waits a moment for the iterator to return: it may not be one
// for two calls at once.
func (s *source) close() {
	if s == nil {
		return
	}
	s.stop()
	for moment, read := time.After(300*time.Millisecond), true; read; {
		select {
		case _, read = <-s.blocks:
		case <-moment:
			read = false
		}
	}
	if s.ready != nil {
		s.ready.release()
	}
}

// receive waits for a block.
func (s *source) receive(ctx context.Context, alive func()) (b *hostBlock, err error) {
	err = during(ctx, alive, func() error {
		b = <-s.blocks
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, errEnded
	}
	return b, b.err
}

// openSource begins to read the stream for all epochs.
func (r *run) openSource() error {
	whole := 1
	if r.DropLast {
		whole = r.Batch
	}
	step := make([]int32, 1)
	if err := r.state[0][len(r.state[0])-1].Values(step); err != nil {
		return err
	}
	r.source = r.net.blocks(r.ctx, r.data, r.Epochs, r.Steps, r.Batch, whole)
	r.source.step = step[0]
	return nil
}

// nextBlock is what is trained on next: the set, or the next block of the stream.
func (r *run) nextBlock() (*exampleOrder, error) {
	if r.source == nil {
		return &exampleOrder{data: r.data, parts: r.portions(r.requesting), last: true}, nil
	}
	if o := r.source.ready; o != nil {
		r.source.ready = nil
		return o, nil
	}
	var b *hostBlock
	select {
	case b = <-r.source.blocks:
	default:
		if err := r.await(0); err != nil { // the devices have nothing else to do
			return nil, err
		}
		if r.history.Steps > 0 && len(r.source.blocks) == 0 {
			r.history.Waits++
		}
	}
	if b == nil {
		var err error
		if b, err = r.source.receive(r.ctx, func() { r.report("data") }); err != nil {
			return nil, err
		}
	}
	return r.uploaded(b)
}

// uploadAhead puts the next block on the device while it works on this one, if it is there.
func (r *run) uploadAhead() (err error) {
	if r.source == nil || r.source.ready != nil {
		return nil
	}
	select {
	case b := <-r.source.blocks:
		if b != nil {
			r.source.ready, err = r.uploaded(b)
		}
	default:
	}
	return err
}

// uploaded puts a block on the device, and says which portions of an epoch it is.
func (r *run) uploaded(b *hostBlock) (*exampleOrder, error) {
	if b.err != nil {
		return nil, b.err
	}
	if r.net.streamed != nil {
		r.net.streamed(len(r.pending))
	}
	o, err := r.net.upload(r.source, b, r.data.N, r.Batch, !r.InOrder, r.devices)
	if err != nil {
		return nil, err
	}
	if o.parts = r.portions(0); b.rows == r.data.N {
		return o, nil
	}
	steps, rest := b.rows/r.Batch, b.rows%r.Batch
	q := r.plan.Training
	q.Steps, q.Rest = max(1, steps), rest
	p, err := plan.Decide(q)
	if err != nil {
		return nil, err
	}
	o.parts = nil
	if steps > 0 {
		o.parts = append(o.parts, &portion{Part: p.Main}, &portion{Part: p.Odd})
	}
	if p.Tail.First = steps * r.Batch; rest > 0 {
		o.parts = append(o.parts, &portion{Part: p.Tail})
	}
	o.parts = slices.DeleteFunc(o.parts, func(p *portion) bool { return p.Turns == 0 })
	return o, nil
}
