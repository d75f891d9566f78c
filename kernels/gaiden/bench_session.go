package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// privateSession is a session of the benchmark's own, which it may kill.
type privateSession struct {
	cmd    *exec.Cmd
	dir    string
	socket string
}

// startPrivate starts one whose files are on the disk where sessions keep
// theirs.
func startPrivate() (*privateSession, error) {
	if err := os.MkdirAll(wire.StateDir(), 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(wire.StateDir(), "bench-*")
	if err != nil {
		return nil, err
	}
	p := &privateSession{dir: dir, socket: filepath.Join(dir, "run", "s.sock")}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	plugin, err := device.Find() // the private cache has none
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(self, "session", "serve")
	p.cmd.Env = append(os.Environ(), "GAIDEN_SOCKET="+p.socket, "XDG_STATE_HOME="+dir+"/state", "XDG_CACHE_HOME="+dir+"/cache", "GAIDEN_PLUGIN="+plugin.Path)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = log, log, []*os.File{w}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		p.stop()
		return nil, fmt.Errorf("bench: session of its own: %s %w", line, err)
	}
	return p, nil
}

func (p *privateSession) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
	os.RemoveAll(p.dir)
}

func (p *privateSession) open(space string) (*session.Session, error) {
	return session.Config{Socket: p.socket, Space: space, Client: "gaiden bench", NoStart: true}.Open()
}

func benchSession(b *bench) error {
	p, err := startPrivate()
	if err != nil {
		return err
	}
	defer p.stop()
	for _, x := range []struct {
		name string
		run  func(*bench, *privateSession) error
	}{
		{"first call", benchFirstCall}, {"snapshot", benchSnapshot}, {"training during snapshots", benchDisturbance},
		{"wait", benchWait}, {"clients", benchClients}, {"recovery", benchRecovery},
	} {
		if !b.wants(x.name) {
			continue
		}
		if err := x.run(b, p); err != nil {
			return fmt.Errorf("bench session: %s: %w", x.name, err)
		}
	}
	return nil
}

// convStep is a training step of a small convolutional net, as program text.
func convStep(s *session.Session) (*hlo.Program, []shapes.Shape, error) {
	g := NewGraph(s.Backend(), "conv step")
	f := func(d ...int) shapes.Shape { return shapes.Make(dtypes.Float32, d...) }
	in := []shapes.Shape{f(3, 3, 1, 10), f(13*13*10, 100), f(100, 10), f(8, 28, 28, 1), f(8, 10)}
	var p []*Node
	for i, x := range in {
		p = append(p, Parameter(g, fmt.Sprint("p", i), x))
	}
	x := MaxPool(Max(Convolve(p[3], p[0]).NoPadding().Done(), ScalarZero(g, dtypes.Float32))).Window(2).Done()
	x = Max(MatMul(Reshape(x, 8, 13*13*10), p[1]), ScalarZero(g, dtypes.Float32))
	d := Sub(MatMul(x, p[2]), p[4])
	loss := ReduceAllMean(Mul(d, d))
	var out []*Node
	for i, grad := range Gradient(loss, p[:3]...) {
		out = append(out, Sub(p[i], MulScalar(grad, 0.01)))
	}
	if err := g.Compile(append(out, loss)...); err != nil {
		return nil, nil, err
	}
	return g.Executable().(*session.Executable).Program(), in, nil
}

// benchFirstCall is what a cell's first call of a program costs, by where the
// session has it.
func benchFirstCall(b *bench, p *privateSession) error {
	for _, x := range []struct {
		subject string
		want    wire.Source
		evict   wire.AskBody
	}{
		{"compiled", wire.Compiled, wire.AskBody{Verb: wire.Evict, Disk: true}},
		{"disk hit", wire.Disk, wire.AskBody{Verb: wire.Evict}},
		{"memory hit", wire.Memory, wire.AskBody{Verb: wire.Evict, Names: []string{"none"}}},
	} {
		var whole, made []float64
		for range 7 {
			w, m, err := firstCall(p, x.evict, x.want)
			if err != nil {
				return err
			}
			whole, made = append(whole, w.Seconds()*1e3), append(made, m.Seconds()*1e3)
		}
		b.addSamples("first call", x.subject, "ms", whole)
		b.addSamples("first call, in the session", x.subject, "ms", made)
	}
	return nil
}

