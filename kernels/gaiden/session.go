package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// sessionUsage is the help of gaiden session.
const sessionUsage = `usage: gaiden session COMMAND
  start             starts it; the first cell does so, too
  stop              saves the arrays that have names, and stops it
  status            what it is, what it has, and what it does
  reset [-disk]     clears the device; -disk: and what is saved
  --ssh USER@HOST   uses the devices of another machine
  join              offers this machine's GPUs to a session: %hosts add there
  secret FILE       writes a secret for join over a network`

// sessionMain is gaiden session.
func sessionMain(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprintln(stderr, sessionUsage)
		return errUsage
	}
	if !slices.Contains([]string{"reset", "join", "secret"}, args[0]) && strings.TrimLeft(args[0], "-") != "ssh" && !slices.Equal(args, []string{"agent", "serve"}) {
		if err := nothing("gaiden session "+args[0], args[1:], stderr); err != nil {
			return err
		}
	}
	switch args[0] {
	case "-h", "-help", "--help":
		fmt.Fprintln(stdout, sessionUsage)
		return nil
	case "start":
		return startSession(stdout)
	case "stop":
		return stopSession(stdout)
	case "status":
		return sessionStatus(stdout)
	case "reset":
		return resetSession(args[1:], stdout, stderr)
	case "--ssh", "-ssh":
		return sshMain(args[1:], stdout, stderr)
	case "join":
		return joinMain(args[1:], stdout, stderr)
	case "secret":
		return secretMain(args[1:], stdout, stderr)
	case "agent":
		return agentMain(args[1:], stdout)
	case "serve":
		return serveSession()
	case "worker":
		return device.Work(session.Version)
	case "load":
		return loadPlugin()
	}
	fmt.Fprintf(stderr, "gaiden session: no command %q: want start, stop, status, reset, join, secret or --ssh\n", args[0])
	return errUsage
}

// answerLimit is how long a session may take to answer its first word.
var answerLimit = 10 * time.Second

// connect opens a session that runs.
func connect() (*session.Session, error) {
	return session.Config{Client: "gaiden", NoStart: true, Patience: answerLimit}.Open()
}

// startSession returns when a session serves: the one that ran already, or one
// that it started in a process group of its own.
func startSession(stdout io.Writer) error {
	if s, err := connect(); err == nil {
		defer s.Close()
		fmt.Fprintf(stdout, "session runs: %s\n", s.Backend().Description())
		return nil
	} else if !errors.As(err, new(*session.DialError)) {
		return err // one is there, of another version, or it hangs
	}
	log, err := openLog(device.LogPath())
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "session", "serve")
	cmd.Stdout, cmd.Stderr = log, log
	session.Detach(cmd)
	err = session.FirstWord(cmd, (*exec.Cmd).Start)
	if errors.Is(err, io.EOF) { // another one holds the lock and may be starting
		err = awaitSession(30 * time.Second)
	}
	if err != nil {
		return err
	}
	s, err := connect()
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(stdout, "session started: %s\n", s.Backend().Description())
	return nil
}

// socketWait is how long a session that starts may have no socket yet.
var socketWait = 5 * time.Second

// awaitSession waits until a session that somebody else starts answers.
func awaitSession(limit time.Duration) error {
	began := time.Now()
	for end := began.Add(limit); ; time.Sleep(20 * time.Millisecond) {
		s, err := connect()
		if err == nil {
			s.Close()
			return nil
		}
		if free, _ := unlocked(); !free && errors.As(err, new(*session.DialError)) && time.Since(began) > socketWait {
			return wire.Errorf(wire.Unavailable, "one runs (process %s), but nobody can reach it: its socket %s has been removed", supervisorPID(), wire.SocketPath()).
				WithHint("gaiden session stop saves its arrays and ends it; the next cell starts another")
		}
		if time.Now().After(end) {
			return wire.Errorf(wire.Unavailable, "no session answers after %v: %v", limit, err).WithHint("see %s", device.LogPath())
		}
	}
}

// openLog opens a log, and puts the old one aside when it is large.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil && st.Size() > 1<<20 {
		os.Rename(path, path+".old")
	}
	return wire.OpenOwn(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
}

// serveSession is the supervisor's process.
func serveSession() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s := device.Supervisor{Version: session.Version, Command: []string{self, "session", "worker"}, Log: os.Stderr}
	if ready := os.NewFile(3, "ready"); ready != nil {
		if _, err := ready.Stat(); err == nil {
			syscall.CloseOnExec(3)
			s.Ready = ready
		}
	}
	if err = s.Run(); errors.Is(err, device.ErrRunning) {
		return nil
	}
	return err
}

func sessionStatus(stdout io.Writer) error {
	s, err := connect()
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Status()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "session     gaiden %s, protocol %d, generation %d, up %s\n", st.Version, st.Protocol, st.Generation, units.Clock(time.Since(st.Started).Seconds()))
	if st.Note != "" {
		fmt.Fprintf(stdout, "            %s\n", st.Note)
	}
	fmt.Fprintf(stdout, "processes   supervisor %d, worker %d\n", st.PID, st.WorkerPID)
	fmt.Fprintf(stdout, "plugin      %s\n            %s\n", st.Plugin, strings.ReplaceAll(strings.TrimSpace(st.PlatformVersion), "\n", "\n            "))
	for _, d := range st.Devices {
		fmt.Fprintf(stdout, "device %d    %s%s%s\n", d.ID, d.Kind, deviceHost(d), deviceMemory(d))
	}
	fmt.Fprintf(stdout, "arrays      %d, %.1f MB\nprograms    %d\n", st.Arrays, float64(st.Bytes)/1e6, st.Programs)
	fmt.Fprintf(stdout, "socket      %s\nlog         %s\n", st.Socket, st.Log)
	for _, c := range st.Clients {
		fmt.Fprintf(stdout, "client      %s\n", c)
	}
	return nil
}

// deviceHost says where a device is that is another host's.
func deviceHost(d wire.DeviceInfo) string {
	if d.Host == "" {
		return ""
	}
	return " of host " + d.Host
}

// deviceMemory is what the plugin tells about a device's memory, or nothing.
func deviceMemory(d wire.DeviceInfo) string {
	if d.InUse < 0 {
		return ""
	}
	s := fmt.Sprintf(", %.1f MB in use", float64(d.InUse)/1e6)
	if d.Peak >= 0 {
		s += fmt.Sprintf(", peak %.1f MB", float64(d.Peak)/1e6)
	}
	if d.Limit >= 0 {
		s += fmt.Sprintf(", limit %.1f GB", float64(d.Limit)/1e9)
	}
	return s
}

func resetSession(args []string, stdout, stderr io.Writer) error {
	f := newFlags("session reset", "[-disk]", stderr)
	disk := f.Bool("disk", false, "also clear what is cached on disk")
	if err := parseAll(f, args); err != nil {
		return err
	}
	s, err := connect()
	if err != nil {
		return err
	}
	defer s.Close()
	ans, err := s.Ask(wire.AskBody{Verb: wire.Reset, Disk: *disk})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d arrays and programs cleared\n", ans.Count)
	return nil
}
