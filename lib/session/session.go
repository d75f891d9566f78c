package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// Version is the version of this build. The Python package, gaiden --version and messages
// have it from here.
const Version = "0.1.0"

// Session is a connection to the device session. Its methods may be called from any
// goroutine. Calls from one goroutine take effect in order.
type Session struct {
	conn    *net.UnixConn
	out     *wire.Writer
	in      *wire.Reader
	welcome wire.WelcomeBody
	space   string
	remote  bool // no shared memory: another machine, or another kernel

	handles  atomic.Uint64
	ids      atomic.Uint32
	pressure pressure

	turn chan struct{} // holds something while somebody reads

	mu      sync.Mutex // protects following
	waiting map[uint32]chan answer
	idle    []chan answer // to be used again
	err     error         // why the connection is over
	dead    []uint64      // handles whose owners were collected
	windows windows
}

// answer is a reply to one request.
type answer struct {
	kind wire.Kind
	body []byte
	err  error
}

// Config says how to reach the session. The zero value is right for a cell.
type Config struct {
	Socket  string // default: wire.SocketPath
	Space   string // name space of the arrays; default: Space()
	Client  string // shown in lists; default: the program's name
	NoStart bool   // do not start a session when there is none
	Listens bool   // this client shows Welcome().Note to its user when it is News

	// Patience is how long Open waits for an answer of a session that accepted the
	// connection but may be starting, or hang. The default is to wait as long as the
	// session is working.
	Patience time.Duration
}

// Space returns the name space of this process: GAIDEN_SPACE if it is set, else the
// path of the notebook in JPY_SESSION_NAME without its extension, else "default". All
// kernels that were not started by a Jupyter server share "default": see
// [Session.Lock].
func Space() string {
	if s := os.Getenv("GAIDEN_SPACE"); s != "" {
		return s
	}
	if s := os.Getenv("JPY_SESSION_NAME"); s != "" {
		return strings.TrimSuffix(s, ".ipynb")
	}
	return "default"
}

// Open connects to the session, and starts one if none is running. The error is a
// [DialError] or another wire.Unavailable if that fails, and wire.Denied if the
// socket belongs to another user.
func (c Config) Open() (*Session, error) {
	c.Socket = cmp.Or(c.Socket, wire.SocketPath())
	c.Space = cmp.Or(c.Space, Space())
	c.Client = cmp.Or(c.Client, filepath.Base(os.Args[0]))
	s, err := c.connect()
	if _, is := errors.AsType[*DialError](err); is && !c.NoStart && os.Getenv("GAIDEN_SOCKET") == "" {
		if err := start(); err != nil {
			return nil, err
		}
		s, err = c.connect()
	}
	if err != nil {
		return nil, err
	}
	connections.Store(s, nil)
	return s, nil
}

// connect connects to a session that runs. Its error is a *DialError where none
// has answered, which may have died at this moment.
func (c Config) connect() (*Session, error) {
	conn, err := dial(c.Socket)
	if err == nil {
		err = ours(conn, c.Socket)
	}
	switch {
	case errors.Is(err, wire.Denied):
		return nil, err
	case err != nil:
		return nil, &DialError{c.Socket, err}
	}
	s := &Session{conn: conn, out: wire.NewWriter(conn), in: wire.NewReader(conn), space: c.Space, turn: make(chan struct{}, 1), waiting: map[uint32]chan answer{}}
	if err := s.greet(c); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Open connects to the session with the zero Config.
func Open() (*Session, error) { return Config{}.Open() }

func (s *Session) greet(c Config) error {
	hello := wire.HelloBody{Protocol: wire.Protocol, Version: Version, Space: c.Space, Client: c.Client, Listens: c.Listens, PID: os.Getpid(), Group: unix.Getpgrp(), Origin: wire.ProcessOrigin()}
	if err := s.out.Send(wire.Hello, 1, func(b []byte) []byte { return append(b, wire.JSON(hello)...) }); err != nil {
		return &DialError{c.Socket, err}
	}
	s.ids.Store(1)
	end := s.watch(c)
	f, err := s.in.Next()
	if silent := end(err); silent != nil {
		return silent
	}
	if err != nil {
		return &DialError{c.Socket, err}
	}
	switch f.Kind {
	case wire.Welcome:
		s.remote = false
		if err := wire.DecodeJSON(f.Kind, f.Body, &s.welcome); err != nil {
			return err
		}
		if w := &s.welcome; w.Protocol != wire.Protocol {
			return wire.OtherProtocol(w.Protocol, w.Version, wire.Protocol, Version)
		}
		s.remote = s.welcome.Boot == "" || s.welcome.Boot != wire.BootID()
		return nil
	case wire.Failed:
		return decodeError(f.Body)
	}
	return wire.Errorf(wire.BadVersion, "session: got %s for an answer to Hello", f.Kind).WithHint("gaiden session stop, then try again")
}

// errClosed is what a closed session answers; see lost.
var errClosed = fmt.Errorf("session: used after Close: %w", net.ErrClosed)

// Close closes the connection. Arrays without a name are freed. The error is one that
// was not reported before; see Wait.
func (s *Session) Close() error {
	err := s.Wait()
	connections.Delete(s)
	s.fail(errClosed)
	s.out.Close()
	return errors.Join(err, s.conn.Close())
}

// await returns the answer that ch will give. There is no goroutine that reads:
// of those who wait one does, for all, and so need not be woken by another.
func (s *Session) await(ch chan answer) answer {
	select {
	case a := <-ch:
		return a
	case s.turn <- struct{}{}:
	}
	defer func() { <-s.turn }()
	for {
		select {
		case a := <-ch:
			return a
		default:
			s.read()
		}
	}
}

// read takes one frame. The caller has the turn.
func (s *Session) read() {
	f, err := s.in.Next()
	if err != nil {
		s.fail(s.lost(err))
		return
	}
	switch f.Kind {
	case wire.Done:
		var d wire.DoneBody
		if err := d.Decode(f.Body); err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		s.windows.done(d.Window)
		s.mu.Unlock()
		s.in.Recycle(f.Body)
		return
	case wire.Failed:
		if f.ID == 0 {
			s.fail(decodeError(f.Body))
			return
		}
	}
	s.mu.Lock()
	ch := s.waiting[f.ID]
	delete(s.waiting, f.ID)
	s.mu.Unlock()
	if ch != nil {
		a := answer{kind: f.Kind, body: f.Body}
		if f.Kind == wire.Failed {
			a.err = decodeError(f.Body)
		}
		ch <- a
	}
}

// poll takes the frames that have come, unless somebody reads.
func (s *Session) poll() {
	select {
	case s.turn <- struct{}{}:
		for s.over() == nil && s.in.Ready() {
			s.read()
		}
		<-s.turn
	default:
	}
}

// lost explains the end of a connection, by what the next worker says.
func (s *Session) lost(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	e := wire.Errorf(wire.Lost, "session: connection ended: %v", err)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		e = wire.Errorf(wire.Lost, "session: worker %d has ended", s.welcome.Generation)
	}
	next, err := s.Reconnect()
	if err != nil {
		return e.WithHint("the session is not running any more; the next cell starts one")
	}
	defer next.conn.Close()
	if w := next.welcome; w.Generation != s.welcome.Generation {
		e.Text = fmt.Sprintf("%s; generation is now %d: %s", e.Text, w.Generation, w.Note)
	}
	return e.WithHint("run the cell again")
}

