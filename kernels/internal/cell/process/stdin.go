package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// watchStdin asks for a line whenever the program waits for one. There is no
// call that tells the writer of a pipe that its reader waits: so the system is
// asked what the program's threads are doing, ten to a hundred times a second.
func (r *running) watchStdin(ctx context.Context) {
	inode := pipeInode(r.stdin)
	pause := 5 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(pause*5/4, 100*time.Millisecond)
		if r.Wants == nil || !r.Wants() {
			if queued(r.stdin) > 0 || !waits(r.cmd.Process.Pid, inode) {
				continue
			}
		}
		r.out.catchUp() // the program's own prompt stands above ours
		r.err.catchUp()
		line, err := r.Ask(ctx)
		if ctx.Err() != nil || errors.Is(err, context.Canceled) { // whoever stops the program may have told Ask before ctx
			return
		}
		if err != nil {
			r.stdin.Close()
			return
		}
		if _, err := r.stdin.Write([]byte(line + "\n")); err != nil {
			return
		}
		pause = 5 * time.Millisecond
	}
}

// pipeInode returns the name that the system gives the pipe.
func pipeInode(f *os.File) string {
	var st syscall.Stat_t
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &st) })
	}
	if err != nil {
		return ""
	}
	return fmt.Sprintf("pipe:[%d]", st.Ino)
}

// queued returns how many bytes of the pipe have not been read.
func queued(f *os.File) int {
	var n int32
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	const bytesQueued = 0x541B // FIONREAD
	raw.Control(func(fd uintptr) {
		syscall.Syscall(syscall.SYS_IOCTL, fd, bytesQueued, uintptr(unsafe.Pointer(&n)))
	})
	return int(n)
}

// waits reports whether the process, or one below it, waits in a read of the
// pipe as its standard input.
func waits(pid int, inode string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	tasks, err := os.ReadDir(proc + "/task")
	if err != nil {
		return false
	}
	link, err := os.Readlink(proc + "/fd/0")
	reads := err == nil && link == inode
	for _, t := range tasks {
		task := proc + "/task/" + t.Name()
		if reads && taskReads(task) {
			return true
		}
		children, _ := os.ReadFile(task + "/children")
		for _, c := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(c); err == nil && waits(n, inode) {
				return true
			}
		}
	}
	return false
}

// taskReads reports whether a thread is blocked in read(0, …).
func taskReads(task string) bool {
	data, err := os.ReadFile(task + "/syscall")
	if err == nil {
		f := strings.Fields(string(data)) // "0 0x0 0xc000012345 …", or "running"
		return len(f) > 1 && f[0] == strconv.Itoa(syscall.SYS_READ) && f[1] == "0x0"
	}
	// Some containers forbid that file; this one tells less, but enough.
	data, err = os.ReadFile(task + "/wchan")
	return err == nil && slices.ContainsFunc([]string{"pipe_read", "pipe_wait"}, func(s string) bool {
		return bytes.Contains(data, []byte(s))
	})
}
