package session

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gaiden/lib/engine/wire"
)

// DialError reports that no device session answered.
type DialError struct {
	Addr string // socket that was tried
	Err  error  // why it failed
}

func (e *DialError) Error() string {
	why := e.Err
	var op *net.OpError
	if errors.As(why, &op) {
		why = op.Err // the address is said
	}
	return fmt.Sprintf("session: no device session at %s: %v", e.Addr, why)
}

func (e *DialError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, wire.Unavailable) true.
func (e *DialError) Is(target error) bool { return target == wire.Unavailable }

func (e *DialError) Hint() string {
	return "run %session start in a cell, or gaiden session start in a terminal"
}

// start runs "gaiden session start", which returns when the session serves.
// Two at once start one.
func start() error {
	bin, err := Binary()
	if err != nil {
		return err
	}
	var stderr strings.Builder
	cmd := exec.Command(bin, "session", "start")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "gaiden: ")
		text, hint, _ := strings.Cut(text, "\n")
		text = cmp.Or(text, err.Error())
		return wire.Errorf(wire.Unavailable, "session: %s", text).WithHint("%s", strings.TrimSpace(hint))
	}
	return nil
}

// FirstWord starts the supervisor of a session with start, and returns when the
// session is ready. Otherwise it returns the error that the supervisor reports, or
// io.EOF if it exits without one.
func FirstWord(cmd *exec.Cmd, start func(*exec.Cmd) error) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = start(cmd)
	w.Close()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	said := &wire.Error{}
	switch line = strings.TrimSpace(line); {
	case line == "ready":
		return nil
	case err != nil:
		return fmt.Errorf("got %q, want that it is ready: %w", line, err)
	case json.Unmarshal([]byte(line), said) == nil && said.Code != "":
		return said
	}
	return fmt.Errorf("session did not start: %s", line)
}

// Detach configures a command that was not started yet to survive the cell and the
// terminal that start it.
func Detach(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, wire.CellEnv+"=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// Binary returns the path of the program gaiden: where gaiden install puts it, else
// in PATH. It refuses a file that other users can change, because it would run as
// this user. The error is wire.Unavailable if there is none.
func Binary() (string, error) {
	path := filepath.Join(wire.DataDir(), "bin", "gaiden")
	if _, err := os.Stat(path); err == nil {
		return trusted(path)
	}
	found, err := exec.LookPath("gaiden")
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return "", wire.Errorf(wire.Unavailable, "session: program gaiden is neither at %s nor in PATH", path).
			WithHint("scripts/run installs it; or put it into PATH")
	}
	return trusted(found)
}

// trusted is the path, where only this user and root can change what is there.
func trusted(path string) (string, error) {
	if err := wire.TrustedPath(path); err != nil {
		return "", err
	}
	return path, nil
}
