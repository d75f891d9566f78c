package device

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
)

// conn is one client. Two goroutines serve it. One reads frames, answers at once
// what must not wait, and obeys by itself what is done in no time: to wake
// another goroutine costs more than a small step. The first frame that may take
// longer goes to the other one, and all that come before that has caught up.
type conn struct {
	w     *Worker
	sock  *net.UnixConn
	in    *wire.Reader
	out   *wire.Writer
	space *space
	clientInfo

	// Owned by the goroutine that obeys: the one that reads, unless behind.
	handles
	scratch wire.ExecuteBody
	step    step

	inFlight
	making atomic.Int32 // its requests for programs that are not ready
	requests
}

// clientInfo is what is known of a client.
type clientInfo struct {
	hello   wire.HelloBody
	pid     int // the client's process, 0 if unknown
	group   int // its process group
	since   time.Time
	starter *conn // of a job: who has started it, and may have locked its names
}

// handles are what a client's numbers stand for.
type handles struct {
	arrays   table
	programs map[uint64]*program
	windows  map[uint32]*window
}

// inFlight are a client's executions that the device has not finished. Worker.mu protects them.
type inFlight struct {
	unwatched []*execution  // not watched yet
	running   []*execution  // all that the device may not have finished, in order
	launching *program      // whose Execute is in the plugin, and has taken its inputs, or nil
	launched  time.Time     // when that began; a CPU does small work before it returns
	lullTimer *time.Timer   // watches them when no frame comes, nil before the first
	armed     bool          // lullTimer will fire
	inflight  int           // executions the device has not finished
	unpaced   int           // of them, those of which nobody knows how long they take
	queued    time.Duration // device time they will take, as far as is known
	lastEnd   time.Time     // when the device was last known to have finished one
	finished  *sync.Cond    // signalled when inflight falls
}

// requests are what a client has sent.
type requests struct {
	mu       sync.Mutex // protects following
	queue    []item     // for the goroutine that obeys; queue[:head] is done
	head     int
	behind   bool       // it has not obeyed all of them
	closed   bool       // no more will come
	changed  *sync.Cond // signalled when queue has grown, is half empty, or closed
	read     int64      // frames read
	work     int        // of them, those that are no Ask: see pulse
	dropTo   int64      // executions up to this frame are dropped
	deferred []*wire.Error
	advice   []*wire.Error // the last errors that the client was told of and that have a hint
}

// maxInflight bounds executions that the device has not finished, so that a
// fast client cannot fill the device's memory with results nobody has read.
const maxInflight = 64

// maxWait bounds them by the device time that they will take, so that a client's
// short program does not wait behind much of another's: at most this, in which a
// step of half of it can be ready behind the one at work, or one longer program.
const maxWait = 100 * time.Millisecond

// largeFrame is a frame's size in bytes from which its memory goes back to the system
// when the client has left: the worker collects garbage so seldom that a few
// refused frames would stay as 2 GiB.
const largeFrame = 16 << 20

// serve obeys one client until it leaves.
func (w *Worker) serve(sock *net.UnixConn) {
	c := &conn{w: w, sock: sock, in: wire.NewReader(sock), out: wire.NewWriter(sock), clientInfo: clientInfo{since: time.Now()},
		handles: handles{programs: map[uint64]*program{}, windows: map[uint32]*window{}}, inFlight: inFlight{finished: sync.NewCond(&w.mu)}}
	c.changed = sync.NewCond(&c.mu)
	defer func() {
		if c.in.Most() > largeFrame {
			debug.FreeOSMemory()
		}
	}()
	defer sock.Close()
	defer c.out.Close()
	defer c.in.Close()
	if err := c.greet(); err != nil {
		c.end(err)
		return
	}
	w.join(c)
	defer w.leave(c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.obey()
	}()
	err := c.readAll()
	if w.Node != nil { // now, as what is being done may wait for other nodes
		c.end(err)
	}
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	<-done
	if w.Node == nil {
		c.end(err)
	}
}

