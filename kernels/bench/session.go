package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// startPrivate starts a session of the benchmark's own, which it may kill. Its files are on
// the disk where sessions keep theirs.
func startPrivate() (*session.Private, error) {
	gaiden, err := session.Binary()
	if err != nil {
		return nil, err
	}
	plugin, err := device.Find()
	if err != nil {
		return nil, err
	}
	return session.StartPrivate(gaiden, plugin.Path)
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

// inPrivateEach measures each case that -only names in a session of its own, so that first calls
// are first and peaks of memory are the case's.
func inPrivateEach[C any](b *bench, cases []C, nameOf func(C) string, measure func(*session.Session, C) error) error {
	for _, c := range cases {
		name := nameOf(c)
		if !b.wants(name) {
			continue
		}
		fmt.Fprintf(b.progress, "bench %s: %s\n", b.name, name)
		if err := inPrivate(func(_ *session.Private, s *session.Session) error { return measure(s, c) }); err != nil {
			return fmt.Errorf("%s: %s: %w", b.name, name, err)
		}
	}
	return nil
}

// eachNet is inPrivateEach for nets to be trained.
func (b *bench) eachNet(cases []trainCase, measure func(*session.Session, trainCase) error) error {
	return inPrivateEach(b, cases, func(c trainCase) string { return c.name }, measure)
}

// client is what the benchmark's connections are called in lists.
const client = "bench"

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
		{"wait", benchWait}, {"recovery", benchRecovery},
	} {
		if !b.wants(x.name) {
			continue
		}
		if err := x.run(b, p); err != nil {
			return fmt.Errorf("session: %s: %w", x.name, err)
		}
	}
	return nil
}

// benchRecovery is the time from the death of the worker to a client that has its
// arrays of 129 MB again.
func benchRecovery(b *bench, p *session.Private) error {
	s, err := p.Open("recovery", client)
	if err != nil {
		return err
	}
	names, err := stateArrays(s)
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

// stateArrays puts 30 small arrays and one of 128 MB under names.
func stateArrays(s *session.Session) (names []string, err error) {
	var l []*session.Array
	for i := range 31 {
		n := 10_000
		if i == 0 {
			n = 32 << 20
		}
		a, err := s.Put(make([]float32, n), shapes.Make(dtypes.Float32, n), 0)
		if err != nil {
			return nil, err
		}
		names, l = append(names, fmt.Sprint("array", i)), append(l, a)
	}
	return names, s.Bind(names, l)
}
