package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// endLimit is how long a session may take to end: it saves its arrays, and its
// supervisor gives the worker a minute for that.
const endLimit = 75 * time.Second

// patience is how long a wait may last without a word about it.
var patience = 2 * time.Second

func stopSession(stdout io.Writer) error {
	if left, err := leaveSSH(stdout); left {
		return err
	}
	s, err := connect()
	if errors.Is(err, wire.Denied) {
		return err
	}
	if errors.As(err, new(*session.DialError)) {
		if free, _ := unlocked(); free {
			fmt.Fprintln(stdout, "no session runs")
			return nil
		}
	}
	if err == nil {
		why := "saves its arrays"
		if st, err := s.Status(); err == nil {
			why = fmt.Sprintf("saves %s of %d arrays", units.Bytes(float64(st.Bytes)), st.Arrays)
			if st.Trouble != "" && st.Arrays > 0 {
				fmt.Fprintf(stdout, "not saved until now: %s\n", st.Trouble)
			}
		}
		asked := make(chan error, 1)
		go func() {
			_, err := s.Ask(wire.AskBody{Verb: wire.Stop})
			asked <- err
		}()
		err = await(stdout, why, func() (bool, error) {
			select {
			case err := <-asked:
				return true, err
			default:
				return false, nil
			}
		})
		if err == nil || errors.Is(err, wire.Lost) {
			return ended(stdout)
		}
	}
	if free, _ := unlocked(); free { // the process that the lock names has ended, and its number may be another's
		return wire.Errorf(wire.Unavailable, "what listens at %s is not a session of this machine's gaiden: %v", wire.SocketPath(), err).
			WithHint("end that program yourself, or name another socket with GAIDEN_SOCKET")
	}
	// It does not understand us, it hangs, or its socket has been removed: end it by
	// its process number.
	pid, nerr := strconv.Atoi(supervisorPID())
	if nerr != nil {
		return err
	}
	if !holdsLock(pid) {
		return elsewhere(pid)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("session's process %d: %w", pid, err)
	}
	return ended(stdout)
}

// leaveSSH ends what gaiden session --ssh does, and says whether it did anything.
// The other machine's session continues: it may have jobs to do.
func leaveSSH(stdout io.Writer) (bool, error) {
	pid, host := sshRelay()
	if host == "" {
		return false, nil
	}
	if free, _ := unlocked(); free {
		return false, nil
	}
	if !holdsLock(pid) {
		return true, elsewhere(pid)
	}
	err := syscall.Kill(pid, syscall.SIGTERM)
	if err == nil {
		err = await(stdout, "is left", unlocked)
	}
	if err != nil {
		return true, fmt.Errorf("session of %s: process %d: %w", host, pid, err)
	}
	fmt.Fprintf(stdout, "left the session of %s, which keeps running\n", host)
	return true, nil
}

// sshRelay is the process that uses, or has used, the session of another machine
// in place of this one's, and that machine; "" if none has.
func sshRelay() (pid int, host string) {
	b, _ := wire.ReadOwn(wire.SocketPath() + ".lock")
	if n, _ := fmt.Sscanf(string(b), "%d ssh %s", &pid, &host); n != 2 {
		return 0, ""
	}
	return pid, host
}

// ended waits until the session's processes are gone.
func ended(stdout io.Writer) error {
	pid, err := strconv.Atoi(supervisorPID())
	if free, _ := unlocked(); err == nil && !free && holdsLock(pid) {
		syscall.Kill(pid, syscall.SIGCONT) // one that was stopped hears nothing else
	}
	if err := await(stdout, fmt.Sprintf("ends (process %s)", supervisorPID()), unlocked); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "session stopped")
	return nil
}

// supervisorPID is the number of the process that holds the lock, or held it last.
func supervisorPID() string {
	b, _ := wire.ReadOwn(wire.SocketPath() + ".lock")
	return strings.TrimSpace(string(b))
}

// holdsLock says whether the process of that number, or its child (a worker that has made
// the directory again), has the session's lock. A session that was started in another
// container, or on another machine, has another number here, or none.
func holdsLock(pid int) bool {
	lock, err := os.Stat(wire.SocketPath() + ".lock")
	if err != nil {
		return false
	}
	processes := []string{strconv.Itoa(pid)}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		processes = append(processes, strings.Fields(string(children))...)
	}
	for _, p := range processes {
		files, _ := filepath.Glob("/proc/" + p + "/fd/*")
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && os.SameFile(info, lock) {
				return true
			}
		}
	}
	return false
}

func elsewhere(pid int) error {
	return wire.Errorf(wire.Unavailable, "a session holds %s.lock, but not as process %d of this machine or container", wire.SocketPath(), pid).
		WithHint("gaiden session stop where it was started, or XDG_RUNTIME_DIR with another folder for a session here")
}

// unlocked says whether no supervisor lives: it holds a lock till its end.
func unlocked() (bool, error) {
	lock, err := wire.OpenOwn(wire.SocketPath()+".lock", os.O_RDONLY)
	if err != nil {
		return os.IsNotExist(err), nil
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil, nil
}

// await asks until it is done, and says what is waited for when it takes long.
func await(stdout io.Writer, why string, done func() (bool, error)) error {
	began := time.Now()
	for told := began; ; time.Sleep(10 * time.Millisecond) {
		if yes, err := done(); yes || err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(began) > endLimit {
			return wire.Errorf(wire.Unavailable, "session still %s after %v", why, endLimit).WithHint("its log is %s", device.LogPath())
		}
		if now.Sub(told) > patience {
			told = now
			fmt.Fprintf(stdout, "waiting for the session, which %s: %s\n", why, units.Clock(now.Sub(began).Seconds()))
		}
	}
}
