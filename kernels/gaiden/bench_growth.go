package main

import (
	"context"
	"fmt"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/session"
	"gaiden/lib/timing/stats"
)

// benchGrowth is what training costs as work grows: time a sample over the size
// of a batch, and time an epoch over the number of examples.
func benchGrowth(b *bench) error {
	s, err := session.Config{Client: "gaiden bench", Space: "bench"}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	cpu := s.Welcome().Platform == "cpu"
	for _, name := range []string{"seedcnn-b8", "mlp-b100", "lenet5-b100", "kerascnn-b128"} {
		c := caseOf(name)
		if !b.wants(name) {
			continue
		}
		for _, batch := range []int{1, 4, 16, 64, 256, 1024, 4096} {
			g := c
			g.batch, g.n = batch, min(60000, max(8192, 64*batch))
			if cpu {
				g.n = max(2*batch, min(512, 64*batch)) // a sample takes a hundred times as long
			}
			g.n -= g.n % batch
			times, err := g.growth(s)
			if err != nil {
				return fmt.Errorf("bench growth: %s, batch %d: %w", name, batch, err)
			}
			for i := range times {
				times[i] *= 1e6 / float64(g.n)
			}
			b.addSamples(fmt.Sprintf("%s, batch %d", c.model.Name, batch), "gaiden epoch", "µs a sample", times)
		}
		last := 0.0 // s an epoch of an example
		for _, n := range []int{1000, 2000, 5000, 10000, 20000, 60000} {
			g := c
			g.n = n
			if last*float64(n) > growthLimit {
				fmt.Fprintf(b.progress, "bench growth: %s: %d examples would take %.0f s an epoch: left out\n", name, n, last*float64(n))
				continue
			}
			times, err := g.growth(s)
			if err != nil {
				return fmt.Errorf("bench growth: %s, %d examples: %w", name, n, err)
			}
			last = stats.Median(times) / float64(n)
			for i := range times {
				times[i] *= 1e3
			}
			b.addSamples(fmt.Sprintf("%s b%d, %d examples", c.model.Name, c.batch, n), "gaiden epoch", "ms an epoch", times)
		}
	}
	return nil
}

// growthLimit is how long an epoch may take, in seconds, to be measured.
const growthLimit = 10

// growth trains the case: seconds an epoch.
func (c trainCase) growth(s *session.Session) ([]float64, error) {
	net, data, err := c.attach(s, "bench", c.config)
	if err != nil {
		return nil, err
	}
	defer net.Reset()
	var times []float64
	for i := range trainSamples + 2 {
		began := time.Now()
		if _, err := net.Train(context.Background(), data, fit.Train{Batch: c.batch, DropLast: true}); err != nil {
			return nil, err
		}
		if i > 1 { // compiled, and the pace found
			times = append(times, time.Since(began).Seconds())
		}
	}
	_, err = s.Delete("data/*")
	return times, err
}
