package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// Supervisor owns the socket and starts workers, one after the other. It has no
// device context, so a fault of the device cannot reach it.
type Supervisor struct {
	Version string
	Command []string  // runs a worker: descriptor 3 is the listener, 4 the pipe to us
	Ready   io.Writer // hears one line: "ready", or why not as JSON of wire.Error
	Log     io.Writer

	generation int
	note       string
	guard      guard
}

// ErrRunning says that another session of this user runs.
var ErrRunning = errors.New("device: a session is running already")

// job is what a supervisor tells a worker, in its environment.
type job struct {
	Generation int
	Note       string
	Plugin     Plugin
	Socket     string // see socketID
	Node       int    // of a follower's worker, whose descriptor 3 is the controller's connection, 5 the store's
	Count      int    // of nodes; 0: it is no follower's
}

const jobEnv = "GAIDEN_WORKER"

// Run serves until a client asks to stop, a signal comes, or workers die too
// fast.
func (s *Supervisor) Run() error {
	err := s.run()
	if err != nil && s.Ready != nil && !errors.Is(err, ErrRunning) {
		fmt.Fprintf(s.Ready, "%s\n", wire.JSON(asError(err)))
	}
	return err
}

func (s *Supervisor) run() error {
	path := wire.SocketPath()
	if err := wire.PrivateDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := socketPlace(path); err != nil { // before anything else is said of it
		return err
	}
	lock, err := wire.OpenOwn(path+".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrRunning
	}
	lock.Truncate(0)
	fmt.Fprintf(lock, "%d\n", os.Getpid())
	plugin, err := Find()
	if err != nil {
		return err
	}
	l, err := listen(path)
	if err != nil {
		return err
	}
	os.Remove(hostsPath()) // another session's
	s.guard = guard{path: path, pid: os.Getpid(), socket: socketID(path)}
	defer func() {
		if s.guard.holder() == os.Getpid() { // else it is another session's by now
			os.Remove(path)
			os.Remove(hostsPath())
		}
		if s.guard.lock != nil {
			s.guard.lock.Close()
		}
	}()
	return s.supervise(l, plugin)
}

// socketPlace refuses a path that cannot be a socket's: one that is too long for
// the system, and a file or folder of the user's, which would be removed.
func socketPlace(path string) error {
	const most = len(unix.RawSockaddrUnix{}.Path) - 1
	if len(path) > most {
		return wire.Errorf(wire.Invalid, "socket %s: got a path of %d bytes, want at most %d", path, len(path), most).
			WithHint("name a shorter one with GAIDEN_SOCKET, or a shorter folder with XDG_RUNTIME_DIR")
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return wire.Errorf(wire.Invalid, "socket %s: a file or folder is there that is not a socket: it is left as it is", path).
			WithHint("move it away, or name another path with GAIDEN_SOCKET")
	}
	return nil
}

// crashed is what is told of a worker that has ended with an error, whose log is saved.
func (s *Supervisor) crashed(said *words, err error) string {
	note := fmt.Sprintf("worker %d ended at %s (%v)", s.generation, time.Now().Format(time.TimeOnly), err)
	if last := said.lastLine(); last != "" {
		note += ": " + last
	}
	if path, err := said.saveCrash(CrashDir(), s.generation, err); err == nil {
		note += "; its log is " + path
	}
	return note
}

// supervise keeps a worker running. It closes l.
func (s *Supervisor) supervise(l *net.UnixListener, plugin Plugin) error {
	// A worker dies with the thread that started it: keep this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	file, err := fileOf(l)
	if err != nil {
		return err
	}
	defer func() { file.Close() }()
	var pauses backoff
	for failed := 0; ; { // so many workers one after the other
		s.generation++
		said := &words{to: s.Log}
		cmd, up, err := start(s.Command, job{Generation: s.generation, Note: s.note, Plugin: plugin, Socket: s.guard.socket}, said, file)
		if err != nil {
			return err
		}
		life, err := s.live(cmd, up, plugin, said, signals)
		if err == nil {
			return nil
		}
		if failed++; life > 0 {
			failed = 0
		} else if s.generation == 1 {
			return err
		} else if failed == 5 {
			return wire.Errorf(wire.Unavailable, "5 workers could not start, the last one: %v", err)
		} else {
			s.logf("worker %d could not start: %v", s.generation, err)
		}
		e, is := errors.AsType[*exec.ExitError](err)
		regroups := is && e.ExitCode() == regroupStatus
		hostLost := is && e.ExitCode() == lostStatus
		if s.note = errRegroup.Error(); !regroups {
			s.note = s.crashed(said, err)
		}
		s.logf("%s", s.note)
		switch again, err := s.regain(); {
		case errors.Is(err, ErrRunning):
			s.logf("another session has taken the socket %s: this one ends", s.guard.path)
			return nil
		case err != nil: // the next worker tries again
			s.logf("socket %s: %v", s.guard.path, err)
		case again != nil:
			file.Close()
			file = again
		}
		if regroups || hostLost { // which says nothing about this worker
			continue
		}
		pause := pauses.after(life)
		if pause > 0 {
			s.logf("the next worker starts in %v: %d have not lived for %v", pause, pauses.quick, longLife)
		}
		select {
		case <-time.After(pause):
		case sig := <-signals:
			s.logf("%v: stopping", sig)
			return nil
		}
	}
}

