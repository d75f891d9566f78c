package pjrt

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Buffer is the handle of an array on a device; 0 is not a buffer. Whoever holds it
// frees it once, by Free or by donating it.
type Buffer uintptr

// Semantics of the host memory of an upload, as in the C API.
const (
	onlyDuringCall   = 0
	untilTransferred = 1
	whileInUse       = 2

	// stageBelow is the size under which the plugin makes a copy of the data
	// instead of being waited for.
	stageBelow = 1 << 20
)

// Upload copies data, in row-major order and native byte order, to a new array
// on d (nil: the first device). Its size must be that of the shape; an array of
// no elements is fine. It returns when data may be reused.
func (c *Client) Upload(data []byte, t DType, dims []int, d *Device) (Buffer, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(data) > 0 {
		pin.Pin(&data[0])
	}
	return c.upload(data, Shape{t, dims}, d, untilTransferred, nil)
}

// Adopt makes an array of data without a copy where the plugin can: on the CPU,
// from an address that is a multiple of 64 bytes. data must then stay valid and
// unchanged as long as the array or a program that uses it lives; done is called
// after that. A program that is given the array by donation writes its result
// elsewhere. Where the plugin copies, Adopt is UploadAsync. data must not be of
// Go's heap.
func (c *Client) Adopt(data []byte, t DType, dims []int, d *Device, done func(error)) (Buffer, error) {
	if done == nil {
		return 0, fmt.Errorf("pjrt: adopt: got no done function")
	}
	return c.upload(data, Shape{t, dims}, d, whileInUse, done)
}

// UploadAsync is Upload that returns at once. data must stay valid and unchanged
// until done is called, with the transfer's error if any; the buffer may be used
// at once. If UploadAsync itself fails, done is not called.
func (c *Client) UploadAsync(data []byte, t DType, dims []int, d *Device, done func(error)) (Buffer, error) {
	if done == nil {
		return 0, fmt.Errorf("pjrt: upload: got no done function; use Upload")
	}
	pin := new(runtime.Pinner) // for data of the Go heap; mapped memory ignores it
	if len(data) > 0 {
		pin.Pin(&data[0])
	}
	b, err := c.upload(data, Shape{t, dims}, d, untilTransferred, func(err error) {
		pin.Unpin()
		done(err)
	})
	if err != nil {
		pin.Unpin()
	}
	return b, err
}

// upload takes pinned data; done nil means to wait.
func (c *Client) upload(data []byte, s Shape, d *Device, semantics int32, done func(error)) (Buffer, error) {
	switch want, err := s.bytes(); {
	case err != nil:
		return 0, fmt.Errorf("pjrt: upload: %w", err)
	case len(data) != want:
		return 0, fmt.Errorf("pjrt: upload: got %d bytes, want %d for %s", len(data), want, s)
	}
	if err := c.use("upload"); err != nil {
		return 0, err
	}
	defer c.mu.RUnlock()
	d, err := c.device("upload", d)
	if err != nil {
		return 0, err
	}
	t := c.takeTransfer()
	defer c.giveTransfer(t)
	a := t.up
	*a = uploadArgs{head: head{unsafe.Sizeof(*a), 0}, client: c.handle, data: t.scratch, kind: int32(s.DType), dims: address(&t.dims[0]),
		rank: uintptr(len(s.Dims)), semantics: semantics, device: d.handle}
	if len(data) > 0 {
		a.data = address(&data[0])
	}
	for i, n := range s.Dims {
		t.dims[i] = int64(n)
	}
	wait := waitForEvent
	if done == nil && len(data) < stageBelow {
		a.semantics, wait = onlyDuringCall, dropEvent
	} else if done != nil {
		wait = tellOfEvent
	}
	launched, err := t.run(c.Plugin, bufferFromHost, unsafe.Pointer(a), &a.event, wait, done)
	b := Buffer(a.buffer)
	if launched {
		c.buffers.Add(1)
	}
	if err != nil {
		if launched {
			_ = c.free(b) // the transfer's error is the one to report
		}
		return 0, err
	}
	return b, nil
}

