package session

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/wire"
)

// Array is a buffer on a device. It implements compute.Buffer. An array without a
// name is freed by Finalize or when it is garbage collected. An array with a name
// stays in the session until the name is deleted or bound to another array.
type Array struct {
	s       *Session
	shape   *shapes.Shape
	bytes   int64
	handle  uint64
	device  int32
	over    atomic.Bool // freed or donated: the handle is not ours any more
	watched atomic.Bool // it has a finalizer
}

// String returns the array's shape and device, and whether it was freed or donated.
func (a *Array) String() string {
	state := ""
	if a.over.Load() {
		state = ", freed or donated"
	}
	return fmt.Sprintf("%s on device %d%s", a.shape, a.device, state)
}

// newArray makes the Array for a new handle.
func (s *Session) newArray(handle uint64, shape shapes.Shape, device int) *Array {
	a := &Array{s: s, shape: &shape, bytes: shape.ByteSize(), device: int32(device), handle: handle}
	s.pressure.add(a)
	return a
}

// watch sees to it that a is freed when it is garbage.
func (a *Array) watch() {
	if !a.over.Load() {
		a.watched.Store(true)
		runtime.SetFinalizer(a, (*Array).free)
	}
}

// free releases the handle.
func (a *Array) free() {
	if a.end() {
		a.s.drop(a.handle)
	}
}

// giveAway ends the array's life without freeing its buffer: a program has it.
func (a *Array) giveAway() {
	if a.end() && a.watched.Load() {
		runtime.SetFinalizer(a, nil)
	}
}

// end says whether a was alive until now.
func (a *Array) end() bool {
	was := a.over.Swap(true)
	if !was {
		a.s.pressure.held.Add(-a.bytes)
	}
	return !was
}

// Put copies flat, a slice of numbers in row-major order, to a new array on the given
// device. The element type and length of flat must match shape; []int is accepted as
// int64. A mismatch is a wire.Invalid error.
func (s *Session) Put(flat any, shape shapes.Shape, device int) (*Array, error) {
	data, err := flatBytes(flat, shape)
	if err != nil {
		return nil, err
	}
	defer spent().moved(costUpload, time.Now(), len(data))
	a := s.newArray(s.handles.Add(1), shape, device)
	b := wire.UploadBody{Handle: a.handle, Type: wireType(shape), Device: uint32(device), Data: data}
	if win := s.window(len(data)); win != nil {
		copy(win.mem, data)
		b.Window, b.Data = win.number, nil
	}
	return a, s.send(wire.Upload, b.Append)
}

// Values waits for the array and copies its data to flat, a slice of the same element
// type and size, in row-major order. An error of the program that computed the array
// is returned here.
func (a *Array) Values(flat any) error {
	data, err := flatBytes(flat, *a.shape)
	if err != nil {
		return err
	}
	if a.over.Load() {
		return a.usedUp()
	}
	defer spent().moved(costDownload, time.Now(), len(data))
	b := wire.DownloadBody{Handle: a.handle}
	win := a.s.window(len(data))
	if win != nil {
		b.Window = win.number
		defer func() {
			a.s.mu.Lock()
			a.s.windows.done(win.number)
			a.s.mu.Unlock()
		}()
	}
	_, body, err := a.s.ask(wire.Download, b.Append)
	if err != nil {
		return err
	}
	if win != nil {
		body = win.mem[:len(data)]
	}
	if len(body) != len(data) {
		return wire.Errorf(wire.Internal, "session: download of %s: got %d bytes, want %d", a.shape, len(body), len(data))
	}
	copy(data, body)
	runtime.KeepAlive(a)
	return nil
}

// Shape returns the array's element type and dimensions. The error is always nil.
func (a *Array) Shape() (shapes.Shape, error) { return *a.shape, nil }

// DeviceNum returns the number of the array's device. The error is always nil.
func (a *Array) DeviceNum() (compute.DeviceNum, error) { return compute.DeviceNum(a.device), nil }

// Backend returns the backend of the array's session.
func (a *Array) Backend() compute.Backend { return a.s.Backend() }

// ToFlatData is Values; it implements compute.Buffer.
func (a *Array) ToFlatData(flat any) error { return a.Values(flat) }

// Data always fails with compute.ErrNotImplemented: device memory cannot be read in
// place.
func (a *Array) Data() (any, error) {
	return nil, fmt.Errorf("session: device memory cannot be read in place: use ToFlatData: %w", compute.ErrNotImplemented)
}

// CopyToDevice copies the array to another device of the session. It returns at once.
// It fails if the array was freed or donated.
func (a *Array) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	if a.over.Load() {
		return nil, a.usedUp()
	}
	c := a.s.newArray(a.s.handles.Add(1), *a.shape, int(device))
	defer runtime.KeepAlive(a)
	return c, a.s.send(wire.Copy, wire.CopyBody{From: a.handle, To: c.handle, Device: uint32(device)}.Append)
}

// Finalize frees the array now, unless it was freed before. The error is always nil.
func (a *Array) Finalize() error {
	a.free()
	return nil
}

func (a *Array) usedUp() error {
	return wire.Errorf(wire.Gone, "session: %s array was freed or donated", a.shape).
		WithHint("use the array that the program returned in its place, or look it up by its name")
}

// flatBytes is the memory of a flat slice, which must fit shape.
func flatBytes(flat any, shape shapes.Shape) ([]byte, error) {
	if !shape.Ok() { // GoMLX panics at its size
		return nil, wire.Errorf(wire.Invalid, "session: got no shape, want one such as shapes.Make(dtypes.Float32, 2, 3)")
	}
	if i, ok := flat.([]int); ok { // int is no type of a device
		n := make([]int64, len(i))
		for k, v := range i {
			n[k] = int64(v)
		}
		flat = n
	}
	if flat == nil && shape.Size() == 0 {
		return nil, nil
	}
	want, size := shape.DType, shape.Size()
	if want.IsPacked() { // several values in a byte: only the bytes are carried
		want, size = dtypes.Uint8, int(shape.ByteSize())
	}
	got, n, data := sliceOf(flat)
	switch {
	case got == dtypes.InvalidDType:
		return nil, wire.Errorf(wire.Invalid, "session: flat data is a %T: want a slice of numbers", flat)
	case got != want:
		return nil, wire.Errorf(wire.Invalid, "session: flat data is a %T: want elements of %s for %s", flat, want, shape)
	case n != size:
		return nil, wire.Errorf(wire.Invalid, "session: flat data has %d elements: %s has %d", n, shape, size)
	}
	return data, nil
}

// wireType is shape as the protocol writes it: element types have the same
// numbers in GoMLX and in PJRT. Packed ones are carried as bytes; no program
// takes them.
func wireType(s shapes.Shape) wire.Type {
	if s.DType.IsPacked() {
		return wire.Type{DType: wire.DType(dtypes.Uint8), Dims: []int{int(s.ByteSize())}}
	}
	return wire.Type{DType: wire.DType(s.DType), Dims: s.Dimensions}
}

func shapeOf(t wire.Type) shapes.Shape { return shapes.Make(dtypes.DType(t.DType), t.Dims...) }