// greet checks who connects and answers Hello.
func (c *conn) greet() error {
	cred, err := peer(c.sock)
	if err != nil {
		return err
	}
	if cred.uid != c.w.uid {
		return wire.Errorf(wire.Denied, "session belongs to user %d, you are user %d", c.w.uid, cred.uid)
	}
	c.pid, c.group = cred.pid, cred.group
	c.sock.SetReadDeadline(time.Now().Add(10 * time.Second)) // a port scanner must not hold a goroutine for ever
	f, err := c.in.Next()
	if err != nil {
		return err
	}
	c.sock.SetReadDeadline(time.Time{})
	if f.Kind != wire.Hello {
		return wire.Errorf(wire.BadFrame, "first frame is %s: want Hello", f.Kind)
	}
	if err := wire.DecodeJSON(wire.Hello, f.Body, &c.hello); err != nil {
		return err
	}
	if c.hello.Protocol != wire.Protocol {
		return wire.OtherProtocol(wire.Protocol, c.w.Version, c.hello.Protocol, c.hello.Version)
	}
	if c.hello.Origin == "" && !c.hello.Remote {
		c.hello.Origin = c.w.origin
	}
	if c.hello.Origin != c.w.origin { // the system does not know its number
		c.pid, c.group = c.hello.PID, c.hello.Group
	}
	const elsewhere = "GAIDEN_SPACE sets another name"
	switch n := len(c.hello.Space); {
	case n > 4096:
		return wire.Errorf(wire.Invalid, "name of a notebook has %d bytes: limit is 4096", n).WithHint(elsewhere)
	case c.hello.Space == "*":
		return wire.Errorf(wire.Invalid, `name of a notebook is "*", which stands for all of them`).WithHint(elsewhere)
	}
	if c.w.failed() { // whoever comes now is the next worker's client, and connects again
		return net.ErrClosed
	}
	c.space = c.w.revisit(c.hello.Space)
	welcome := c.w.welcome(c.space)
	welcome.News = c.hello.Listens && c.w.news(c.space)
	if c.hello.Remote {
		welcome.Boot = ""
	}
	return c.out.Send(wire.Welcome, f.ID, func(b []byte) []byte { return append(b, wire.JSON(welcome)...) })
}

// end tells the client why its connection ends. A follower's worker ends with it.
func (c *conn) end(err error) {
	// A killed cell ends like this, or one that had not read all answers.
	gone := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if gone {
		err = errHungUp
	}
	if c.w.Node != nil {
		c.w.fail(err)
	}
	if gone {
		return
	}
	c.w.Logf("client %d: %v", c.pid, err)
	c.out.Send(wire.Failed, 0, func(b []byte) []byte { return append(b, wire.JSON(asError(err))...) })
}

// readAll reads frames until the client leaves or errs.
func (c *conn) readAll() error {
	for {
		f, err := c.in.Next()
		if err != nil {
			return err
		}
		if f.FD != nil && f.Kind != wire.Window {
			f.FD.Close()
			return wire.Errorf(wire.BadFrame, "%s frame with a file descriptor", f.Kind)
		}
		c.mu.Lock()
		c.read++
		if f.Kind != wire.Ask {
			c.work++
		}
		it, behind := item{f, c.read}, c.behind
		c.mu.Unlock()
		if f.Kind == wire.Ask {
			var a wire.AskBody
			if err := wire.DecodeJSON(wire.Ask, f.Body, &a); err != nil {
				return err
			}
			if c.overtakes(f.ID, a) {
				continue
			}
		}
		if behind || !c.quick(f) {
			c.enqueue(it)
			continue
		}
		if err := c.one(it); err != nil && isProtocol(err) {
			return err
		}
		c.in.Recycle(f.Body)
	}
}

// idle waits until the device has finished what this client requested.
func (c *conn) idle() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.watch(true)
	for c.inflight > 0 {
		c.finished.Wait()
	}
}

// one obeys one frame. What fails in the work itself goes to the handles and
// to the client; an error returned is one of the protocol.
func (c *conn) one(it item) (err error) {
	defer func() {
		if r := recover(); r != nil { // a fault of ours must not end other people's work
			c.w.Logf("client %d: %s: panic: %v\n%s", c.pid, it.Kind, r, debug.Stack())
			err = wire.Errorf(wire.Internal, "%s: %v", it.Kind, r).WithHint("this is a fault of gaiden; the session's log has the details")
		}
	}()
	switch it.Kind {
	case wire.Program:
		var b wire.ProgramBody
		if err := b.Decode(it.Body); err != nil {
			return err
		}
		return c.program(it.ID, &b)
	case wire.Window:
		var b wire.WindowBody
		if err := b.Decode(it.Body); err != nil {
			return err
		}
		return c.openWindow(b, it.FD)
	case wire.Upload:
		var b wire.UploadBody
		if err := b.Decode(it.Body); err != nil {
			return err
		}
		return c.upload(&b)
	case wire.Execute:
		if err := c.scratch.Decode(it.Body); err != nil {
			return err
		}
		return c.execute(&c.scratch, it.seq)
	case wire.Download:
		var b wire.DownloadBody
		if err := b.Decode(it.Body); err != nil {
			return err
		}
		return c.download(it.ID, b)
	case wire.Copy:
		var b wire.CopyBody
		if err := b.Decode(it.Body); err != nil {
			return err
		}
		return c.copy(b)
	case wire.Free:
		hs, err := wire.DecodeHandles(it.Body)
		if err != nil {
			return err
		}
		c.free(hs)
		return nil
	case wire.Sync:
		if len(it.Body) > 0 {
			hs, err := wire.DecodeHandles(it.Body)
			if err != nil {
				return err
			}
			return c.answerReady(it.ID, hs)
		}
		c.idle()
		return c.answerSync(it.ID)
	case wire.Ask:
		var a wire.AskBody
		if err := wire.DecodeJSON(wire.Ask, it.Body, &a); err != nil {
			return err
		}
		return c.ask(it.ID, a)
	case wire.Hello:
		return wire.Errorf(wire.BadFrame, "a second Hello: want one, first of all")
	}
	return wire.Errorf(wire.BadFrame, "%s frame: only the session sends these", it.Kind)
}

