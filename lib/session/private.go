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

// Private is a session of this process's own, beside the user's: for work that may cost a
// worker, or leave it slower than it was. Its files are in a folder that goes when it
// does, but for what is known of a worker that crashed: errors say where that is.
type Private struct {
	Dir    string // its state and cache are in it, but for a cache that it was given
	Socket string

	cmd *exec.Cmd
}

// forgotten is how old a folder is of which no process is left that would remove it.
const forgotten = 24 * time.Hour

// StartPrivate starts one with the XLA plugin of a file, as the program bin, which is
// gaiden, and returns when it serves. Its environment is this process's with env, whose
// XDG_CACHE_HOME, if there is one, is where it keeps programs. It ends with Close, or with
// this process, even where that is killed. Where it does not come to serve, its error is
// wire.Unavailable.
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

// Open is a connection to it.
func (p *Private) Open(space, client string) (*Session, error) {
	return Config{Socket: p.Socket, Space: space, Client: client, NoStart: true}.Open()
}

// Close ends it. When it returns, its devices are free.
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
