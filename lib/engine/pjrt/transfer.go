//lint:file-ignore U1000 structs have all fields of C's, also those that are not set

package pjrt

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
	batch   batch
	up      *uploadArgs
	down    *downloadArgs
	dims    []int64
	scratch uintptr // an address for arrays of no elements
	wait    *handleArgs
	ready   *readyArgs
	destroy *handleArgs
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
	t.wait, t.destroy, t.ready = make1[handleArgs](a), make1[handleArgs](a), make1[readyArgs](a)
	*t.wait, *t.destroy = newHandleArgs(0), newHandleArgs(0)
	t.batch = newBatch(a, 3)
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

// run calls function s, does with the event that it leaves at address event what
// is wanted, and destroys it, all in one transition. Destroying it before it is
// ready is fine: the plugin holds on to what it still needs. launched says that
// the function itself succeeded.
func (t *transfer) run(p *Plugin, s slot, args, event uintptr, use eventUse, done func(error)) (launched bool, err error) {
	b := &t.batch
	b.reset()
	b.add(p.functions[s], args, 0, 0)
	var id uintptr
	switch use {
	case waitForEvent:
		b.add(p.functions[eventAwait], address(t.wait), event, address(&t.wait.handle))
	case tellOfEvent:
		id = await(p, s, 1, done)
		*t.ready = newReadyArgs(id)
		b.add(p.functions[eventOnReady], address(t.ready), event, address(&t.ready.event))
	}
	b.add(p.functions[eventDestroy], address(t.destroy), event, address(&t.destroy.handle))
	at, e := b.run()
	for e != 0 {
		// A failed destroy is nothing that the caller could correct.
		if why := p.errorOf(e, s); at < b.n-1 {
			err = why
		}
		if at == 0 {
			break
		}
		if !b.more() {
			break
		}
		at, e = b.run()
	}
	launched = e == 0 || at > 0
	if use == tellOfEvent {
		if err != nil {
			forget(id)
		} else {
			finish(id, nil)
		}
	}
	return launched, err
}
