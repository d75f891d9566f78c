// Package process runs the program of a cell, or a command, in a process group of its
// own, which the end of the context stops, with all that it started. Its output is read
// to the last byte. When it waits for input, the front end asks the user for it. A panic is
// returned as frames in the cells.
package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// A Command is a program to be run for a cell: the cell's own, or a shell
// command. All its output is read before Run returns; so is what it sends
// through Channels and as its result.
//
// The program runs in a process group of its own. The environment variable
// wire.CellEnv, which its descendants inherit, tells whose they are, also when they
// have left the group. A process that is to survive its cell (a session, say)
// is started without that variable and with setsid.
type Command struct {
	Path string
	Args []string // without the program's name
	Env  []string // nil = that of this process
	Dir  string   // "" = that of this process
	Mark string   // value of wire.CellEnv; "" = none is set

	Stdout, Stderr func([]byte) // given every byte, in order, from one goroutine at a time; nil = dropped

	// Input is what the program reads from its standard input, followed by
	// end of file. With Ask set, it is followed by the lines that Ask returns
	// instead: Ask is called whenever the program is found waiting for input,
	// and an error from it means end of file, but for context.Canceled: the
	// program is about to be stopped, and must not continue before it is.
	Input []byte
	Ask   func(context.Context) (string, error)
	Wants func() bool // the program has requested input without reading it; nil = it cannot

	Go       bool // a Go program: hold back the text of a panic, and return it in Exit
	Result   bool // a program that may send a result (see ResultEnv)
	Channels []Channel
	Temp     string // directory for the channels' pipes; "" = the system's

	// Linger is how long what the program left behind, in its group or with
	// its output open, may continue after it ended; then it is killed. 0 = what
	// has the output open, until the context ends; the rest as it likes.
	Linger time.Duration

	// Started is called when the program runs; nil = nobody waits for that.
	Started func(pid int)

	// Stopping is called before a program is interrupted, unless it ends before;
	// nil = nothing is to be done. ended is closed when the program has ended.
	Stopping func(ended <-chan struct{})
}

// grace is how long a program may take to obey an interrupt: one that does not is gone, and
// all is tidied up behind it, within two seconds.
const grace = 1500 * time.Millisecond

// An Exit says how a program ended.
type Exit struct {
	PID         int            // its process number, and that of its group
	Code        int            // exit status; -1 when a signal ended it
	Signal      syscall.Signal // that signal
	Interrupted bool           // the context ended first
	Panic       *Panic         // the Go program died of a panic or a fatal error
	Result      map[string][]byte
	Left        []string // processes that it left behind and that were killed: "1234 sleep"
	Start, Run  time.Duration
}

// A DirectoryError reports a working directory that is no longer one.
type DirectoryError struct{ Err error }

func (e *DirectoryError) Error() string { return "cell: the working directory: " + e.Err.Error() }
func (e *DirectoryError) Unwrap() error { return e.Err }

func (e *DirectoryError) Hint() string {
	return "%cd DIRECTORY changes to one that is there, %cd - back"
}

// Run starts the program and waits for its end. When ctx ends, the program's
// group is interrupted, and killed after grace; whatever is left then is killed
// as well. The error says why the program could not be started.
func (c *Command) Run(ctx context.Context) (Exit, error) {
	r := &running{Command: c, ended: make(chan struct{})}
	defer r.close()
	if err := r.prepare(); err != nil {
		return Exit{Code: -1}, fmt.Errorf("cell: run %s: %w", c.Path, err)
	}
	began := time.Now()
	if err := r.start(); err != nil {
		if _, e := os.Stat(r.cmd.Dir); r.cmd.Dir != "" && e != nil { // what exec says is of the program
			return Exit{Code: -1}, &DirectoryError{e}
		}
		return Exit{Code: -1}, fmt.Errorf("cell: run %s: %w", c.Path, err)
	}
	var exit Exit
	exit.Start, exit.PID = time.Since(began), r.cmd.Process.Pid
	r.read(&exit)
	if c.Started != nil {
		c.Started(exit.PID)
	}
	if c.Ask != nil {
		ask, stop := context.WithCancel(ctx)
		defer stop()
		r.helpers.Go(func() { r.watchStdin(ask) })
		r.stopAsking = stop
	}
	exit.Interrupted = r.wait(ctx)
	exit.Left = r.drain(ctx, &exit)
	exit.Run = time.Since(began) - exit.Start
	exit.Code = r.cmd.ProcessState.ExitCode()
	if ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Signal = ws.Signal()
	}
	if r.filter != nil {
		exit.Panic = r.filter.finish(exit.Code != 0)
	}
	return exit, nil
}

