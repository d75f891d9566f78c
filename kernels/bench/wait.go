package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// benchWait is how long a short program of one notebook takes while another one
// trains, next to what it takes alone.
func benchWait(b *bench, p *session.Private) error {
	short, err := p.Open("short", client)
	if err != nil {
		return err
	}
	defer short.Close()
	exec, err := graph.NewExec(short.Backend(), func(x *graph.Node) *graph.Node { return graph.AddScalar(x, 1) })
	if err != nil {
		return err
	}
	if _, err := exec.Call(make([]float32, 16)); err != nil { // compiles
		return err
	}
	// Now and then, as cells come, not one after the other.
	waits := func(subject string) error {
		var samples []float64
		for range 200 {
			time.Sleep(23 * time.Millisecond)
			began := time.Now()
			out, err := exec.Call(make([]float32, 16))
			if err != nil {
				return err
			}
			if _, err := tensors.CopyFlatData[float32](out[0]); err != nil {
				return err
			}
			samples = append(samples, time.Since(began).Seconds()*1e3)
		}
		b.addSamples("wait", subject, "ms", samples)
		b.addSamples("wait, the longest of 200", subject, "ms", []float64{slices.Max(samples)})
		return nil
	}
	if err := waits("a short program alone"); err != nil {
		return err
	}
	for _, name := range []string{"mlp-b100", "seedcnn-b8"} {
		if err := b.behind(p, name, func() error { return waits("behind " + name + " in training") }); err != nil {
			return err
		}
	}
	return nil
}

// behind runs f while a net trains in a space of its own.
func (b *bench) behind(p *session.Private, name string, f func() error) error {
	s, err := p.Open("training", client)
	if err != nil {
		return err
	}
	defer s.Close()
	c := caseOf(name)
	c = c.small()
	net, data, err := c.attach(s, "bench", c.config)
	if err != nil {
		return err
	}
	if _, err := net.Fit(data, fit.Train{Batch: c.batch}); err != nil { // compiles, and finds the pace
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := net.WithContext(ctx).Fit(data, fit.Train{Epochs: 1 << 20, Batch: c.batch})
		ended <- err
	}()
	err = f()
	stop()
	if end := <-ended; !errors.Is(end, context.Canceled) {
		err = errors.Join(err, end)
	}
	return err
}
