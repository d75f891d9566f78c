package session

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSocketRemoved: a session whose socket, lock or whole directory was removed is found
// again by new clients and by what reads its process number, and works on for the old ones.
func TestSocketRemoved(t *testing.T) {
	p := serve(t)
	s := p.open("guard")
	bindAll(t, s, map[string][]float32{"w": {7}})
	dir := filepath.Dir(p.socket)
	for name, remove := range map[string]func() error{
		"socket":    func() error { return os.Remove(p.socket) },
		"lock":      func() error { return os.Remove(p.socket + ".lock") },
		"both":      func() error { os.Remove(p.socket); return os.Remove(p.socket + ".lock") },
		"directory": func() error { return os.RemoveAll(dir) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		within(t, name+": socket and lock are there again", func() bool {
			b, err := os.ReadFile(p.socket + ".lock")
			if err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(p.Process.Pid) {
				return false
			}
			x, err := Config{Socket: p.socket, Space: "guard", NoStart: true}.Open()
			if err == nil {
				x.Close()
			}
			return err == nil
		})
		if got := look(t, p.open("guard")); got != "w[7]" {
			t.Errorf("%s: a new client sees %s, want w[7]", name, got)
		}
		if got := look(t, s); got != "w[7]" {
			t.Errorf("%s: an old client sees %s, want w[7]", name, got)
		}
		lock, err := os.Open(p.socket + ".lock")
		if err != nil {
			t.Fatal(err)
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			t.Errorf("%s: the lock is free, so another session would start", name)
		}
		lock.Close()
	}
	// The next worker is found, too.
	syscall.Kill(p.worker(s), syscall.SIGKILL)
	s.Wait()
	if got := look(t, p.reopen("guard")); got != "w[7]" {
		t.Errorf("after a crash: got %s, want w[7]", got)
	}
}

// TestSocketOfCrashed: where socket and lock were made again, they are the session's also
// after a crash of its worker, before the next one serves: else a new client starts another
// session.
func TestSocketOfCrashed(t *testing.T) {
	p := serve(t)
	s := p.open("guard")
	p.remake()
	for i := range 2 { // the first worker that ends has made them
		syscall.Kill(p.worker(s), syscall.SIGKILL)
		s.Wait()
		if i == 0 {
			s = p.reopen("guard")
		}
	}
	lock, err := os.Open(p.socket + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		t.Error("the lock is free, so another session would start")
	}
	if c, err := net.Dial("unix", p.socket); err != nil {
		t.Errorf("got %v, want that the client waits for the next worker", err)
	} else {
		c.Close()
	}
}

// remake removes the socket's directory and waits until the session has made it again.
func (p *process) remake() {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Dir(p.socket)); err != nil {
		p.t.Fatal(err)
	}
	within(p.t, "the socket is there again", func() bool {
		x, err := Config{Socket: p.socket, Space: "guard", NoStart: true}.Open()
		if err == nil {
			x.Close()
		}
		return err == nil
	})
}

// TestSocketTaken: a session in whose place there is another one saves its arrays and ends,
// and leaves the other's socket there, also where it has made its own again before.
func TestSocketTaken(t *testing.T) {
	t.Run("first", func(t *testing.T) { testSocketTaken(t, (*process).open) })
	t.Run("made again", func(t *testing.T) {
		testSocketTaken(t, func(p *process, space string) *Session {
			p.remake()
			return p.open(space)
		})
	})
}

func testSocketTaken(t *testing.T, open func(*process, string) *Session) {
	p := serve(t)
	s := open(p, "guard")
	bindAll(t, s, map[string][]float32{"w": {7}})
	if err := os.RemoveAll(filepath.Dir(p.socket)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(p.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(p.socket + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Skip("the session was faster than the test: run it again")
	}
	lock.WriteString("1\n")
	os.WriteFile(p.socket, []byte("another's"), 0o600)
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if b, err := os.ReadFile(p.socket); err != nil || string(b) != "another's" {
		t.Errorf("got %q, %v where the other session's socket was", b, err)
	}
	lock.Close()
	os.Remove(p.socket)
	p.again()
	if got := look(t, p.reopen("guard")); got != "w[7]" {
		t.Errorf("got %s from the next session, want w[7]", got)
	}
}