// running is a Command on its way.
type running struct {
	*Command
	cmd        *exec.Cmd
	files      []*os.File // ours, closed at the end
	theirs     []*os.File // the program's, closed once it has them
	keep       []*os.File // ends of ours that hold off end of file while the program lives
	out, err   *stream
	result     *os.File
	stdin      *os.File
	filter     *panicFilter
	channels   []*openChannel
	dir        string         // of the named pipes
	readers    sync.WaitGroup // of what ends with end of file
	helpers    sync.WaitGroup // of what ends with the program
	ended      chan struct{}  // closed when the program has ended
	stopAsking func()
}

func (r *running) prepare() (err error) {
	r.cmd = exec.Command(r.Path, r.Args...)
	r.cmd.Dir = r.Dir
	env := r.Env
	if env == nil {
		env = os.Environ()
	}
	env = slices.Clone(env)
	if r.Mark != "" {
		env = append(env, wire.CellEnv+"="+r.Mark)
	}
	// The program must not survive this process, even if that is killed.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	give := func(f *os.File) *os.File { r.theirs = append(r.theirs, f); return f }
	ours, their, err := pipe(true)
	if err != nil {
		return err
	}
	r.out = &stream{file: ours, sink: r.Stdout}
	r.cmd.Stdout = give(their)
	if ours, their, err = pipe(true); err != nil {
		return err
	}
	r.err = &stream{file: ours, sink: r.Stderr}
	if r.Go {
		r.filter = &panicFilter{pass: r.Stderr}
		r.err.sink = r.filter.write
	}
	r.cmd.Stderr = give(their)
	r.files = append(r.files, r.out.file, r.err.file)
	if r.Result {
		if r.result, their, err = pipe(true); err != nil {
			return err
		}
		r.files = append(r.files, r.result)
		r.cmd.ExtraFiles = []*os.File{give(their)}
		env = append(env, ResultEnv+"=3")
	}
	if r.Ask != nil || len(r.Input) > 0 {
		if r.stdin, their, err = pipe(false); err != nil {
			return err
		}
		r.files = append(r.files, r.stdin)
		r.cmd.Stdin = give(their)
	}
	if len(r.Channels) > 0 {
		if env, err = r.openChannels(env); err != nil {
			return err
		}
	}
	r.cmd.Env = env
	return nil
}

// start starts the program and a goroutine that waits for it. The kernel sends
// the parent-death signal when the thread that forked ends, not the process:
// so one thread does both and lives as long as the program.
func (r *running) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		if err == nil {
			r.yieldMemory()
		}
		started <- err
		if err == nil {
			r.cmd.Wait()
			close(r.ended)
		}
	}()
	err := <-started
	for _, f := range r.theirs {
		f.Close()
	}
	r.theirs = nil
	return err
}

// yieldMemory makes the program the one that the system kills when memory runs
// out: a cell is run again in a second, a session's arrays and Jupyter are not.
func (r *running) yieldMemory() {
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", r.cmd.Process.Pid), []byte("500"), 0) // where this cannot be, the system chooses
}

