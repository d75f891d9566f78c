package session

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
)

// TestMain lets the test program play the session's processes too: real ones,
// without building gaiden.
func TestMain(m *testing.M) {
	switch os.Getenv("GAIDEN_TEST_ROLE") {
	case "serve":
		s := device.Supervisor{Version: Version, Command: []string{"/proc/self/exe"}, Ready: os.NewFile(3, "ready"), Log: os.Stderr}
		os.Setenv("GAIDEN_TEST_ROLE", "worker")
		leave(s.Run())
	case "worker":
		go countGoroutines()
		leave(device.Work(Version))
	case "stranger":
		stranger(os.Args[len(os.Args)-1])
		os.Exit(0)
	case "cell":
		cell(os.Args[len(os.Args)-1])
		os.Exit(0)
	case "gomlx":
		leave(gomlxCell(os.Args[len(os.Args)-1]))
	case "locked":
		leave(lockedCell(os.Args[len(os.Args)-1]))
	case "leaver":
		leave(leaver(os.Args[len(os.Args)-1]))
	case "endless":
		leave(endless(os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

// leave ends a program at once: it waits for nothing and closes nothing.
func leave(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is one end of a test that runs apart.
type process struct {
	*exec.Cmd
	t      *testing.T
	dir    string // of its files
	socket string
}

// needPlugin skips a test that needs XLA.
func needPlugin(t testing.TB) {
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
}

// serve starts a supervisor of its own in a directory of the test, and returns
// its socket.
func serve(t *testing.T, env ...string) *process {
	t.Helper()
	needPlugin(t)
	p := &process{t: t, dir: t.TempDir()}
	p.socket = filepath.Join(p.dir, "run", "session.sock")
	p.again(env...)
	return p
}

// Serve is a session of its own, for the example, which is written from outside.
var Serve = func(t *testing.T) *Session { return serve(t).open("example") }

// again starts the supervisor, in the directories of the one before.
func (p *process) again(env ...string) {
	p.t.Helper()
	line := p.start(append([]string{"GAIDEN_SOCKET=" + p.socket, "XDG_STATE_HOME=" + p.dir + "/state", "XDG_CACHE_HOME=" + p.dir + "/cache"}, env...)...)
	if line != "ready" {
		p.t.Fatalf("supervisor said %q, want ready", line)
	}
}

// start runs the supervisor and returns its first word.
func (p *process) start(env ...string) string {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	p.Cmd = exec.Command("/proc/self/exe")
	p.Env = append(os.Environ(), env...)
	p.Env = append(p.Env, "GAIDEN_TEST_ROLE=serve")
	p.ExtraFiles = []*os.File{w}
	log := &strings.Builder{}
	p.Stderr = log
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	w.Close()
	p.t.Cleanup(func() {
		p.Process.Signal(syscall.SIGTERM)
		p.Wait()
		if p.t.Failed() {
			p.t.Logf("session's log:\n%s", log)
		}
	})
	line, _ := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSpace(line)
}

// open connects to the session.
func (p *process) open(space string) *Session {
	p.t.Helper()
	s, err := Config{Socket: p.socket, Space: space}.Open()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close() })
	return s
}

// worker is the process number of the worker.
func (p *process) worker(s *Session) int {
	p.t.Helper()
	st, err := s.Status()
	if err != nil {
		p.t.Fatal(err)
	}
	return st.WorkerPID
}

// reopen connects to the next worker.
func (p *process) reopen(space string) *Session {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, err := Config{Socket: p.socket, Space: space}.Open()
		if err == nil {
			p.t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(end) {
			p.t.Fatalf("no worker after 20 s: %v", err)
		}
	}
}

func askAll(t *testing.T, s *Session, a wire.AskBody) *wire.AnswerBody {
	t.Helper()
	ans, err := s.Ask(a)
	if err != nil {
		t.Fatal(err)
	}
	return ans
}
