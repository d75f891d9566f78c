package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// health is the question whether the devices still work. After a kernel that has
// gone astray, to an address that is nobody's or into a trap, CUDA answers each call
// of the process with the same error until the process ends ("any further CUDA work
// will return the same error. To continue using CUDA, the process must be terminated
// and relaunched": CUDA Driver API, CUresult). What the error says counts for
// nothing, as a program of the user's may say the same: a device is lost when it
// does not take and release four bytes.
type health struct {
	try func(*hosts.Device) error // moves four bytes to a device and back

	mu     sync.Mutex    // protects following
	answer chan struct{} // closed when the answer is there, nil when nobody has asked
	lost   *wire.Error   // why the devices are of no use any more, nil if they are
}

// grace is how long clients have to hear of their own errors before the worker ends,
// which takes no new ones: those are the next one's.
const grace = 200 * time.Millisecond

// deviceLost begins the worker's last words.
const deviceLost = "device lost: "

// checkDevices asks the devices, in the background, because an error may have been their
// end; why is what the clients are told of it. The caller may hold w.mu.
func (w *Worker) checkDevices(err error, why *wire.Error) {
	for _, known := range []error{pjrt.ErrOutOfMemory, pjrt.ErrUnimplemented, pjrt.ErrInvalidArgument, pjrt.ErrClosed} {
		if errors.Is(err, known) {
			return
		}
	}
	d := &w.health
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answer != nil {
		return
	}
	d.answer = make(chan struct{})
	go w.probe(wire.Errorf(why.Code, "%s%v", deviceLost, why))
}

// probe answers that. A worker whose devices are lost ends with cause, so that the
// next one brings back what the snapshots have.
func (w *Worker) probe(cause *wire.Error) {
	d := &w.health
	var failed error
	for i, device := range w.devices {
		err := d.try(device)
		if errors.Is(err, pjrt.ErrOutOfMemory) { // a full device lives
			err = w.isFull(i, err)
		}
		failed = errors.Join(failed, err)
	}
	d.mu.Lock()
	close(d.answer)
	if d.answer = nil; failed != nil {
		d.lost = cause
	}
	d.mu.Unlock()
	if failed == nil {
		return
	}
	w.Logf("%v; the devices do not answer any more: %v", cause, failed)
	w.fail(cause)
}

// patient is how long an answer is waited for: a device that is busy has it later.
var patient = time.Second

// lost waits for an answer that is being looked for, and returns why the devices are
// lost, nil if they are not, or not yet. The caller does not hold w.mu.
func (w *Worker) lost() *wire.Error {
	d := &w.health
	d.mu.Lock()
	defer d.mu.Unlock()
	if answer := d.answer; answer != nil {
		d.mu.Unlock()
		select {
		case <-answer:
		case <-time.After(patient):
		}
		d.mu.Lock()
	}
	return d.lost
}

// explained adds to an error what to do when the devices are lost.
func (w *Worker) explained(e *wire.Error) *wire.Error {
	if w.lost() == nil || e.Next != "" {
		return e
	}
	x := *e
	return x.WithHint("after this the device takes no more work, as when a kernel leaves its arrays: the session begins a new worker, and arrays come back as the newest snapshot has them")
}

// fourBytes moves four bytes to a device and back.
func (w *Worker) fourBytes(d *hosts.Device) error {
	want := []byte{3, 1, 4, 1}
	b, err := w.client.Upload(want, pjrt.Uint8, []int{len(want)}, d)
	if err != nil {
		return err
	}
	defer w.freeBuffer(b)
	got := make([]byte, len(want))
	if err := w.client.Download(b, got); err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("device %d: got %v back, want %v", d.ID(), got, want)
	}
	return nil
}

// onChip is what XLA says, under the code of a full device, of a kernel that wants more
// of a processor's own memory than there is: an empty device has no more of it.
const onChip = "Shared memory size limit exceeded"

// deviceError makes an error of PJRT cross the socket, and has the devices tried
// where it may have been their end; code is its class unless the plugin says
// something more exact, and program the name of the one that failed, if one did.
func (w *Worker) deviceError(code wire.Code, program string, err error) *wire.Error {
	if e, is := errors.AsType[*wire.Error](err); is { // another host's: the devices here have done nothing
		x := *e
		x.Program = program
		return &x
	}
	switch {
	case errors.Is(err, pjrt.ErrOutOfMemory) && !strings.Contains(err.Error(), onChip):
		code = wire.OutOfMemory
	case errors.Is(err, pjrt.ErrUnimplemented):
		code = wire.Unsupported
	}
	why := wire.Errorf(code, "%v", err)
	why.Program = program
	w.checkDevices(err, why)
	return why
}
