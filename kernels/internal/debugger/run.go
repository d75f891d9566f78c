package debugger

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/lib/session"
)

// A Run is a program that is debugged.
type Run struct {
	d     *Debugger
	cells []int
	dir   string // its socket and the file that it waits for

	once    sync.Once
	gone    chan struct{}  // closed by Abandon
	leave   func()         // closes it
	adapter *adapter       // nil until it is attached; protected by d.mu
	delve   *exec.Cmd      // protected by d.mu
	work    sync.WaitGroup // of attaching
}

// Begin returns the run of a program with code of these cells, nil if none of them has a
// breakpoint, or the front end's debugger is off.
func (d *Debugger) Begin(cells []int) *Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wants(cells) {
		return nil
	}
	dir, err := os.MkdirTemp(d.Temp, "debug-")
	if err != nil {
		return nil
	}
	gone := make(chan struct{})
	return &Run{d: d, cells: cells, dir: dir, gone: gone, leave: sync.OnceFunc(func() { close(gone) })}
}

func (r *Run) ready() string { return filepath.Join(r.dir, "ready") }

// Environ is what the program needs in its environment to wait for the debugger.
func (r *Run) Environ() []string { return []string{build.ReadyEnv + "=" + r.ready()} }

// Attach has Delve at work on the program, with the breakpoints, and lets it go. It does
// not wait for that. The program continues without a debugger when it fails, and failed
// is told why.
func (r *Run) Attach(pid int, failed func(error)) {
	r.work.Go(func() {
		err := r.attach(pid)
		if err = errors.Join(err, os.WriteFile(r.ready(), nil, 0o600)); err != nil && !errors.Is(err, errEnded) {
			failed(fmt.Errorf("debugger: %s: %w", r.d.Delve, err))
		}
	})
}

func (r *Run) attach(pid int) error {
	socket := filepath.Join(r.dir, "dlv")
	cmd := exec.Command(r.d.Delve, "dap", "--listen=unix:"+socket, "--check-go-version=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := session.StartBound(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	r.d.mu.Lock()
	r.delve = cmd
	r.d.mu.Unlock()
	conn, err := r.dial(socket)
	if err != nil {
		return err
	}
	initialized := make(chan struct{})
	a := newAdapter(conn, func(m map[string]any) {
		if m["event"] == "initialized" {
			close(initialized)
			return
		}
		r.d.pass(m)
	})
	if _, err = a.request("initialize", map[string]any{"adapterID": "go", "pathFormat": "path", "linesStartAt1": true, "columnsStartAt1": true}); err != nil {
		return err
	}
	if _, err = a.request("attach", map[string]any{"mode": "local", "processId": pid, "stopOnEntry": false}); err != nil {
		return err
	}
	select {
	case <-initialized:
	case <-a.ended:
		return errEnded
	case <-time.After(patience):
		return errors.New("dlv does not say that it is ready")
	}
	r.d.mu.Lock()
	r.adapter, r.d.run = a, r
	all := r.d.of(r.cells)
	r.d.mu.Unlock()
	for id, lines := range all {
		if _, e := a.request("setBreakpoints", map[string]any{"source": map[string]any{"path": parse.FileName(id)}, "breakpoints": lines}); e != nil {
			err = errors.Join(err, e)
		}
	}
	_, e := a.request("configurationDone", nil)
	return errors.Join(err, e)
}

// dial waits until Delve listens.
func (r *Run) dial(socket string) (net.Conn, error) {
	limit := time.After(patience)
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-r.gone:
			return nil, errEnded
		case <-limit:
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Abandon takes Delve from a program that is about to be stopped: while it is held at a
// breakpoint it obeys no signal.
func (r *Run) Abandon() {
	r.leave()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.delve != nil {
		syscall.Kill(-r.delve.Process.Pid, syscall.SIGKILL)
	}
}

// End ends the debugging of a program that has ended.
func (r *Run) End() {
	r.once.Do(func() {
		r.Abandon()
		r.work.Wait()
		if r.delve != nil {
			r.delve.Wait()
		}
		r.d.mu.Lock()
		if r.d.run == r {
			r.d.run = nil
		}
		r.d.mu.Unlock()
		r.d.continued()
		os.RemoveAll(r.dir)
	})
}
