package trial

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// desk is where programs are written and run.
type desk struct {
	s      *session.Session
	worker int // its process
	cuda   bool
}

// open connects to the session, or to the one that comes after a lost one.
func (d *desk) open() error {
	if d.s != nil {
		d.s.Close() // its error is the one that brought us here
	}
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if d.s, err = (session.Config{Client: "trial", Space: "trial"}).Open(); err != nil {
			continue
		}
		st, err := d.s.Status()
		if err == nil {
			d.worker = st.WorkerPID
		}
		return err
	}
	return err
}

// guard runs f, whose panics become errors. When the worker is lost it opens
// the session again.
func (d *desk) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if errors.Is(err, wire.Lost) || errors.Is(err, wire.Gone) {
			if again := d.open(); again != nil {
				err = fmt.Errorf("%w; and no session came back: %w", err, again)
			}
		}
	}()
	return f()
}

// limit is how long a case may take; it is given up after that.
const limit = 2 * time.Minute

// limited is guard for a case, which costs the worker when it does not end.
func (d *desk) limited(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- d.guard(f) }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		syscall.Kill(d.worker, syscall.SIGKILL)
		return fmt.Errorf("no end after %v: %w", limit, <-done)
	}
}

// program compiles what build makes of parameters of the given shapes.
func (d *desk) program(name string, precision hlo.Precision, in []shapes.Shape, build func(b *hlo.Builder, in []*Node) []*Node) (*session.Program, error) {
	p, err := tiling.Write(name, d.s.Welcome().Platform, precision, in, build)
	if err != nil {
		return nil, err
	}
	return d.s.Compile(p, session.Options{Origin: "trial"})
}

// complete adds to the inputs of a program what GoMLX has made parameters of
// without need: a reference sets the values of its variables, but each is a
// parameter as well. Any array of the shape will do.
func complete(p *session.Program, in []*session.Array) []*session.Array {
	all := in[:len(in):len(in)]
	for _, want := range p.Inputs()[len(in):] {
		for _, a := range in {
			if s, _ := a.Shape(); s.Equal(want) {
				all = append(all, a)
				break
			}
		}
	}
	return all
}
