package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// pipe makes a pipe of which the program gets the blocking end: its reads and
// writes are plain system calls, as it expects. Our end is not blocking, so
// that reads of ours can be given a deadline.
func pipe(out bool) (ours, theirs *os.File, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	mine, their := p[0], p[1]
	if !out {
		mine, their = p[1], p[0]
	}
	if out {
		const setPipeSize, size = 1031, 1 << 20 // F_SETPIPE_SZ; where it is refused 64 KiB do
		syscall.Syscall(syscall.SYS_FCNTL, uintptr(mine), setPipeSize, size)
	}
	if err := syscall.SetNonblock(mine, true); err != nil {
		syscall.Close(p[0])
		syscall.Close(p[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(mine), "pipe"), os.NewFile(uintptr(their), "pipe"), nil
}

// A stream hands on what arrives in a pipe.
type stream struct {
	file *os.File
	sink func([]byte)
	mu   sync.Mutex // held while something is read and handed on
	buf  []byte
}

// copy reads until end of file.
func (s *stream) copy() {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	for more := true; more; {
		err := raw.Read(func(fd uintptr) bool {
			var got bool
			got, more = s.readOnce(int(fd))
			return got || !more
		})
		if err != nil {
			return
		}
	}
}

// catchUp hands on what is in the pipe now, without waiting for more.
func (s *stream) catchUp() {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		for {
			if got, more := s.readOnce(int(fd)); !got || !more {
				return
			}
		}
	})
}

// readOnce reads once. got reports whether there was something; more is false at
// end of file.
func (s *stream) readOnce(fd int) (got, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buf == nil {
		s.buf = make([]byte, 256<<10)
	}
	for {
		n, err := syscall.Read(fd, s.buf)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false, true
		case err != nil || n == 0:
			return false, false
		}
		if s.sink != nil {
			s.sink(s.buf[:n])
		}
		return true, true
	}
}
