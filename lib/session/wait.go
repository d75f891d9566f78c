package session

import (
	"errors"
	"sync"
)

// connections are this process's own that are open: who reads a clock must
// know that none of them has work left.
var connections sync.Map // *Session → nil

// Connections returns the number of sessions that this process has opened and not
// closed.
func Connections() int {
	n := 0
	connections.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// WaitAll waits until the devices have finished all requests of this process, on
// every connection: see [Session.Wait]. Without a connection it returns at once.
func WaitAll() error {
	var errs []error
	connections.Range(func(s, _ any) bool {
		errs = append(errs, s.(*Session).Wait())
		return true
	})
	return errors.Join(errs...)
}
