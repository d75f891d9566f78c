package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// stateArrays puts 30 small arrays and one of 128 MB under names, and returns a
// program that changes them all.
func stateArrays(s *session.Session) (x *session.Program, names []string, bytes int64, err error) {
	var l []*session.Array
	g := NewGraph(s.Backend(), "change")
	var out []*Node
	for i := range 31 {
		n := 10_000
		if i == 0 {
			n = 32 << 20
		}
		shape := shapes.Make(dtypes.Float32, n)
		a, err := s.Put(make([]float32, n), shape, 0)
		if err != nil {
			return nil, nil, 0, err
		}
		names, l, bytes = append(names, fmt.Sprint("array", i)), append(l, a), bytes+int64(4*n)
		out = append(out, AddScalar(Parameter(g, names[i], shape), 1))
	}
	if err = g.Compile(out...); err == nil {
		x, err = s.Compile(g.Executable().(*session.Executable).Program(), session.Options{})
	}
	return x, names, bytes, errors.Join(err, s.Bind(names, l))
}

// change runs the program on the named arrays and waits.
func change(s *session.Session, x *session.Program, names []string) error {
	l, err := s.Arrays(names...)
	if err != nil {
		return err
	}
	_, err = x.Run(session.Call{Inputs: l, Names: names})
	return errors.Join(err, s.Wait())
}

// benchSnapshot is the rate of snapshots and rollbacks, beside that of memory and
// of the disk.
func benchSnapshot(b *bench, p *session.Private) error {
	s, err := p.Open("snapshot", client)
	if err != nil {
		return err
	}
	defer s.Close()
	x, names, bytes, err := stateArrays(s)
	if err != nil {
		return err
	}
	from, to := make([]byte, bytes), make([]byte, bytes)
	for i := range from { // pages of zeros are not memory
		from[i], to[i] = byte(i), 1
	}
	rates := map[string][]float64{}
	note := func(subject string, began time.Time) {
		rates[subject] = append(rates[subject], float64(bytes)/time.Since(began).Seconds()/1e9)
	}
	for range 5 {
		began := time.Now()
		copy(to, from)
		note("memcpy", began)
		began = time.Now()
		if err := writeSync(filepath.Join(p.Dir, "raw"), from); err != nil {
			return err
		}
		note("disk: write, fsync", began)
		if err := change(s, x, names); err != nil {
			return err
		}
		began = time.Now()
		if _, err := s.Snapshot("bench"); err != nil {
			return err
		}
		note("gaiden, snapshot", began)
		if err := change(s, x, names); err != nil {
			return err
		}
		if _, err := s.Snapshot(""); err != nil {
			return err
		}
		began = time.Now()
		if _, err := s.Rollback("bench", ""); err != nil {
			return err
		}
		note("gaiden, rollback", began)
	}
	for _, subject := range []string{"memcpy", "disk: write, fsync", "gaiden, snapshot", "gaiden, rollback"} {
		b.addSamples("snapshot", subject, "GB/s", rates[subject])
	}
	_, err = s.Delete("*")
	return err
}

func writeSync(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(path))
}

// benchDisturbance is the step of a training with donation, and that of a net of
// 21 MB, with and without snapshots of their state all the time.
func benchDisturbance(b *bench, p *session.Private) error {
	small, err := p.Open("disturbance", client)
	if err != nil {
		return err
	}
	defer small.Close()
	if err := b.disturb(p, small, "31 small arrays", 2000, func() (func(int) error, error) { return namedSteps(small) }); err != nil {
		return err
	}
	s, err := p.Open("disturbed net", client)
	if err != nil {
		return err
	}
	defer s.Close()
	return b.disturb(p, s, "mlp-b100", 60, func() (func(int) error, error) {
		c := caseOf("mlp-b100")
		c = c.small()
		net, data, err := c.attach(s, "bench", c.config)
		return func(int) error {
			_, err := net.Train(context.Background(), data, fit.Train{Batch: c.batch})
			return err
		}, err
	})
}

// namedSteps are steps of the benchmark's program on 31 named arrays.
func namedSteps(s *session.Session) (func(int) error, error) {
	h, donate, err := addProgram(s, 31)
	if err != nil {
		return nil, err
	}
	x, err := s.Compile(h, session.Options{Donate: donate})
	if err != nil {
		return nil, err
	}
	var l []*session.Array
	var names []string
	for i := range 31 {
		a, err := s.Put(make([]float32, stateSize), stateShape(), 0)
		if err != nil {
			return nil, err
		}
		l, names = append(l, a), append(names, fmt.Sprint("a", i))
	}
	return func(n int) (err error) {
		for range n {
			if l, err = x.Run(session.Call{Inputs: l, Names: names}); err != nil {
				return err
			}
		}
		return s.Wait()
	}, s.Bind(names, l)
}

// disturb measures n steps at a time, alone and beside a client that makes one
// snapshot after the other.
func (b *bench) disturb(p *session.Private, s *session.Session, what string, n int, begin func() (func(int) error, error)) error {
	steps, err := begin()
	if err == nil {
		err = steps(n) // warms up
	}
	if err != nil {
		return err
	}
	other, err := p.Open(s.Space(), client)
	if err != nil {
		return err
	}
	defer other.Close()
	for _, subject := range []string{"alone", "with snapshots one after the other"} {
		ctx, cancel := context.WithCancel(context.Background())
		var taking sync.WaitGroup
		var took []float64
		if subject != "alone" {
			taking.Go(func() {
				for ctx.Err() == nil {
					info, err := other.Snapshot("")
					if err != nil {
						return
					}
					if info.Took > 0 { // something had changed
						took = append(took, info.Took.Seconds()*1e3)
					}
				}
			})
		}
		var samples []float64
		for range 10 {
			began := time.Now()
			if err = steps(n); err != nil {
				break
			}
			samples = append(samples, time.Since(began).Seconds()*1e6/float64(n))
		}
		cancel()
		taking.Wait()
		if err != nil {
			return err
		}
		b.addSamples("training during snapshots", what+", "+subject, "µs", samples)
		if len(took) > 0 {
			b.addSamples("snapshot during training", what, "ms", took)
		}
	}
	return nil
}
