// Package jupytertest runs kernels in a test's own process, and dials kernels for
// tests:
//
//	k := jupytertest.Start(t, interpreter, jupyter.Options{})
//	client := jupytertest.Connect(t, k.Connection)
//	answer, err := client.Execute(ctx, `fmt.Println("hello")`)
//
// What is started is ended with the test, which fails if it does not end.
package jupytertest

import (
	"context"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
)

// A Kernel is a kernel that runs in the test's own process.
type Kernel struct {
	Connection jupyter.Connection

	end  context.CancelFunc
	done chan struct{} // closed when the kernel has ended
	err  error         // how; read it after done
}

// Start runs a kernel on free ports. It is ended when the test ends, and the
// test fails if it does not end within ten seconds.
func Start(t testing.TB, interpreter jupyter.Interpreter, opts jupyter.Options) *Kernel {
	t.Helper()
	return StartOn(t, jupyter.Connection{IP: "127.0.0.1", Key: jupyter.NewID()}, interpreter, opts)
}

// StartOn is Start for a connection of one's choice.
func StartOn(t testing.TB, connection jupyter.Connection, interpreter jupyter.Interpreter, opts jupyter.Options) *Kernel {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	k := &Kernel{end: end, done: make(chan struct{})}
	ready := make(chan jupyter.Connection, 1)
	opts.Ready = func(c jupyter.Connection) { ready <- c }
	go func() {
		defer close(k.done)
		k.err = jupyter.Serve(ctx, connection, interpreter, opts)
	}()
	select {
	case k.Connection = <-ready:
	case <-k.done:
		end()
		t.Fatalf("the kernel does not start: %v", k.err)
	}
	t.Cleanup(func() {
		end()
		select {
		case <-k.done:
		case <-time.After(10 * time.Second):
			t.Error("the kernel does not end")
		}
	})
	return k
}

// Wait waits for the kernel's end and returns its error.
func (k *Kernel) Wait(ctx context.Context) error {
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop ends the kernel as SIGTERM would.
func (k *Kernel) Stop() { k.end() }

// Connect dials a kernel; the connection is closed when the test ends.
func Connect(t testing.TB, connection jupyter.Connection) *frontend.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), frontend.DialWait)
	defer cancel()
	c, err := frontend.Dial(ctx, connection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