// Reconnect opens another connection to the same name space, such as to the worker that follows one
// that has ended. Arrays and programs belong to the connection that made them.
func (s *Session) Reconnect() (*Session, error) {
	return Config{Socket: s.conn.RemoteAddr().String(), Space: s.space, Client: "reconnect", NoStart: true}.Open()
}

// fail ends the connection for all who wait.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	for id, ch := range s.waiting {
		ch <- answer{err: s.err}
		delete(s.waiting, id)
	}
	s.windows.close()
}

// send sends a frame nobody waits for.
func (s *Session) send(k wire.Kind, body func([]byte) []byte) error {
	s.sweep()
	if err := s.out.Send(k, 0, body); err != nil {
		return s.why(err)
	}
	return nil
}

// ask sends a request and waits for its answer.
func (s *Session) ask(k wire.Kind, body func([]byte) []byte) (wire.Kind, []byte, error) {
	s.sweep()
	id := s.ids.Add(1)
	if id == 0 {
		id = s.ids.Add(1)
	}
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return 0, nil, s.err
	}
	var ch chan answer
	if n := len(s.idle); n > 0 {
		ch, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		ch = make(chan answer, 1)
	}
	s.waiting[id] = ch
	s.mu.Unlock()
	if err := s.out.Send(k, id, body); err != nil {
		err = s.why(err)
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
		return 0, nil, err
	}
	a := s.await(ch)
	s.mu.Lock()
	s.idle = append(s.idle, ch)
	s.mu.Unlock()
	return a.kind, a.body, a.err
}

// why prefers what the session has said before it ended the connection to the
// error of a write.
func (s *Session) why(err error) error {
	var e *wire.Error
	if errors.As(err, &e) { // nothing was sent
		return e
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for s.over() == nil {
		s.read()
	}
	return s.over()
}

// over is why the connection is over, nil if it is not.
func (s *Session) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sweep frees what the garbage collector has found.
func (s *Session) sweep() {
	s.mu.Lock()
	dead := s.dead
	s.dead = nil
	s.mu.Unlock()
	if len(dead) > 0 {
		s.out.Send(wire.Free, 0, func(b []byte) []byte { return wire.AppendHandles(b, dead) })
	}
}

// drop frees a handle with the next frame.
func (s *Session) drop(handle uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, handle)
}

// Wait waits until the device has finished all requests of this connection. It
// returns the first error that was not yet reported by a download.
func (s *Session) Wait() error {
	defer spent().since(costDevice, time.Now())
	_, _, err := s.ask(wire.Sync, nil)
	return err
}

// Ask sends a request that is not performance-critical; see wire.Verb. Use it for
// lists and switches of the session that have no method. With an error the answer is empty.
func (s *Session) Ask(a wire.AskBody) (*wire.AnswerBody, error) {
	s.pressure.age()
	ans := &wire.AnswerBody{}
	_, body, err := s.ask(wire.Ask, func(b []byte) []byte { return append(b, wire.JSON(a)...) })
	if err == nil {
		err = wire.DecodeJSON(wire.Reply, body, ans)
	}
	return ans, err
}

// Welcome returns what the session sent when the connection was opened: version,
// generation, plugin, devices.
func (s *Session) Welcome() wire.WelcomeBody { return s.welcome }

// Space returns the name space of this connection's arrays.
func (s *Session) Space() string { return s.space }

// String returns the notebook and the session, for display in a cell.
func (s *Session) String() string {
	return fmt.Sprintf("notebook %q in %s", s.space, (&Backend{s: s}).Description())
}

func decodeError(body []byte) error {
	e := &wire.Error{}
	if err := wire.DecodeJSON(wire.Failed, body, e); err != nil {
		return err
	}
	return e
}
