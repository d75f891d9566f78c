package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/session"
	"gaiden/lib/timing/stats"
)

// sources are where the session may have a program, with what brings that about.
var sources = []struct {
	subject string
	want    wire.Source
	evict   wire.AskBody
}{
	{"compiled", wire.Compiled, wire.AskBody{Verb: wire.Evict, Disk: true}},
	{"disk hit", wire.Disk, wire.AskBody{Verb: wire.Evict}},
	{"memory hit", wire.Memory, wire.AskBody{}},
}

// benchFirstStep is what the first training steps of a net cost a process, by
// where the session has its programs: the first weights, the step, and those
// around it.
func benchFirstStep(b *bench, p *session.Private, meter *session.CostMeter, c trainCase) error {
	s, err := p.Open("first", client)
	if err != nil {
		return err
	}
	cpu := s.Welcome().Platform == "cpu"
	if err := s.Close(); err != nil {
		return err
	}
	deep := c.batch > 1000
	if deep && cpu {
		// The program's size does not depend on the batch. With 2, batch norms of
		// single pixels see 2 numbers, and losses are NaN after 2 or 3 steps.
		c.name, c.batch = "resnet152-b8", 8
	}
	c.n = 2 * c.batch
	var compiled, loaded []float64 // ms, of the same programs
	for _, x := range sources {
		times := 3
		if deep && x.want == wire.Compiled {
			times = 1 // it takes long enough to be seen
		}
		var whole, made, graph []float64
		for range times {
			took, cost, err := firstStep(p, meter, c, x.evict)
			fmt.Fprintf(b.progress, "%s, %s: %v, of which the session %v\n", c.name, x.subject, took, cost.Compile)
			switch {
			case err != nil:
				return fmt.Errorf("%s, %s: %w", c.name, x.subject, err)
			case x.want == wire.Disk && cost.Compiled > 0, x.want == wire.Memory && cost.Compiled+cost.Loaded > 0:
				return fmt.Errorf("%s, %s: %d programs compiled, %d from disk, %d from memory", c.name, x.subject, cost.Compiled, cost.Loaded, cost.Ready)
			}
			whole, made, graph = append(whole, took.Seconds()*1e3), append(made, cost.Compile.Seconds()*1e3), append(graph, cost.Graph.Seconds()*1e3)
		}
		switch x.want {
		case wire.Compiled:
			compiled = made
		case wire.Disk:
			loaded = made
		}
		b.addSamples(c.name+", first two steps", x.subject, "ms", whole)
		b.addSamples(c.name+", its programs in the session", x.subject, "ms", made)
		b.addSamples(c.name+", its programs' text", x.subject, "ms", graph)
	}
	var share []float64
	for _, ms := range loaded {
		share = append(share, 100*ms/stats.Median(compiled))
	}
	b.addSamples(c.name+", its programs in the session", "disk hit, of the time to compile them", "%", share)
	return nil
}

// meterCosts is told what this process asks of sessions, from its first call on.
func meterCosts() (*session.CostMeter, error) {
	meter, err := session.NewCostMeter()
	if err != nil {
		return nil, err
	}
	set, value, _ := strings.Cut(meter.Environ(), "=")
	return meter, os.Setenv(set, value)
}

func firstStep(p *session.Private, meter *session.CostMeter, c trainCase, evict wire.AskBody) (took time.Duration, cost session.Cost, err error) {
	s, err := p.Open("first step", client)
	if err != nil {
		return 0, cost, err
	}
	defer s.Close()
	if err := evicted(s, evict); err != nil {
		return 0, cost, err
	}
	net, data, err := c.attach(s, "bench", c.config)
	if err != nil {
		return 0, cost, err
	}
	if err := s.Wait(); err != nil { // the data are there
		return 0, cost, err
	}
	meter.Take()
	began := time.Now()
	if _, err := net.Fit(data, fit.Train{Batch: c.batch, DropLast: true}); err != nil {
		return 0, cost, err
	}
	took, cost = time.Since(began), meter.Take()
	return took, cost, errors.Join(net.Reset(), untilAll(s, "is on disk", func(p wire.ProgramInfo) bool { return p.OnDisk }))
}

// evicted evicts programs, if any, when the client before this one has been
// buried.
func evicted(s *session.Session, which wire.AskBody) error {
	err := untilAll(s, "is let go", func(p wire.ProgramInfo) bool { return p.Clients == 0 })
	if err == nil && which.Verb != "" {
		_, err = s.Ask(which)
	}
	return err
}

// untilAll waits until something is so of all programs that the session has: it
// writes them, and buries clients, during other work.
func untilAll(s *session.Session, what string, so func(wire.ProgramInfo) bool) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		ans, err := s.Ask(wire.AskBody{Verb: wire.Programs})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(ans.Programs, func(p wire.ProgramInfo) bool { return !so(p) })
		if i < 0 {
			return nil
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("program %s: got a minute without it, want that it %s", ans.Programs[i].Name, what)
		}
	}
}
