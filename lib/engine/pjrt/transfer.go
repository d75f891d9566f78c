//lint:file-ignore U1000 structs have all fields of C's, also those that are not set

package pjrt

import "unsafe"

// uploadArgs is PJRT_Client_BufferFromHostBuffer_Args.
type uploadArgs struct {
	head
	client, data                          uintptr
	kind, _                               int32
	dims, rank                            uintptr
	strides, stridesLen                   uintptr
	semantics, _                          int32
	device, memory, layout, event, buffer uintptr
	spare
}

// downloadArgs is PJRT_Buffer_ToHostBuffer_Args.
type downloadArgs struct {
	head
	buffer, layout, dst, n, event uintptr
	spare
}

// transfer is the memory of one copy between host and device, used again by
// later ones.
type transfer struct {
	mem     arena
	up      *uploadArgs
	down    *downloadArgs
	dims    []int64
	scratch uintptr // an address for arrays of no elements
	event   eventArgs
}

func (c *Client) takeTransfer() *transfer {
	c.transfers.mu.Lock()
	defer c.transfers.mu.Unlock()
	if n := len(c.transfers.idle); n > 0 {
		t := c.transfers.idle[n-1]
		c.transfers.idle = c.transfers.idle[:n-1]
		return t
	}
	t := &transfer{}
	a := &t.mem
	t.up, t.down, t.dims = make1[uploadArgs](a), make1[downloadArgs](a), makeN[int64](a, maxRank)
	t.scratch = a.alloc(64)
	t.event = newEventArgs(a)
	return t
}

func (c *Client) giveTransfer(t *transfer) {
	c.transfers.mu.Lock()
	c.transfers.idle = append(c.transfers.idle, t)
	c.transfers.mu.Unlock()
}

// What a transfer does about its event.
type eventUse int

const (
	dropEvent eventUse = iota
	waitForEvent
	tellOfEvent // calls done
)

// run calls function s, does with the event that it leaves what is wanted, and destroys it.
// Destroying it before it is ready is fine: the plugin holds on to what it still needs.
// launched says that the function itself succeeded.
func (t *transfer) run(p *Plugin, s slot, args unsafe.Pointer, event *uintptr, use eventUse, done func(error)) (launched bool, err error) {
	var id uintptr
	if use == tellOfEvent {
		id = await(p, s, 1, done)
	}
	if err = p.call(s, args); err == nil {
		launched = true
		switch use {
		case waitForEvent:
			err = t.event.wait(p, s, *event)
		case tellOfEvent:
			err = t.event.tell(p, s, *event, id)
		}
		t.event.destroy(p, *event)
	}
	if use == tellOfEvent {
		if err != nil {
			forget(id)
		} else {
			finish(id, nil)
		}
	}
	return launched, err
}
