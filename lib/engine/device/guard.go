package device

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// When the worker looks after its socket.
const (
	guardTick   = time.Second
	unreachable = time.Minute // without a socket, clients and jobs: then the session ends
)

// guard sees that clients and gaiden session stop can find the session: where its socket
// or the directory was removed (a runtime directory goes when its user logs out), it makes
// them again. Where another session has taken the place, or none can be made and nobody is
// left whom this session works for, it saves its arrays and ends.
func (w *Worker) guard() {
	if w.Socket == "" {
		return
	}
	g := &guard{path: w.Socket, pid: os.Getppid(), socket: w.socketID}
	tick := time.NewTicker(guardTick)
	defer tick.Stop()
	said, lost := "", time.Time{}
	for {
		select {
		case <-w.stopped:
			return
		case <-tick.C:
		}
		if g.inPlace() {
			said, lost = "", time.Time{}
			continue
		}
		l, err := g.again()
		switch {
		case err == nil:
			w.Logf("socket %s was removed, and is there again", g.path)
			said, lost = "", time.Time{}
			go w.accept(l)
			continue
		case g.replaced:
			w.Logf("another session has taken the socket %s: this one ends", g.path)
			w.stop()
			return
		}
		if text := err.Error(); text != said {
			w.Logf("socket %s was removed, and cannot be made again: %v", g.path, err)
			said = text
		}
		if lost.IsZero() || w.needed() {
			lost = time.Now()
		}
		if time.Since(lost) > unreachable {
			w.Logf("nobody can reach this session, and nobody uses it: it ends")
			w.stop()
			return
		}
	}
}

// needed says whether somebody uses the session: clients, and jobs that run.
func (w *Worker) needed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spaces {
		for _, j := range s.jobs {
			if j.state == wire.JobRuns {
				return true
			}
		}
	}
	return len(w.conns) > 0
}

// guard is a session's place: its socket, and the lock that names its supervisor.
type guard struct {
	path     string
	pid      int      // of the supervisor
	socket   string   // see socketID
	lock     *os.File // where the supervisor's own was removed
	replaced bool     // by another session
}

// inPlace says whether socket and lock are where clients look for them.
func (g *guard) inPlace() bool {
	id := socketID(g.path)
	return id != "" && id == g.socket && g.holder() == g.pid
}

// socketID tells a socket from another one at the same path, "" if there is none. (The
// number of a file alone may be that of one that was removed.)
func socketID(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return ""
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Mtim)
}

// holder is the process that the lock names, 0 if there is none.
func (g *guard) holder() int {
	pid := 0
	b, _ := wire.ReadOwn(g.path + ".lock")
	fmt.Sscan(strings.TrimSpace(string(b)), &pid)
	return pid
}

// again recreates directory, lock and socket.
func (g *guard) again() (*net.UnixListener, error) {
	if err := wire.PrivateDir(filepath.Dir(g.path)); err != nil {
		return nil, err
	}
	lock, err := wire.OpenOwn(g.path+".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if g.holder() != g.pid { // else only the socket is gone: the lock is still the supervisor's, or ours
			g.replaced = true
			return nil, ErrRunning
		}
	} else {
		if g.lock != nil {
			g.lock.Close()
		}
		g.lock = lock // until this process ends
		if err := lock.Truncate(0); err != nil {
			return nil, err
		}
		if _, err := lock.WriteAt(fmt.Appendf(nil, "%d\n", g.pid), 0); err != nil {
			return nil, err
		}
	}
	l, err := listen(g.path)
	if err != nil {
		return nil, err
	}
	g.socket = socketID(g.path)
	return l, nil
}

// listen makes the socket; who calls it holds the lock, so nobody listens there. Close does
// not remove it: it may be another session's by then.
func listen(path string) (*net.UnixListener, error) {
	if err := socketPlace(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("device: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("device: %w", err)
	}
	return l, nil
}
