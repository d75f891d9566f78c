package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// An agent is the far end of the lines that gaiden session -ssh keeps: it holds
// connections to the session of its machine while a line is broken.
type agent struct {
	mu    sync.Mutex // protects following
	links map[linkID]*wire.Link
	used  time.Time
}

type linkID [16]byte

// What the two ends say when a line begins: the near one the number of its link
// and whether it is new, the far one whether there is such a link.
const (
	linkNew byte = iota
	linkOld
	linkReady
	linkGone
)

const (
	lineWait  = 10 * time.Minute // how long a link waits for its next line
	agentIdle = time.Hour        // how long an agent without links lives
)

func agentSocket() string { return filepath.Join(wire.RuntimeDir(), "agent.sock") }

// agentMain prints the agent's socket, and starts the session and the agent where
// they do not run. With serve it is the agent.
func agentMain(args []string, stdout io.Writer) error {
	if len(args) == 1 && args[0] == "serve" {
		return serveAgent()
	}
	if err := startSession(io.Discard); err != nil {
		return err
	}
	if c, err := net.Dial("unix", agentSocket()); err == nil {
		c.Close()
	} else if err := startAgent(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "agent %s\n", agentSocket())
	return nil
}

func startAgent() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := openLog(device.LogPath())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, "session", "agent", "serve")
	cmd.Stdout, cmd.Stderr = log, log
	session.Detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("unix", agentSocket()); err == nil {
			c.Close()
			return nil
		}
	}
	return fmt.Errorf("agent does not answer at %s", agentSocket())
}

// errLocked says that another process listens at a socket, or is about to.
var errLocked = errors.New("locked")

// lockSocket makes this process the one that may listen at a socket, until the
// file is closed. The file is empty: the caller writes into it who it is.
func lockSocket(path string) (*os.File, error) {
	if err := wire.PrivateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := wire.OpenOwn(path+".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		lock.Close()
		return nil, errLocked
	}
	lock.Truncate(0)
	return lock, nil
}

func serveAgent() error {
	path := agentSocket()
	lock, err := lockSocket(path)
	if errors.Is(err, errLocked) {
		return nil // another one was faster
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	fmt.Fprintf(lock, "%d\n", os.Getpid())
	os.Remove(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	a := &agent{links: map[linkID]*wire.Link{}, used: time.Now()}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		for {
			select {
			case <-stop:
			case <-time.After(time.Minute):
				a.mu.Lock()
				busy := len(a.links) > 0 || time.Since(a.used) < agentIdle
				a.mu.Unlock()
				if busy {
					continue
				}
			}
			l.Close()
			return
		}
	}()
	for {
		line, err := l.AcceptUnix()
		if err != nil {
			return nil
		}
		go a.serve(line)
	}
}

// serve takes a line. The directory of the socket is private, so who comes is the
// user.
func (a *agent) serve(line net.Conn) {
	var head [17]byte
	if _, err := io.ReadFull(line, head[:]); err != nil {
		line.Close()
		return
	}
	id := linkID(head[:16])
	a.mu.Lock()
	l := a.links[id]
	a.used = time.Now()
	a.mu.Unlock()
	if l == nil && head[16] == linkNew {
		if conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: wire.SocketPath(), Net: "unix"}); err == nil {
			l = wire.NewLink(conn, nil)
			a.mu.Lock()
			a.links[id] = l
			a.mu.Unlock()
		}
	}
	if l == nil || l.Over() {
		line.Write([]byte{linkGone})
		line.Close()
		return
	}
	if _, err := line.Write([]byte{linkReady}); err == nil {
		l.Carry(line)
	}
	if !l.Over() && !l.Told() {
		time.Sleep(lineWait + time.Second) // for the next line, which another goroutine serves
		if l.Waits() < lineWait {
			return
		}
	}
	l.End()
	a.mu.Lock()
	delete(a.links, id)
	a.used = time.Now()
	a.mu.Unlock()
}