// live waits for the end of a worker: how long it has served, and the error, nil where it was asked
// to end.
func (s *Supervisor) live(cmd *exec.Cmd, up <-chan error, plugin Plugin, said *words, signals <-chan os.Signal) (life time.Duration, err error) {
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) { // it has ended well
			err = nil
		}
		ended <- err
	}()
	select {
	case err = <-up:
	case sig := <-signals:
		s.end(cmd, ended, sig)
		return 0, nil
	}
	if err != nil {
		<-ended
		if errors.Is(err, errDied) { // all that it said has come by now
			err = plugin.Died(said.all())
		}
		return 0, err
	}
	if s.generation == 1 && s.Ready != nil {
		fmt.Fprintln(s.Ready, "ready")
	}
	began := time.Now()
	select {
	case err = <-ended:
	case sig := <-signals:
		s.end(cmd, ended, sig)
	}
	return time.Since(began), err
}

// regain takes back the socket and the lock that the worker had made again, or makes those
// that were removed: they would be nobody's until the next worker serves, and a new client
// would start another session. It returns nil where both are in place.
func (s *Supervisor) regain() (*os.File, error) {
	if s.guard.inPlace() {
		return nil, nil
	}
	l, err := s.guard.again()
	if err != nil {
		return nil, err
	}
	return fileOf(l)
}

// fileOf is a listener as a worker is given it; l is closed.
func fileOf(l *net.UnixListener) (*os.File, error) {
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return f, nil
}

// errDied says that a worker died before it could say why.
var errDied = errors.New("worker died")

// start runs one worker, whose files are descriptors 3 and from 5 on. up hears nil when it
// serves, or why it cannot. The worker dies with the thread that calls start.
func start(command []string, j job, said *words, files ...*os.File) (cmd *exec.Cmd, up <-chan error, err error) {
	r, pipe, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("device: %w", err)
	}
	defer pipe.Close()
	cmd = exec.Command(command[0], command[1:]...)
	cmd.ExtraFiles = slices.Insert(files, 1, pipe)
	cmd.Env = append(append(os.Environ(), Allocator(j.Plugin)...), j.Plugin.Env...)
	cmd.Env = append(cmd.Env, jobEnv+"="+string(wire.JSON(j)))
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second // a child of the plugin's may hold the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("device: worker: %w", err)
	}
	ready := make(chan error, 1)
	go func() {
		defer r.Close()
		line := &wire.Error{}
		switch err := json.NewDecoder(r).Decode(line); {
		case err != nil:
			ready <- errDied
		case line.Code != "":
			ready <- line
		default:
			ready <- nil
		}
	}()
	return cmd, ready, nil
}

// end stops a worker because the supervisor has to end.
func (s *Supervisor) end(cmd *exec.Cmd, ended <-chan error, sig os.Signal) {
	s.logf("%v: stopping", sig)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Process.Signal(syscall.SIGCONT) // if it was stopped
	select {
	case <-ended:
	case <-time.After(time.Minute): // it saves its arrays
		cmd.Process.Kill()
		<-ended
	}
}

func (s *Supervisor) logf(format string, args ...any) {
	if s.Log != nil {
		fmt.Fprintf(s.Log, "%s supervisor: %s\n", time.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
	}
}

// Work is the main function of a worker process: it takes its job from the
// supervisor's environment and descriptors.
func Work(version string) error {
	if os.Getenv("GOGC") == "" {
		// A heap of a few MB is collected every few hundred steps, which costs a
		// tenth of a step; the arrays are not in it.
		debug.SetGCPercent(1000)
		debug.SetMemoryLimit(2 << 30)
	}
	pipe := os.NewFile(4, "supervisor")
	w := &Worker{Version: version, Socket: wire.SocketPath(), Log: LogPath(), Programs: filepath.Join(wire.CacheDir(), "programs"),
		State: filepath.Join(wire.StateDir(), "snapshots")}
	w.Logf = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%s worker: %s\n", time.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
	}
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return fmt.Errorf("device: a worker is started by a session, not by hand: %w", err)
	}
	os.Unsetenv(jobEnv)
	w.Generation, w.Note, w.Plugin, w.socketID = j.Generation, j.Note, j.Plugin, j.Socket
	w.Plugin.retype()
	var l net.Listener
	var controller *net.UnixConn
	var err error
	if j.Count > 0 {
		controller, err = w.beNode(j)
	} else if l, err = net.FileListener(os.NewFile(3, "listener")); err == nil {
		w.readHosts()
	}
	if err == nil {
		if tuned() {
			if err := keepLarge(); err != nil { // a container forbids it: then they are new each time
				w.Logf("large arrays: %v", err)
			}
		}
		err = w.Open()
	}
	if err != nil {
		pipe.Write(wire.JSON(asError(err)))
		pipe.Close()
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		w.stop()
	}()
	pipe.WriteString("{}\n")
	pipe.Close()
	if controller != nil {
		return w.follow(controller)
	}
	ul, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("device: worker: descriptor 3 is a %T", l)
	}
	switch err = w.Run(ul); {
	case errors.Is(err, errRegroup):
		os.Exit(regroupStatus)
	case errors.Is(err, wire.Lost):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(lostStatus)
	}
	return err
}

// CrashDir is where the last words of workers are kept.
func CrashDir() string { return filepath.Join(wire.StateDir(), "crashes") }

// LogPath is the file where a session writes what happens to it.
func LogPath() string { return filepath.Join(wire.StateDir(), "session.log") }
