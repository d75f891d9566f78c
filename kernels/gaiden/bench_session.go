package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// startPrivate starts a session of the benchmark's own, which it may kill. Its files are on
// the disk where sessions keep theirs.
func startPrivate() (*session.Private, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	plugin, err := device.Find()
	if err != nil {
		return nil, err
	}
	return session.StartPrivate(self, plugin.Path)
}

// inPrivate works in such a session, which ends with that.
func inPrivate(work func(*session.Private, *session.Session) error) error {
	p, err := startPrivate()
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.Open("bench", client)
	if err != nil {
		return err
	}
	defer s.Close()
	return work(p, s)
}

// client is what the benchmark's connections are called in lists.
const client = "gaiden bench"

func benchSession(b *bench) error {
	p, err := startPrivate()
	if err != nil {
		return err
	}
	defer p.Close()
	meter, err := meterCosts()
	if err != nil {
		return err
	}
	firstStepOf := func(name string) func(*bench, *session.Private) error {
		return func(b *bench, p *session.Private) error { return benchFirstStep(b, p, meter, caseOf(name)) }
	}
	for _, x := range []struct {
		name string
		run  func(*bench, *session.Private) error
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
func benchClients(b *bench, p *session.Private) error {
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

func oneClient(p *session.Private, i, steps int) error {
	s, err := p.Open(fmt.Sprint("client", i), client)
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
func benchRecovery(b *bench, p *session.Private) error {
	s, err := p.Open("recovery", client)
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
			if s, err = p.Open("recovery", client); err == nil {
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
