package pjrt

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Profile is a running recording of what the devices and XLA's own threads do.
type Profile struct{ api, handle uintptr }

// The functions of the profiler extension, by their place in its table.
const (
	profilerErrorDestroy = 16
	profilerErrorMessage = 24
	profilerCreate       = 40
	profilerDestroy      = 48
	profilerStart        = 56
	profilerStop         = 64
	profilerCollect      = 72
	profilerTable        = 80 // bytes
)

// StartProfile begins a recording. One can run at a time. It costs a few percent
// while it runs, and Stop some milliseconds. Without the plugin's profiler
// extension (the CPU plugin has none) the error is ErrUnimplemented.
func (p *Plugin) StartProfile() (*Profile, error) {
	api, err := p.profiler()
	if err != nil {
		return nil, err
	}
	// ProfileOptions: version 1, host tracer level 2 (the runtime's main steps),
	// device tracer on, programs' protos included.
	options := appendVarint(appendVarint(appendVarint(appendVarint(nil, 5, 1), 2, 2), 3, 1), 7, 1)
	var mem arena
	defer mem.free()
	pr := &Profile{api: api}
	a := [4]uintptr{32, mem.bytes(options), uintptr(len(options)), 0}
	if err := pr.call(profilerCreate, unsafe.Pointer(&a)); err != nil {
		return nil, err
	}
	pr.handle = a[3]
	if err := pr.call1(profilerStart); err != nil {
		_ = pr.call1(profilerDestroy) // the first error is the one that matters
		return nil, err
	}
	return pr, nil
}

// Stop ends the recording and returns it as a serialized XSpace; package xspace
// reads it. It is called once; the Profile is gone then, also after an error.
func (pr *Profile) Stop() (space []byte, err error) {
	if pr.handle == 0 {
		return nil, fmt.Errorf("pjrt: profile: %w", ErrClosed)
	}
	defer func() {
		_ = pr.call1(profilerDestroy) // the recording is out; nothing can be done about the rest
		pr.handle = 0
	}()
	if err := pr.call1(profilerStop); err != nil {
		return nil, err
	}
	a := struct{ size, handle, buffer, n uintptr }{size: 32, handle: pr.handle}
	if err := pr.call(profilerCollect, unsafe.Pointer(&a)); err != nil {
		return nil, err
	}
	if a.buffer == 0 && a.n > 0 { // some plugins fill our memory at a second call
		var mem arena
		defer mem.free()
		a.buffer = mem.alloc(int(a.n))
		if err := pr.call(profilerCollect, unsafe.Pointer(&a)); err != nil {
			return nil, err
		}
	}
	return append([]byte{}, array[byte](a.buffer, a.n)...), nil
}

// profiler finds the table of the profiler extension.
func (p *Plugin) profiler() (uintptr, error) {
	for _, e := range p.Extensions() {
		if e.Type != extensionProfiler {
			continue
		}
		if e.Size < 32 {
			return 0, newError(ErrUnimplemented.Code, "profile", fmt.Sprintf("the plugin's profiler extension has %d bytes, want 32; use a newer plugin", e.Size))
		}
		api := *at[uintptr](e.address + 24)
		if api == 0 || *at[uintptr](api) < profilerTable {
			return 0, newError(ErrUnimplemented.Code, "profile", "the plugin's profiler has no usable table; use a newer plugin")
		}
		return api, nil
	}
	return 0, newError(ErrUnimplemented.Code, "profile", "this plugin has no profiler")
}

// call runs one function of the profiler, whose errors are its own kind.
func (pr *Profile) call(place uintptr, args unsafe.Pointer) error {
	e, _, _ := purego.SyscallN(*at[uintptr](pr.api + place), uintptr(args))
	if e == 0 {
		return nil
	}
	m := [5]uintptr{40, 0, e}
	purego.SyscallN(*at[uintptr](pr.api + profilerErrorMessage), uintptr(unsafe.Pointer(&m)))
	message := text(m[3], m[4])
	d := [3]uintptr{24, 0, e}
	purego.SyscallN(*at[uintptr](pr.api + profilerErrorDestroy), uintptr(unsafe.Pointer(&d)))
	return newError(2, "profile", message)
}

func (pr *Profile) call1(place uintptr) error {
	a := [2]uintptr{16, pr.handle}
	return pr.call(place, unsafe.Pointer(&a))
}
