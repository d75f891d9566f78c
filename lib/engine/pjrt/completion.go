//lint:file-ignore U1000 structs have all fields of C's, also those that are not set

package pjrt

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// completion is one done function that waits for events. It counts them and one
// more for the call that made it, so that done never runs before that call has
// filled in its results.
type completion struct {
	plugin *Plugin
	op     slot
	left   int
	err    error // the first one
	done   func(error)
}

// completions finds done functions by number. Plugins call back with the number;
// a process may make 2000 C callbacks and never free one, so there is one.
var completions struct {
	once     sync.Once
	callback uintptr

	mu    sync.Mutex // protects what follows
	last  uintptr
	table map[uintptr]*completion
}

// callback is the address of the one C function that plugins call.
func callback() uintptr {
	completions.once.Do(func() {
		completions.table = map[uintptr]*completion{}
		completions.callback = purego.NewCallback(func(e, id uintptr) uintptr {
			eventReady(e, id)
			return 0
		})
	})
	return completions.callback
}

// eventReady runs on a thread of XLA, or inside the call that requested it when
// the event was ready already. It must be quick.
func eventReady(e, id uintptr) {
	completions.mu.Lock()
	c := completions.table[id]
	completions.mu.Unlock()
	if c == nil {
		return // the call that wanted to know has failed meanwhile
	}
	var err error
	if e != 0 {
		err = c.plugin.errorOf(e, c.op)
	}
	finish(id, err)
}

// await registers done for n events and returns its number.
func await(p *Plugin, s slot, n int, done func(error)) uintptr {
	callback()
	completions.mu.Lock()
	defer completions.mu.Unlock()
	completions.last++
	completions.table[completions.last] = &completion{p, s, n + 1, nil, done}
	return completions.last
}

// finish counts one event of completion id, or the call that made it. The last
// one starts done in a goroutine of its own: what done does is no business of
// the thread we are on.
func finish(id uintptr, err error) {
	completions.mu.Lock()
	defer completions.mu.Unlock()
	c := completions.table[id]
	if c == nil {
		return
	}
	if c.err == nil {
		c.err = err
	}
	if c.left--; c.left == 0 {
		delete(completions.table, id)
		go c.done(c.err)
	}
}

// forget drops a completion whose call failed: done will not run.
func forget(id uintptr) {
	completions.mu.Lock()
	delete(completions.table, id)
	completions.mu.Unlock()
}

// readyArgs is PJRT_Event_OnReady_Args.
type readyArgs struct {
	head
	event, callback, id uintptr
	spare
}

// eventArgs are the arguments of what is done with an event, used again for the next one.
type eventArgs struct {
	handle *handleArgs
	ready  *readyArgs
}

func newEventArgs(a *arena) eventArgs {
	e := eventArgs{make1[handleArgs](a), make1[readyArgs](a)}
	*e.handle = newHandleArgs(0)
	return e
}

// wait returns when the event of operation op is ready, with its error.
func (a eventArgs) wait(p *Plugin, op slot, event uintptr) error {
	a.handle.handle = event
	return p.callFor(op, eventAwait, unsafe.Pointer(a.handle))
}

// tell has the plugin count the event for completion id.
func (a eventArgs) tell(p *Plugin, op slot, event, id uintptr) error {
	*a.ready = readyArgs{head: head{unsafe.Sizeof(readyArgs{}), 0}, event: event, callback: completions.callback, id: id}
	return p.callFor(op, eventOnReady, unsafe.Pointer(a.ready))
}

// destroy frees the event. An error of that is nothing that a caller could correct.
func (a eventArgs) destroy(p *Plugin, event uintptr) {
	a.handle.handle = event
	_ = p.callFor(eventDestroy, eventDestroy, unsafe.Pointer(a.handle))
}