// Download copies b to dst in row-major order and waits for it, and so for the
// program that computes b, whose error it returns. dst must have room for the
// array; what is beyond it is left alone.
func (c *Client) Download(b Buffer, dst []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(dst) > 0 {
		pin.Pin(&dst[0])
	}
	return c.download(b, dst, nil)
}

// DownloadAsync is Download that returns at once. dst must stay valid and must
// not be looked at until done is called, with the error if any. If DownloadAsync
// itself fails, done is not called.
func (c *Client) DownloadAsync(b Buffer, dst []byte, done func(error)) error {
	if done == nil {
		return fmt.Errorf("pjrt: download: got no done function; use Download")
	}
	pin := new(runtime.Pinner)
	if len(dst) > 0 {
		pin.Pin(&dst[0])
	}
	err := c.download(b, dst, func(err error) {
		pin.Unpin()
		done(err)
	})
	if err != nil {
		pin.Unpin()
	}
	return err
}

func (c *Client) download(b Buffer, dst []byte, done func(error)) error {
	if err := c.useBuffer("download", b); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	t := c.takeTransfer()
	defer c.giveTransfer(t)
	a := t.down
	*a = downloadArgs{head: head{unsafe.Sizeof(*a), 0}, buffer: uintptr(b), dst: t.scratch, n: uintptr(len(dst))}
	if len(dst) > 0 {
		a.dst = address(&dst[0])
	}
	wait := waitForEvent
	if done != nil {
		wait = tellOfEvent
	}
	_, err := t.run(c.Plugin, bufferToHost, unsafe.Pointer(a), &a.event, wait, done)
	return err
}

// Ready calls done when b has been computed, or with the error of what should
// have computed it. If Ready itself fails, done is not called.
func (c *Client) Ready(b Buffer, done func(error)) error {
	if done == nil {
		return fmt.Errorf("pjrt: ready: got no done function; use Wait")
	}
	return c.ready(b, tellOfEvent, done)
}

// Wait returns when b has been computed, with the error of what should have
// computed it. It keeps its thread, and is faster than Ready by two changes of
// goroutine.
func (c *Client) Wait(b Buffer) error { return c.ready(b, waitForEvent, nil) }

func (c *Client) ready(b Buffer, use eventUse, done func(error)) error {
	if err := c.useBuffer("ready", b); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	t := c.takeTransfer()
	defer c.giveTransfer(t)
	a := t.down // the same start: size, extension, buffer, then the event
	*a = downloadArgs{head: head{unsafe.Sizeof(*a), 0}, buffer: uintptr(b)}
	_, err := t.run(c.Plugin, bufferReadyEvent, unsafe.Pointer(a), &a.layout, use, done)
	return err
}

// Free gives b's memory back, when the work that uses it has ended. The handle
// must not be used again.
func (c *Client) Free(b Buffer) error {
	if err := c.useBuffer("free", b); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	return c.free(b)
}

func (c *Client) free(b Buffer) error {
	c.buffers.Add(-1)
	return c.Plugin.call1(bufferDestroy, uintptr(b))
}

// CopyToDevice makes a copy of b on device d. It returns before the copy is
// made; uses of the copy wait for it.
func (c *Client) CopyToDevice(b Buffer, d *Device) (Buffer, error) {
	if err := c.useBuffer("copy to device", b); err != nil {
		return 0, err
	}
	defer c.mu.RUnlock()
	d, err := c.device("copy to device", d)
	if err != nil {
		return 0, err
	}
	a := struct {
		head
		buffer, device, copy uintptr
		spare
	}{buffer: uintptr(b), device: d.handle}
	a.size = unsafe.Sizeof(a)
	if err := c.Plugin.call(bufferCopyToDevice, unsafe.Pointer(&a)); err != nil {
		return 0, err
	}
	c.buffers.Add(1)
	return Buffer(a.copy), nil
}

// useBuffer is use for calls with a buffer.
func (c *Client) useBuffer(op string, b Buffer) error {
	if b == 0 {
		return fmt.Errorf("pjrt: %s: got no buffer", op)
	}
	return c.use(op)
}
