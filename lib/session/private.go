package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
)

// Private is a session of this process, separate from the user's session. Use it for
// work that may crash the worker or slow it down. Close removes its files, except for
// crash reports; error messages say where those are.
type Private struct {
	Dir    string // its state, and its cache unless XDG_CACHE_HOME was given
	Socket string // the address of the session

	cmd *exec.Cmd
}

// forgotten is how old a folder is of which no process is left that would remove it.
const forgotten = 24 * time.Hour

// StartPrivate starts a private session and returns when it is ready. bin is the
// program gaiden, and plugin is the file of an XLA plugin. The environment is that of
// this process plus env; an XDG_CACHE_HOME in env is where compiled programs are
// cached. The session ends with Close or with this process, even if this process is
// killed. If the session does not start, the error is wire.Unavailable.
func StartPrivate(bin, plugin string, env ...string) (*Private, error) {
	const pattern = "private-*"
	if err := os.MkdirAll(wire.StateDir(), 0o700); err != nil {
		return nil, err
	}
	if old, err := filepath.Glob(filepath.Join(wire.StateDir(), pattern)); err == nil {
		for _, dir := range old {
			if f, err := os.Stat(dir); err == nil && time.Since(f.ModTime()) > forgotten {
				os.RemoveAll(dir)
			}
		}
	}
	dir, err := os.MkdirTemp(wire.StateDir(), pattern)
	if err != nil {
		return nil, err
	}
	p := &Private{Dir: dir, Socket: filepath.Join(dir, "run", "s.sock"), cmd: exec.Command(bin, "session", "serve")}
	if err := p.serve(plugin, env); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return p, nil
}

// serve starts the session's processes.
func (p *Private) serve(plugin string, env []string) error {
	log, err := os.Create(filepath.Join(p.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Env = append(os.Environ(), "GAIDEN_SOCKET="+p.Socket, "GAIDEN_PLUGIN="+plugin,
		"XDG_STATE_HOME="+filepath.Join(p.Dir, "state"), "XDG_CACHE_HOME="+filepath.Join(p.Dir, "cache"))
	p.cmd.Env = append(p.cmd.Env, env...) // of two values the last counts
	p.cmd.Stdout, p.cmd.Stderr = log, log
	err = FirstWord(p.cmd, func(cmd *exec.Cmd) error { return StartBound(cmd, syscall.SIGTERM) })
	if err == nil {
		return nil
	}
	if p.cmd.Process != nil {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
	}
	if errors.As(err, new(*wire.Error)) {
		return err
	}
	text, _ := os.ReadFile(log.Name())
	return wire.Errorf(wire.Unavailable, "session: private: %v: %s", err, strings.TrimSpace(string(text)))
}

// Open connects to the private session, with a name space and a client name for
// lists.
func (p *Private) Open(space, client string) (*Session, error) {
	return Config{Socket: p.Socket, Space: space, Client: client, NoStart: true}.Open()
}

// Close stops the session and waits until its devices are free. The error is one of
// removing files.
func (p *Private) Close() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait() // its status is that of a process that was asked to end
	state := filepath.Join(p.Dir, "state", "gaiden")
	gone := []string{p.Dir}
	if crashes, _ := filepath.Glob(filepath.Join(state, "crashes", "*")); len(crashes) > 0 {
		gone = []string{filepath.Dir(p.Socket), filepath.Join(p.Dir, "cache"), filepath.Join(state, "snapshots")}
	}
	for _, path := range gone {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("session: private: %w", err)
		}
	}
	return nil
}
