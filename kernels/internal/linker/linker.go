package linker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Job is what a link is made of.
type Job struct {
	Config string   // import configuration of the linker; Link refuses when it has changed
	Object string   // main's object file, which is read when Link is called
	Dir    string   // where the linker runs
	Env    []string // with the settings of Go that the packages were compiled with; nil = that of this process

	// Packages are those that the program imports. Prepare loads them ahead,
	// with all that they import. What else the program imports is loaded
	// when it is there, and what it does not import is not in it.
	Packages []string
}

// A Linker keeps a process at hand that has loaded packages. The zero Linker, and
// nil, have none, and link nothing. Methods may be called at the same time.
type Linker struct {
	Program string        // made by Make
	Idle    time.Duration // how long a process may wait, with a heap of 64 MB; 0 = 5 minutes

	mu    sync.Mutex
	ready *process
	done  bool // Close was called
}

// A process is a linker that waits.
type process struct {
	job    Job
	stamp  string // of the configuration
	cmd    *exec.Cmd
	ask    io.WriteCloser
	loaded atomic.Bool // the packages

	written     chan struct{} // closed when the program is complete: to end takes the process a while longer
	writtenOnce sync.Once
	ended       chan struct{}
	late        *time.Timer
}

// Prepare starts a process that loads the job's packages, unless there is one
// that has. Without it, Link links nothing.
func (l *Linker) Prepare(job Job) {
	if l == nil || l.Program == "" || len(job.Packages) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return
	}
	if l.ready != nil {
		if l.ready.covers(job) {
			return
		}
		l.ready.stop()
		l.ready = nil
	}
	p := &process{job: job, stamp: stamp(job.Config), written: make(chan struct{}), ended: make(chan struct{})}
	// It ends when its input does: with this process, however that ends.
	p.cmd = exec.Command(l.Program, "-importcfg", job.Config, "-s", "-w", "-buildmode=exe", "-o", os.DevNull, job.Object)
	p.cmd.Dir, p.cmd.Env = job.Dir, job.Env
	p.cmd.Env = append(p.cmd.Environ(), "GAIDEN_LINK_PACKAGES="+strings.Join(job.Packages, ","),
		"GAIDEN_LINK_REACHED="+job.Object+".reached", "GAIDEN_LINK_STAMP="+p.stamp)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout = p
	ask, err := p.cmd.StdinPipe()
	if err != nil || p.cmd.Start() != nil {
		return // the toolchain's linker says what is wrong with this machine
	}
	p.ask = ask
	go func() {
		p.cmd.Wait() // whether the program was written is what counts
		close(p.ended)
	}()
	idle := cmp.Or(l.Idle, 5*time.Minute)
	p.late = time.AfterFunc(idle, func() { l.drop(p) })
	l.ready = p
}

// Link links the job's object to out with the process that Prepare has started.
// It is not done where there is none, or where it was started for something else,
// or failed: then the toolchain's linker has to do it, and to say what is wrong.
// The error is that of a context that ended.
func (l *Linker) Link(ctx context.Context, job Job, out string) (done bool, err error) {
	if l == nil {
		return false, nil
	}
	l.mu.Lock()
	p := l.ready
	l.ready = nil
	l.mu.Unlock()
	if p == nil {
		return false, nil
	}
	defer func() { go p.stop() }()
	if !p.suits(job) {
		return false, nil
	}
	if !p.loaded.Load() && !includes(job.Packages, p.job.Packages) {
		return false, nil // it is at work on what this program does not need
	}
	if _, err := io.WriteString(p.ask, out+"\n"); err != nil {
		return false, nil
	}
	select {
	case <-p.written:
		return true, nil
	case <-p.ended:
	case <-ctx.Done():
		p.stop()
	}
	select {
	case <-p.written: // before it ended
		return true, nil
	default:
		os.Remove(out)
		return false, ctx.Err()
	}
}

// Write is called with what the process says, lines of its own among them: that
// it has loaded the packages, and that it has written the program.
func (p *process) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		switch string(line) {
		case "ready\n":
			p.loaded.Store(true)
		case "written\n":
			p.writtenOnce.Do(func() { close(p.written) })
		}
	}
	return len(text), nil
}

// Close ends the process that waits. No other is started after it.
func (l *Linker) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	if l.ready != nil {
		l.ready.stop()
		l.ready = nil
	}
}

// drop ends a process that nobody has wanted for long.
func (l *Linker) drop(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready == p {
		p.stop()
		l.ready = nil
	}
}

// suits reports whether the process links with the same packages and settings.
func (p *process) suits(job Job) bool {
	return p.job.Config == job.Config && p.job.Object == job.Object && p.stamp == stamp(job.Config) && slices.Equal(p.job.Env, job.Env)
}

// covers reports whether the process has loaded what the job wants loaded, and
// nothing else.
func (p *process) covers(job Job) bool {
	select {
	case <-p.ended:
		return false
	default:
	}
	if !p.suits(job) {
		return false
	}
	return len(p.job.Packages) == len(job.Packages) && includes(p.job.Packages, job.Packages)
}

// includes reports whether all has each of some.
func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(path string) bool { return !slices.Contains(all, path) })
}

// stop ends the process, and returns when it has ended.
func (p *process) stop() {
	p.late.Stop()
	select {
	case <-p.ended:
	default:
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
	p.ask.Close()
}

// stamp changes when the file does.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}