func firstCall(p *privateSession, evict wire.AskBody, want wire.Source) (whole, made time.Duration, err error) {
	s, err := p.open("first")
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	for range 500 { // the client before this one is being buried
		ans, err := s.Ask(wire.AskBody{Verb: wire.Programs})
		if err != nil {
			return 0, 0, err
		}
		if !slices.ContainsFunc(ans.Programs, func(p wire.ProgramInfo) bool { return p.Clients > 0 }) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := s.Ask(evict); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	h, in, err := convStep(s)
	if err != nil {
		return 0, 0, err
	}
	x, err := s.Compile(h, session.Options{})
	if err != nil {
		return 0, 0, err
	}
	var args []*session.Array
	for _, shape := range in {
		a, err := s.Put(make([]float32, shape.Size()), shape, 0)
		if err != nil {
			return 0, 0, err
		}
		args = append(args, a)
	}
	out, err := x.Run(session.Call{Inputs: args})
	if err != nil {
		return 0, 0, err
	}
	if err := out[3].Values(make([]float32, 1)); err != nil {
		return 0, 0, err
	}
	whole = time.Since(began)
	if x.From != want {
		return 0, 0, fmt.Errorf("the program is a %s, want a %s", x.From, want)
	}
	for range 500 { // it is written beside other work
		ans, err := s.Ask(wire.AskBody{Verb: wire.Programs})
		if err != nil || len(ans.Programs) > 0 && ans.Programs[0].OnDisk {
			return whole, x.Took, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return whole, x.Took, errors.New("the program has not come to the disk in 5 s")
}

// benchClients is the rate of small steps of 1 and of 64 clients together.
func benchClients(b *bench, p *privateSession) error {
	for _, n := range []int{1, 64} {
		var samples []float64
		for range 3 {
			var all sync.WaitGroup
			errs := make([]error, n)
			steps := 19200 / n
			began := time.Now()
			for i := range n {
				all.Go(func() { errs[i] = oneClient(p, i, steps) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			samples = append(samples, float64(n*steps)/time.Since(began).Seconds())
		}
		b.addSamples("clients", fmt.Sprintf("%d clients, 31 arrays", n), "steps/s", samples)
	}
	return nil
}

func oneClient(p *privateSession, i, steps int) error {
	s, err := p.open(fmt.Sprint("client", i))
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := socketSteps(s, 31)
	if err != nil {
		return err
	}
	for range steps {
		if err := st.step(); err != nil {
			return err
		}
	}
	return errors.Join(st.await(), st.close())
}

// benchRecovery is the time from the death of the worker to a client that has its
// arrays of 129 MB again.
func benchRecovery(b *bench, p *privateSession) error {
	s, err := p.open("recovery")
	if err != nil {
		return err
	}
	_, names, _, err := stateArrays(s)
	if err != nil {
		return err
	}
	if _, err := s.Snapshot(""); err != nil {
		return err
	}
	var samples []float64
	for range 5 {
		st, err := s.Status()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := syscall.Kill(st.WorkerPID, syscall.SIGKILL); err != nil {
			return err
		}
		s.Wait() // its error is the end of the worker
		s.Close()
		for {
			if s, err = p.open("recovery"); err == nil {
				_, err = s.Arrays(names...)
			}
			if err == nil {
				break
			}
			if time.Since(began) > time.Minute {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		samples = append(samples, time.Since(began).Seconds()*1e3)
	}
	b.addSamples("recovery", "worker killed, 129 MB back", "ms", samples)
	return s.Close()
}
