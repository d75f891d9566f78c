package device

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"

	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/wire"
)

// Follower offers the devices of its host to a controller on another one, or on this one: it
// starts a worker when one calls, and the worker ends with the controller's connection. In
// between it has no device context.
type Follower struct {
	Version string
	Command []string // runs a worker
	Plugin  Plugin
	Log     io.Writer

	calls  chan *call
	over   chan struct{} // closed when nobody takes calls any more
	set    string        // of the connection that waits for its second one
	work   *net.UnixConn // that one, nil if there is none
	owner  string        // of the controller that called last
	worker *exec.Cmd     // nil if none runs
	ended  chan error    // hears of the worker's end
}

// call is a connection with its first line.
type call struct {
	hosts.Call
	conn *net.UnixConn
}

// callWait is how long a controller's second connection may take to come.
const callWait = 30 * time.Second

// Run serves controllers that come to l until it is closed.
func (f *Follower) Run(l *hosts.Listener) {
	runtime.LockOSThread() // workers die with the thread that started them
	defer runtime.UnlockOSThread()
	f.calls, f.over = make(chan *call), make(chan struct{})
	go func() {
		defer close(f.over)
		l.Accept(f.hear, func(err error) { f.logf("%v", err) })
	}()
	defer f.stop()
	defer f.hangUp()
	var late <-chan time.Time
	for {
		select {
		case c := <-f.calls:
			f.answer(c)
			if late = nil; f.work != nil {
				late = time.After(callWait)
			}
		case <-late:
			f.logf("a controller has called once, and not a second time")
			f.hangUp()
		case err := <-f.ended:
			f.logf("worker ended: %v", err)
			f.worker, f.ended = nil, nil
		case <-f.over:
			return
		}
	}
}

// hear reads the first line of a connection.
func (f *Follower) hear(conn *net.UnixConn) {
	c := &call{conn: conn}
	if err := hosts.ReadLine(conn, &c.Call); err != nil {
		f.logf("call: %v", err)
		conn.Close()
		return
	}
	select {
	case f.calls <- c:
	case <-f.over:
		conn.Close()
	}
}

func (f *Follower) answer(c *call) {
	if c.Store {
		f.startWorker(c)
		return
	}
	name, _ := os.Hostname()
	a := hosts.Answer{Host: name}
	switch {
	case c.Protocol != wire.Protocol:
		a.Error = wire.Errorf(wire.BadVersion, "follower speaks protocol %d (gaiden %s), the controller %d (%s)", wire.Protocol, f.Version, c.Protocol, c.Version).
			WithHint("install the same gaiden on all hosts")
	case c.GPUs.Shares(f.Plugin.gpus()):
		a.Error = wire.Errorf(wire.Invalid, "this host is the session's own machine, and offers a GPU that the session uses").
			WithHint("start the session with GAIDEN_DEVICE=cuda:0 and the other one with GAIDEN_DEVICE=cuda:1 gaiden session join; or use fit.Config{Devices: 2} without hosts")
	case f.worker != nil && f.owner != c.Owner:
		a.Error = wire.Errorf(wire.Busy, "another session uses this host").WithHint("%%hosts remove in a notebook of that session releases it, or gaiden session stop on that session's machine")
	}
	if err := hosts.SendLine(c.conn, a); err != nil || a.Error != nil || c.Probe {
		c.conn.Close()
		return
	}
	f.hangUp()
	f.set, f.owner, f.work = c.Set, c.Owner, c.conn
}

// startWorker starts the worker for a controller whose second connection is c.
func (f *Follower) startWorker(c *call) {
	defer c.conn.Close()
	if f.work == nil || c.Set != f.set {
		f.logf("a second connection came without the first one")
		return
	}
	f.stop() // the one of the controller's generation before
	work := f.work
	f.work = nil
	defer work.Close()
	if err := f.launch(c, work); err != nil {
		f.logf("worker: %v", err)
		work.Write(wire.AppendFrame(nil, wire.Failed, 0, wire.JSON(asError(err))))
	}
}

func (f *Follower) launch(c *call, work *net.UnixConn) error {
	controller, err := work.File()
	if err != nil {
		return err
	}
	defer controller.Close()
	store, err := c.conn.File()
	if err != nil {
		return err
	}
	defer store.Close()
	again, err := work.File() // to say why, where it cannot start
	if err != nil {
		return err
	}
	said := &words{to: f.Log}
	cmd, up, err := start(f.Command, job{Plugin: f.Plugin, Node: c.Node, Count: c.Count}, said, controller, store)
	if err != nil {
		again.Close()
		return err
	}
	f.logf("worker %d is node %d of %d", cmd.Process.Pid, c.Node, c.Count)
	ended := make(chan error, 1)
	f.worker, f.ended = cmd, ended
	go func() {
		defer again.Close()
		why := <-up
		err := cmd.Wait()
		if errors.Is(why, errDied) {
			why = f.Plugin.Died(said.all())
		}
		if why != nil {
			again.Write(wire.AppendFrame(nil, wire.Failed, 0, wire.JSON(asError(why))))
		}
		if err == nil {
			err = errHungUp
		}
		ended <- fmt.Errorf("%w: %s", err, said.lastLine())
	}()
	return nil
}

// hangUp drops a connection that waits for its second one.
func (f *Follower) hangUp() {
	if f.work != nil {
		f.work.Close()
		f.work = nil
	}
}

// stop ends the worker.
func (f *Follower) stop() {
	if f.worker != nil {
		f.worker.Process.Kill()
		<-f.ended
		f.worker, f.ended = nil, nil
	}
}

func (f *Follower) logf(format string, args ...any) {
	if f.Log != nil {
		fmt.Fprintf(f.Log, "%s follower: %s\n", time.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
	}
}
