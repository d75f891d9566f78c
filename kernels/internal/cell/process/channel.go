package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A Channel is a named pipe between a running program and this process, apart
// from its standard streams. Exactly one of Read and Write is set.
type Channel struct {
	Env string // environment variable that tells the program the pipe's name

	// Read reads what the program writes, and returns at end of file, which
	// comes when the program and all its children have closed the pipe. It
	// calls catchUp before it shows something: then all that the program has
	// printed before comes first.
	Read func(r io.Reader, catchUp func())

	// Write writes to the program until the program ends: then writes fail
	// and done is closed.
	Write func(w io.Writer, done <-chan struct{})
}

// An openChannel is a Channel's pipe.
type openChannel struct {
	Channel
	file *os.File
	done chan struct{}
}

// openChannels makes the named pipes. Both ends are open on our side before
// the program starts, so that its opening them never waits.
func (r *running) openChannels(env []string) ([]string, error) {
	dir, err := os.MkdirTemp(r.Temp, "pipes-")
	if err != nil {
		return nil, err
	}
	r.dir = dir
	for i, ch := range r.Channels {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			return nil, &os.PathError{Op: "mkfifo", Path: name, Err: err}
		}
		mode := os.O_RDONLY
		if ch.Write != nil {
			mode = os.O_RDWR
		}
		f, err := os.OpenFile(name, mode|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		r.channels = append(r.channels, &openChannel{ch, f, make(chan struct{})})
		if ch.Read != nil {
			r.files = append(r.files, f)
			keep, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				return nil, err
			}
			r.keep = append(r.keep, keep)
		}
		env = append(env, ch.Env+"="+name)
	}
	return env, nil
}

// start sets the channel's function to work.
func (ch *openChannel) start(r *running) {
	if ch.Write != nil {
		r.helpers.Go(func() { ch.Write(ch.file, ch.done) })
		return
	}
	r.readers.Go(func() {
		ch.Read(ch.file, func() {
			r.out.catchUp()
			r.err.catchUp()
		})
		io.Copy(io.Discard, ch.file) // a reader that gave up must not block the program
	})
}

// stop ends a Write function.
func (ch *openChannel) stop() {
	close(ch.done)
	if ch.Write != nil {
		ch.file.SetWriteDeadline(time.Now())
	}
}
