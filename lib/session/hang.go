package session

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// quiet is how long a session that took a connection may be silent and do nothing:
// it hangs then. One that starts, or brings arrays back, is at work.
var quiet = 10 * time.Second

// Hangs is the beginning of the error text that [Config.Open] returns for a session
// that hangs.
const Hangs = "session: it does not answer"

// watch ends the wait for the session's first word after c.Patience, or when it
// hangs. end ends the watch; it is given what came of the wait, and says why that was
// ended, nil if it was not.
func (s *Session) watch(c Config) (end func(error) error) {
	if c.Patience > 0 {
		s.conn.SetReadDeadline(time.Now().Add(c.Patience))
		return func(err error) error {
			s.conn.SetReadDeadline(time.Time{})
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			if v := examine(s.conn, c.Socket); v != nil && len(v.stopped) > 0 {
				return v.hang()
			}
			return wire.Errorf(wire.Unavailable, "session: the one at %s has not answered for %v: it starts, or it hangs", c.Socket, c.Patience).
				WithHint("try again; gaiden session stop ends one that hangs")
		}
	}
	over, seen := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(seen)
		t := time.NewTicker(quiet / 2)
		defer t.Stop()
		for before := (*vitals)(nil); ; {
			select {
			case <-over:
				return
			case <-t.C:
			}
			now := examine(s.conn, c.Socket)
			if now == nil {
				return
			}
			if before != nil && now.idle(before, quiet/2) {
				seen <- now.hang()
				s.conn.SetReadDeadline(time.Unix(1, 0))
				return
			}
			before = now
		}
	}()
	return func(err error) error {
		close(over)
		hangs := <-seen
		s.conn.SetReadDeadline(time.Time{})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		return hangs
	}
}

// vitals are what the system tells of a session's processes.
type vitals struct {
	processes []string
	stopped   []string      // of them, by a signal
	worked    time.Duration // on the CPU, all together
	disk      bool          // one waits for a disk
}

// examine looks at the session behind a socket; nil where that cannot be seen, as it is
// another machine's, or in another container.
func examine(conn *net.UnixConn, socket string) *vitals {
	lock, err := wire.ReadOwn(socket + ".lock")
	cred, failed := wire.Peer(conn)
	if err != nil || failed != nil || strings.TrimSpace(string(lock)) != strconv.Itoa(int(cred.Pid)) {
		return nil
	}
	v := &vitals{}
	for _, p := range sysinfo.Processes() {
		if p.PID != int(cred.Pid) && p.Parent != int(cred.Pid) {
			continue
		}
		pid := strconv.Itoa(p.PID)
		v.processes = append(v.processes, pid)
		v.worked += p.CPU
		v.disk = v.disk || p.State == 'D'
		if p.State == 'T' {
			v.stopped = append(v.stopped, pid)
		}
	}
	return v
}

// idle says whether nothing was done for so long. A process that does nothing may
// look at a clock.
func (v *vitals) idle(before *vitals, during time.Duration) bool {
	return strings.Join(v.processes, " ") == strings.Join(before.processes, " ") && !v.disk && v.worked-before.worked < during/50
}

// hang says what hangs.
func (v *vitals) hang() error {
	if l := strings.Join(v.stopped, " "); l != "" {
		return wire.Errorf(wire.Unavailable, Hangs+": process %s of it is stopped by a signal", l).
			WithHint("kill -CONT %s lets it continue; gaiden session stop ends it", l)
	}
	return wire.Errorf(wire.Unavailable, Hangs+", and has done nothing for %v: process %s hangs", quiet/2, strings.Join(v.processes, " ")).
		WithHint("gaiden session stop ends it; the next cell starts another, with the arrays that are saved")
}