// send sends a frame to the client, or an error in its place when it is too
// large for one.
func (c *conn) send(k wire.Kind, id uint32, body func([]byte) []byte) error {
	err := c.out.Send(k, id, body)
	var e *wire.Error
	if k != wire.Failed && errors.As(err, &e) {
		return c.fail(id, e)
	}
	return err
}

// enoughAdvice is how many errors with a hint are kept of a client: one that it
// dies of is among its last.
const enoughAdvice = 4

// fail answers request id with e.
func (c *conn) fail(id uint32, e *wire.Error) error {
	if e = c.w.explained(e); e.Next != "" {
		c.mu.Lock()
		if c.advice = append(c.advice, e); len(c.advice) > enoughAdvice {
			c.advice = c.advice[1:]
		}
		c.mu.Unlock()
	}
	return c.send(wire.Failed, id, func(b []byte) []byte { return append(b, wire.JSON(e)...) })
}

// reply answers request id.
func (c *conn) reply(id uint32, body func([]byte) []byte) error {
	return c.send(wire.Reply, id, body)
}

// postpone keeps e until the client's next Sync or download, or for Drain.
func (c *conn) postpone(e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deferred) < 100 { // a loop that fails a million times fails for the same few reasons
		c.deferred = append(c.deferred, e)
	}
}

// told notes that the client has been told of e.
func (c *conn) told(e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.deferred[:0]
	for _, d := range c.deferred {
		if d != e {
			kept = append(kept, d)
		}
	}
	c.deferred = kept
}

// untold returns the errors that the client has not been told of, and forgets
// them.
func (c *conn) untold() []*wire.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.deferred
	c.deferred = nil
	return d
}

// answerReady answers when arrays have been computed, or says what went wrong with one. Frames
// behind it need not wait for that.
func (c *conn) answerReady(id uint32, handles []uint64) error {
	w := c.w
	var arrays []*array
	var failed *wire.Error
	for _, h := range handles {
		a, why := c.use(h)
		if why != nil {
			failed = why
			break
		}
		arrays = append(arrays, a)
	}
	go func() {
		for _, a := range arrays {
			err := w.client.Wait(a.buf)
			w.mu.Lock()
			w.unpin(a)
			why := c.outcome(a, err)
			w.mu.Unlock()
			if failed == nil {
				failed = why
			}
		}
		if failed != nil {
			c.told(failed)
			c.fail(id, failed)
			return
		}
		c.reply(id, nil)
	}()
	return nil
}

// outcome is what went wrong with an array that was waited for. The caller holds w.mu.
func (c *conn) outcome(a *array, err error) *wire.Error {
	switch {
	case a.err != nil: // the program that made it has failed on the device
		return a.err
	case err == nil:
		return nil
	case a.execution != nil:
		return c.w.deviceError(wire.ExecuteError, a.execution.program.name, err)
	}
	return c.w.deviceError(wire.ExecuteError, "", err)
}

// answerSync says what went wrong that the client has not been told of.
func (c *conn) answerSync(id uint32) error {
	d := c.untold()
	if len(d) == 0 {
		return c.reply(id, nil)
	}
	e := *d[0]
	if len(d) > 1 {
		e.Text += fmt.Sprintf(" (and %d more after it)", len(d)-1)
	}
	return c.fail(id, &e)
}

func (c *conn) program(id uint32, b *wire.ProgramBody) error {
	if old := c.programs[b.Handle]; b.Handle == 0 || old != nil && !(old.isReady() && old.missing) {
		return wire.Errorf(wire.BadFrame, "program handle %d is in use", b.Handle)
	}
	p, fresh := c.w.find(b)
	if p == nil {
		return c.out.Send(wire.NeedText, id, nil)
	}
	c.programs[b.Handle] = p
	c.making.Add(1)
	go func() { // the client waits for this answer, what it has queued does not
		defer c.making.Add(-1)
		<-p.ready
		switch {
		case p.err != nil:
			c.fail(id, p.err)
			return
		case p.missing:
			c.out.Send(wire.NeedText, id, nil)
			return
		}
		r := wire.ProgramReply{From: wire.Memory}
		if fresh {
			r = wire.ProgramReply{From: p.from, Nanoseconds: uint64(p.took)}
		}
		c.reply(id, r.Append)
	}()
	return nil
}

// asError makes any error one that can cross the socket.
func asError(err error) *wire.Error {
	if e, is := errors.AsType[*wire.Error](err); is {
		return e
	}
	return wire.Errorf(wire.Internal, "%v", err)
}
