// Package interrupt has the context of the cell that a program runs. It is the only way
// from Stop to the calls of a library: they end with
//
//	ctx := interrupt.Context()
//
// where nobody has given them a context of their own.
//
// In a notebook's cell this is ctx, which every cell has. In a program that is no cell
// it never ends, and the package handles no signal.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"sync"
)

var (
	mu     sync.Mutex
	cell   bool
	ctx    context.Context // nil until somebody uses it
	cancel context.CancelCauseFunc
)

// stopped is the cause that a context ends with when the user presses Stop.
type stopped struct{}

func (stopped) Error() string        { return "the cell was stopped" }
func (stopped) Is(target error) bool { return target == context.Canceled }

// Context returns the context of the running cell, which ends when the user presses
// Stop, and when the cell ends. In a program that is no cell it is
// context.Background(). Its first use in a cell begins to handle the interrupt: from
// then on Stop ends the calls that wait for the context, and the program is killed only
// if it has not ended 1.5 s later.
func Context() context.Context {
	mu.Lock()
	defer mu.Unlock()
	if !cell {
		return context.Background()
	}
	if ctx == nil {
		c, end := context.WithCancelCause(context.Background())
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		go func() {
			select {
			case <-signals:
				end(stopped{})
			case <-c.Done():
			}
			signal.Stop(signals)
		}()
		ctx, cancel = c, end
	}
	return ctx
}

// Cell says that the program is a cell's: the code that the kernel writes around a cell
// calls it before anything of the cell runs. It returns true.
func Cell() bool {
	mu.Lock()
	defer mu.Unlock()
	cell = true
	return true
}

// End ends the context, with the cell.
func End() {
	mu.Lock()
	defer mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
}
