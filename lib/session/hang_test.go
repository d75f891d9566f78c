package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestHangs: a session that is stopped, or takes a connection and does nothing,
// holds no cell up. One that is at work is waited for.
func TestHangs(t *testing.T) {
	defer func(d time.Duration) { quiet = d }(quiet)
	quiet = time.Second
	t.Run("stopped", func(t *testing.T) {
		p := serve(t)
		s := p.open("stopped")
		for _, pid := range []int{p.worker(s), p.Process.Pid} {
			syscall.Kill(pid, syscall.SIGSTOP)
			defer syscall.Kill(pid, syscall.SIGCONT)
			within(t, "a process that is stopped", func() bool {
				threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
				return !slices.ContainsFunc(threads, func(path string) bool {
					b, err := os.ReadFile(path)
					return err == nil && !strings.Contains(string(b), ") T ")
				})
			})
			for _, patience := range []time.Duration{0, 50 * time.Millisecond} {
				_, err := Config{Socket: p.socket, NoStart: true, Patience: patience}.Open()
				if e, is := err.(*wire.Error); !is || e.Code != wire.Unavailable || !strings.HasPrefix(e.Text, Hangs) || !strings.Contains(e.Next, fmt.Sprint(pid)) {
					t.Errorf("process %d stopped: got %v, want that it hangs, and how it goes on", pid, err)
				}
			}
		}
		p.Process.Signal(syscall.SIGTERM)
		p.Process.Signal(syscall.SIGCONT)
		if err := p.Wait(); err != nil { // with its worker, which is stopped
			t.Errorf("the supervisor has ended with %v", err)
		}
	})
	for name, busy := range map[string]bool{"idle": false, "at work": true} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err == nil {
				err = os.WriteFile(socket+".lock", fmt.Appendln(nil, os.Getpid()), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				for end := time.Now().Add(3 * quiet); busy && time.Now().Before(end); {
				}
				if !busy {
					<-t.Context().Done()
				}
			}()
			_, err = Config{Socket: socket, NoStart: true}.Open()
			if hangs := err != nil && strings.HasPrefix(err.Error(), Hangs); hangs == busy || busy && !errors.As(err, new(*DialError)) {
				t.Errorf("got %v; it hangs: %t", err, !busy)
			}
		})
	}
}
