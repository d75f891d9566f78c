package pjrt

import (
	"cmp"
	"fmt"
	"unsafe"
)

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
	f.fill(in, donate, device, mode)
	if err := p.client.Plugin.call(loadedExecute, unsafe.Pointer(f.args)); err != nil { // nothing has happened
		if mode == Notify {
			forget(id)
		}
		return err
	}
	if p.inputs.Load() < 0 {
		p.inputs.Store(int64(inputs))
	}
	failed := f.end(p, mode, id)
	donated := f.freeDonated(p, donate)
	p.client.buffers.Add(int64(len(f.out) - donated))
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

// fill writes the arguments of one execution into the frame.
func (f *frame) fill(in []Buffer, donate []bool, device uintptr, mode Mode) {
	copy(f.in, in)
	f.args.device = device
	f.args.events = 0
	if mode != Async {
		f.args.events = address(&f.events[0])
	}
	keeps := 0
	for i := range f.keep {
		if donate == nil || !donate[i] {
			f.keep[keeps] = int64(i)
			keeps++
		}
	}
	f.options.keeps = uintptr(keeps)
}

// end waits for each replica's event, or asks for its notice, and destroys it. The error is the
// first of those that were waited for.
func (f *frame) end(p *Program, mode Mode, id uintptr) (failed error) {
	if mode == Async {
		return nil
	}
	plugin := p.client.Plugin
	for _, event := range f.events {
		if mode == Wait {
			failed = cmp.Or(failed, f.event.wait(plugin, loadedExecute, event))
		} else if err := f.event.tell(plugin, loadedExecute, event, id); err != nil {
			finish(id, err) // this replica's notice will not come
		}
		f.event.destroy(plugin, event)
	}
	return failed
}

// freeDonated frees the handles of the donated arguments, and returns their number.
func (f *frame) freeDonated(p *Program, donate []bool) (n int) {
	for i, given := range donate {
		if given {
			_ = p.client.Plugin.call1(bufferDestroy, uintptr(f.in[i])) // its memory is an output's
			n++
		}
	}
	return n
}
