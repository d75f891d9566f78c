package session

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pressure makes the garbage collector run for the device's sake. An Array is a
// few words to it, however much it holds on the device: a loop that drops its
// results would fill the device long before Go's heap has grown.
type pressure struct {
	held       atomic.Int64 // bytes of arrays that are neither freed nor donated
	limit      atomic.Int64 // collect when held is above it; 0 is leastHeld
	collecting atomic.Bool
}

// leastHeld is what arrays may hold before a collection is worth its time, in
// bytes.
const leastHeld = 256 << 20

// add counts a new array of n bytes. Above the limit it collects, beside the
// caller; the next limit is twice what is left, as with Go's own heap.
func (p *pressure) add(n int64) {
	if p.held.Add(n) <= max(leastHeld, p.limit.Load()) || p.collecting.Swap(true) {
		return
	}
	go func() {
		defer p.collecting.Store(false)
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run after the collection, in a goroutine of their own
		p.limit.Store(2 * p.held.Load())
	}()
}