// read begins to read everything that the program writes.
func (r *running) read(exit *Exit) {
	r.readers.Go(r.out.copy)
	r.readers.Go(r.err.copy)
	if r.result != nil {
		r.readers.Go(func() {
			exit.Result, _ = ReadResult(r.result) // a torn result is of a program that died; its error says so
			io.Copy(io.Discard, r.result)
		})
	}
	if len(r.Input) > 0 {
		r.helpers.Go(func() {
			r.stdin.Write(r.Input)
			if r.Ask == nil {
				r.stdin.Close()
			}
		})
	}
	for _, ch := range r.channels {
		ch.start(r)
	}
}

// wait returns when the program has ended, by itself or because ctx did.
func (r *running) wait(ctx context.Context) (interrupted bool) {
	select {
	case <-r.ended:
		return false
	case <-ctx.Done():
	}
	if r.Stopping != nil {
		r.Stopping(r.ended)
	}
	pid := r.cmd.Process.Pid
	syscall.Kill(-pid, syscall.SIGINT)
	select {
	case <-r.ended:
	case <-time.After(grace):
		syscall.Kill(-pid, syscall.SIGKILL)
		<-r.ended
	}
	r.killLeft()
	return true
}

// drain waits until everything has been read. Descendants that hold the output
// open after the program's end, or are still in its group, are killed when their
// time is over.
func (r *running) drain(ctx context.Context, exit *Exit) (left []string) {
	if r.stopAsking != nil {
		r.stopAsking()
	}
	for _, f := range r.keep {
		f.Close()
	}
	if r.stdin != nil {
		r.stdin.Close()
	}
	done := make(chan struct{})
	go func() { r.readers.Wait(); close(done) }()
	var late <-chan time.Time
	if r.Linger > 0 {
		late = time.After(r.Linger)
	}
	select {
	case <-done:
		switch {
		case r.Linger == 0 || r.alone(ctx, late):
		case ctx.Err() != nil:
			exit.Interrupted = true
			left = r.killLeft()
		default:
			left = r.killGroup() // what has left the group and holds no output is to live
		}
	case <-late:
		left = r.killLeft()
	case <-ctx.Done():
		exit.Interrupted = true
		left = r.killLeft()
	}
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		// Somebody out of reach (another user's process) holds the pipes.
		for _, f := range r.files {
			f.SetReadDeadline(time.Now())
		}
		<-done
	}
	for _, ch := range r.channels {
		ch.stop()
	}
	r.helpers.Wait()
	return left
}

// alone waits until nobody is left in the program's group, and returns false if
// the time or ctx ends first.
func (r *running) alone(ctx context.Context, late <-chan time.Time) bool {
	for len(r.group()) > 0 {
		select {
		case <-late:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true
}

// group lists what the program has left in its group, as "1234 sleep".
func (r *running) group() (left []string) {
	pid := r.cmd.Process.Pid
	if syscall.Kill(-pid, 0) != nil {
		return nil // as after nearly every cell: no need to look at all processes
	}
	for _, p := range sysinfo.Processes() {
		if p.Group == pid && p.PID != pid && p.State != 'Z' {
			left = append(left, fmt.Sprintf("%d %s", p.PID, p.Name))
		}
	}
	return left
}

// killGroup kills the rest of the program's group.
func (r *running) killGroup() []string {
	left := r.group()
	syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	return left
}

// killLeft kills the rest of the program's group and everything that bears its mark.
func (r *running) killLeft() []string {
	left := r.killGroup()
	for _, p := range KillMarked(r.Mark) {
		if !slices.Contains(left, p) {
			left = append(left, p)
		}
	}
	return left
}

// close gives everything back. It is safe after a failed start.
func (r *running) close() {
	for _, f := range slices.Concat(r.files, r.theirs, r.keep) {
		f.Close()
	}
	for _, ch := range r.channels {
		ch.file.Close()
	}
	if r.dir != "" {
		os.RemoveAll(r.dir)
	}
}

// String describes how the program ended, as a shell would say it.
func (e Exit) String() string {
	switch {
	case e.Interrupted:
		return "interrupted"
	case e.Signal != 0:
		return "signal: " + e.Signal.String()
	case e.Code != 0:
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return "done"
}
