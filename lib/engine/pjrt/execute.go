package pjrt

import "fmt"

// Mode says what Execute waits for.
type Mode int

// The modes of Execute.
const (
	// Async returns when PJRT has taken the work. PJRT orders later uses of the
	// outputs after it; an error on the device shows at the first of them.
	Async Mode = iota
	// Wait returns when the devices have finished, with their error if any.
	Wait
	// Notify returns as Async does; done is called when the devices have
	// finished, with their error if any. The outputs of a failed run must be
	// freed all the same.
	Notify
)

// Execute runs p on the arguments in, which are those of the first replica, then
// those of the second and so on, without those that run on other nodes. Their sizes in bytes must be those of the
// program's parameters; their element types are not looked at. out receives
// NumOutputs buffers for each replica in the same order; it may be the same
// slice as in. A portable program runs on device d, nil being the first one; a
// program that was compiled for certain devices runs there and ignores d.
//
// donate[i] gives in[i] away: its memory is used for an output if the parameter
// is marked jax.buffer_donor in the text, and the handle is gone when Execute
// returns nil. Nil gives nothing away. All replicas must donate the same
// parameters. A buffer cannot be donated and passed a second time.
//
// When Execute returns an error all arguments are as they were, out is as it was
// and done will not be called, but for a [LaunchedError] (mode Wait only): then
// donated arguments are gone and there are no outputs.
func (p *Program) Execute(in, out []Buffer, donate []bool, d *Device, mode Mode, done func(error)) error {
	if err := p.use("execute"); err != nil {
		return err
	}
	defer p.mu.RUnlock()
	inputs, device, err := p.check(in, out, donate, d, mode, done)
	if err != nil {
		return fmt.Errorf("pjrt: execute: %w", err)
	}
	f := p.take(inputs)
	defer p.give(f)
	if donate != nil && f.donatedTwice(in, donate) {
		return fmt.Errorf("pjrt: execute: a donated buffer is passed twice; copy it or donate neither")
	}
	var id uintptr
	if mode == Notify {
		id = await(p.client.Plugin, loadedExecute, p.replicas, done)
	}
	donated := f.fill(p, in, donate, device, mode, id)
	at, e := f.batch.run()
	if e != 0 && at == 0 { // nothing has happened
		if mode == Notify {
			forget(id)
		}
		return p.client.Plugin.errorOf(e, loadedExecute)
	}
	if p.inputs.Load() < 0 {
		p.inputs.Store(int64(inputs))
	}
	p.client.buffers.Add(int64(len(f.out) - donated))
	var failed error
	for e != 0 {
		failed = f.failure(p, at, e, mode, id, failed)
		if !f.batch.more() {
			break
		}
		at, e = f.batch.run()
	}
	if failed != nil {
		for _, b := range f.out {
			_ = p.client.Plugin.call1(bufferDestroy, uintptr(b)) // they hold the error that we report
		}
		p.client.buffers.Add(int64(-len(f.out)))
		return &LaunchedError{failed}
	}
	copy(out, f.out)
	if mode == Notify {
		finish(id, nil)
	}
	return nil
}

// check refuses what PJRT would crash on or explain badly.
func (p *Program) check(in, out []Buffer, donate []bool, d *Device, mode Mode, done func(error)) (inputs int, device uintptr, err error) {
	r := p.replicas
	switch {
	case mode < Async || mode > Notify:
		return 0, 0, fmt.Errorf("got mode %d, want Async, Wait or Notify", mode)
	case mode == Notify && done == nil:
		return 0, 0, fmt.Errorf("got no done function, want one for mode Notify")
	case len(in)%r != 0:
		return 0, 0, fmt.Errorf("got %d arguments, want a multiple of %d replicas", len(in), r)
	case len(out) != r*p.outputs:
		return 0, 0, fmt.Errorf("got room for %d outputs, want %d", len(out), r*p.outputs)
	case donate != nil && len(donate) != len(in):
		return 0, 0, fmt.Errorf("got %d donation marks, want one for each of %d arguments", len(donate), len(in))
	}
	inputs = len(in) / r
	if want := int(p.inputs.Load()); want >= 0 && want != inputs {
		return 0, 0, fmt.Errorf("got %d arguments, want %d", len(in), want*r)
	}
	for i, b := range in {
		if b == 0 {
			return 0, 0, fmt.Errorf("argument %d is not a buffer", i)
		}
	}
	for i := inputs; i < len(donate); i++ {
		if donate[i] != donate[i%inputs] {
			return 0, 0, fmt.Errorf("replica %d and replica 0 differ in donating parameter %d", i/inputs, i%inputs)
		}
	}
	if len(p.options.Devices) == 0 {
		dev, err := p.client.device("execute", d)
		if err != nil {
			return 0, 0, err
		}
		device = dev.handle
	}
	return inputs, device, nil
}

// donatedTwice reports whether a donated buffer comes twice among the arguments.
func (f *frame) donatedTwice(in []Buffer, donate []bool) bool {
	if !f.set.twice(in) {
		return false
	}
	for i, b := range in { // rare, and legal when nothing of it is donated
		for j := range i {
			if in[j] == b && (donate[i] || donate[j]) {
				return true
			}
		}
	}
	return false
}

// fill writes one execution into the frame: the call itself, for each replica
// the wait or notice and the end of its event, and the end of every donated
// handle. It returns the number of these.
func (f *frame) fill(p *Program, in []Buffer, donate []bool, device uintptr, mode Mode, id uintptr) (donated int) {
	functions := &p.client.Plugin.functions
	copy(f.in, in)
	f.args.device = device
	f.args.events = 0
	b := &f.batch
	b.reset()
	b.add(functions[loadedExecute], address(f.args), 0, 0)
	if mode != Async {
		f.args.events = address(&f.events[0])
		for i := range f.events {
			event := address(&f.events[i])
			if mode == Wait {
				b.add(functions[eventAwait], address(&f.waits[i]), event, address(&f.waits[i].handle))
			} else {
				f.readies[i] = newReadyArgs(id)
				b.add(functions[eventOnReady], address(&f.readies[i]), event, address(&f.readies[i].event))
			}
			b.add(functions[eventDestroy], address(&f.destroys[i]), event, address(&f.destroys[i].handle))
		}
	}
	keeps := 0
	for i := range f.in {
		switch {
		case donate != nil && donate[i]:
			f.frees[donated].handle = uintptr(in[i])
			b.add(functions[bufferDestroy], address(&f.frees[donated]), 0, 0)
			donated++
		case i < len(f.keep):
			f.keep[keeps] = int64(i)
			keeps++
		}
	}
	f.options.keeps = uintptr(keeps)
	return donated
}

// failure handles error e of call number at of the batch, which is not the
// execution itself, and returns the first error that the caller must see.
func (f *frame) failure(p *Program, at int, e uintptr, mode Mode, id uintptr, first error) error {
	err := p.client.Plugin.errorOf(e, loadedExecute)
	isEvent := at <= 2*len(f.events) && at%2 == 1 // calls 1, 3, 5…: wait or notice
	switch {
	case mode == Notify && isEvent:
		finish(id, err) // this replica's notice will not come
	case mode == Wait && isEvent && first == nil:
		return err
	}
	return first // to destroy what has failed has no error worth a report
}
