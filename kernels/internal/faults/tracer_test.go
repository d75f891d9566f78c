package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracer follows a program and its children.
type tracer struct {
	plan
	threads map[int]int  // process of each thread
	doomed  map[int]bool // processes to kill at their next call
	root    int
	status  int
	count   int
	log     *json.Encoder
	flush   func() error
}

// trace runs a program by the plan, until it and its children have ended, and
// returns its exit status.
func trace(p plan, args []string) (int, error) {
	runtime.LockOSThread() // ptrace(2) is for the thread that started the program
	f, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return 126, err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	t := &tracer{plan: p, threads: map[int]int{}, doomed: map[int]bool{}, log: json.NewEncoder(w), flush: w.Flush}
	files := []uintptr{0, 1, 2}
	if _, err := unix.FcntlInt(3, unix.F_GETFD, 0); err == nil && isPipe(3) {
		files = append(files, 3)
	}
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: append(os.Environ(), filterVariable+"=1"), Files: files, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return 126, err
	}
	for _, fd := range files[3:] {
		unix.Close(int(fd)) // its reader sees the end when the program's end is closed
	}
	t.root, t.threads[pid] = pid, pid
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		for s := range signals {
			unix.Kill(pid, s.(syscall.Signal))
		}
	}()
	if err := t.follow(); err != nil {
		return 126, err
	}
	return t.status, t.flush()
}

func isPipe(fd int) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO
}

// follow waits for stops, and lets the threads go on, until there are none.
func (t *tracer) follow() error {
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
		unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	ready := false
	for len(t.threads) > 0 {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ECHILD {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if ws.Exited() || ws.Signaled() {
			delete(t.threads, tid)
			delete(t.doomed, tid)
			if tid == t.root {
				t.status = ws.ExitStatus()
				if ws.Signaled() {
					t.status = 128 + int(ws.Signal())
				}
			}
			continue
		}
		deliver := 0
		switch _, known := t.threads[tid]; {
		case !ready: // the first stop is the exec of the filter
			if err := unix.PtraceSetOptions(tid, options); err != nil {
				return fmt.Errorf("ptrace: %w", err)
			}
			ready = true
		case !known: // a new thread or process; its SIGSTOP is the tracer's
			t.threads[tid] = processOf(tid)
		case ws.StopSignal() == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
			t.stopped(tid)
		case ws.StopSignal() == unix.SIGTRAP && ws.TrapCause() > 0:
		case ws.StopSignal() == unix.SIGSTOP:
		default:
			deliver = int(ws.StopSignal())
		}
		if err := unix.PtraceCont(tid, deliver); err != nil && err != unix.ESRCH {
			return fmt.Errorf("ptrace: %w", err)
		}
	}
	return nil
}

// processOf is the process of a thread, which may be gone.
func processOf(tid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(n)); err == nil {
				return pid
			}
		}
	}
	return tid
}

// stopped handles a thread that is about to make a watched call.
func (t *tracer) stopped(tid int) {
	pid := t.threads[tid]
	if t.doomed[pid] {
		unix.Kill(pid, unix.SIGKILL)
		return
	}
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil {
		return
	}
	call, ok := watched[regs.Orig_rax]
	if !ok {
		return
	}
	args := [6]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9}
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", tid))
	c := Call{Program: filepath.Base(exe), Name: call.name}
	if call.file >= 0 {
		if fd := int32(args[call.file]); fd >= 0 {
			c.Path, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
		}
	} else {
		c.Path = t.path(tid, args, call.dir, call.path)
	}
	if call.to >= 0 {
		c.To = t.path(tid, args, call.to-1, call.to)
		if call.dir < 0 {
			c.To = t.path(tid, args, -1, call.to)
		}
	}
	if !t.counts(c.Program, c.Path) {
		return
	}
	if t.Effect == Short || t.Effect == Torn {
		if call.bytes < 0 || args[call.bytes] < 2 || t.Effect == Torn && !call.write {
			return
		}
	}
	t.count++
	c.Number, c.Hit = t.count, t.count == t.Hit
	t.log.Encode(c)
	if !c.Hit {
		return
	}
	t.flush()
	switch t.Effect {
	case Kill:
		unix.Kill(pid, unix.SIGKILL)
	case Halt:
		for _, p := range t.threads {
			unix.Kill(p, unix.SIGKILL)
		}
	case Short, Torn:
		half := args[call.bytes] / 2
		switch call.bytes {
		case 2:
			regs.Rdx = half
		case 3:
			regs.R10 = half
		case 4:
			regs.R8 = half
		}
		unix.PtraceSetRegs(tid, &regs)
		t.doomed[pid] = t.Effect == Torn
	default: // the number -1 is no call: what is in rax is returned
		regs.Orig_rax, regs.Rax = ^uint64(0), uint64(-int64(t.Error))
		unix.PtraceSetRegs(tid, &regs)
	}
}

// path is the absolute path in an argument of a stopped call.
func (t *tracer) path(tid int, args [6]uint64, dir, path int) string {
	text := readString(tid, uintptr(args[path]))
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	base := fmt.Sprintf("/proc/%d/cwd", tid)
	if dir >= 0 && int32(args[dir]) != unix.AT_FDCWD {
		base = fmt.Sprintf("/proc/%d/fd/%d", tid, int32(args[dir]))
	}
	where, _ := os.Readlink(base)
	return filepath.Join(where, text)
}

// readString reads a C string of a stopped thread.
func readString(tid int, at uintptr) string {
	var text []byte
	for len(text) < unix.PathMax {
		var b [256]byte
		n := len(b) - int(at%uintptr(len(b))) // not over the end of a page
		n, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: at, Len: n}}, 0)
		if err != nil || n == 0 {
			break
		}
		for i := range n {
			if b[i] == 0 {
				return string(append(text, b[:i]...))
			}
		}
		text, at = append(text, b[:n]...), at+uintptr(n)
	}
	return string(text)
}
