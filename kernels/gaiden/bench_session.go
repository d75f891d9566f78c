package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"gaiden/lib/engine/device"
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
	const pattern = "bench-*"
	if old, err := filepath.Glob(filepath.Join(wire.StateDir(), pattern)); err == nil { // of benchmarks that were killed
		for _, dir := range old {
			if f, err := os.Stat(dir); err == nil && time.Since(f.ModTime()) > 24*time.Hour {
				os.RemoveAll(dir)
			}
		}
	}
	dir, err := os.MkdirTemp(wire.StateDir(), pattern)
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
	if err := startBound(p.cmd, syscall.SIGTERM); err != nil {
		return nil, err
	}
	w.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		p.stop()
		return nil, fmt.Errorf("bench: session of its own: %s %w", line, err)
	}
	return p, nil
}

// startBound starts a command that gets a signal when the benchmark ends, even if that
// is killed. The kernel sends it when the thread that started the command is gone:
// so one thread starts them all, and stays.
func startBound(cmd *exec.Cmd, end syscall.Signal) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: end}
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// starter is the thread of startBound, which does what it is sent.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

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
	meter, err := meterCosts()
	if err != nil {
		return err
	}
	firstStepOf := func(name string) func(*bench, *privateSession) error {
		return func(b *bench, p *privateSession) error { return benchFirstStep(b, p, meter, caseOf(name)) }
	}
	for _, x := range []struct {
		name string
		run  func(*bench, *privateSession) error
	}{
		{"first step, seedcnn", firstStepOf("seedcnn-b8")}, {"first step, resnet14", firstStepOf("resnet14-b32")}, {"first step, resnet152", firstStepOf("resnet152-b2048")},
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
