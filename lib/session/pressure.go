package session

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pressure sees to it that arrays which are garbage are freed. An Array is a few
// words to the garbage collector, however much it holds on the device: a loop
// that drops its results would fill the device long before Go's heap has grown.
//
// Most arrays are donated soon, one for each parameter and step, and a finalizer
// that is set and taken away costs more than all else that is done for such an
// array. So an array gets one when it has been here for a while: until then it is
// among the young, and is not garbage.
type pressure struct {
	held       atomic.Int64 // bytes of arrays that are neither freed nor donated
	limit      atomic.Int64 // collect when held is above it; 0 is leastHeld
	collecting atomic.Bool

	mu    sync.Mutex // protects following
	young [youngest]*Array
	next  int   // in young: where the oldest is
	bytes int64 // of the young, donated ones too
}

const (
	// leastHeld is what arrays may hold before a collection is worth its time, in
	// bytes.
	leastHeld = 256 << 20
	// youngest and youngBytes bound the young: what they hold is not freed before
	// others come.
	youngest   = 256
	youngBytes = leastHeld / 8
)

// add counts new arrays. Above the limit it collects garbage in a goroutine; the next
// limit is twice what is left, as with Go's own heap.
func (p *pressure) add(arrays ...*Array) {
	n := int64(0)
	p.mu.Lock()
	for _, a := range arrays {
		n += a.bytes
		p.keep(a)
	}
	p.mu.Unlock()
	if p.held.Add(n) <= max(leastHeld, p.limit.Load()) || p.collecting.Swap(true) {
		return
	}
	go func() {
		defer p.collecting.Store(false)
		p.age()
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run after the collection, in a goroutine of their own
		p.limit.Store(2 * p.held.Load())
	}()
}

// keep makes a one of the young, if it is not too large. The caller holds p.mu.
func (p *pressure) keep(a *Array) {
	if a.bytes > youngBytes {
		a.watch()
		return
	}
	p.bytes += a.bytes
	p.leave(p.next)
	p.young[p.next] = a
	p.next = (p.next + 1) % youngest
	for i := p.next; p.bytes > youngBytes; i = (i + 1) % youngest {
		p.leave(i)
	}
}

// leave ends the youth of number i. The caller holds p.mu.
func (p *pressure) leave(i int) {
	if a := p.young[i]; a != nil {
		p.young[i] = nil
		p.bytes -= a.bytes
		a.watch()
	}
}

// age ends the youth of all.
func (p *pressure) age() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.young {
		p.leave(i)
	}
}
