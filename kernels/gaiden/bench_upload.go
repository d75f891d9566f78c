package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// uploadSize is MNIST's training images as float32: 60,000 × 784 × 4 bytes.
const uploadSize = 60000 * 784

func benchUpload(b *bench) error {
	s, err := session.Config{Client: "gaiden bench"}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	data := make([]float32, uploadSize)
	for i := range data {
		data[i] = float32(i % 251)
	}
	to := make([]float32, uploadSize)
	shape := shapes.Make(dtypes.Float32, uploadSize)
	var failed error
	var last *session.Array
	t := timing.Timer{Budget: 2 * b.budget}
	cases := []timing.Case{
		timing.Call("memcpy", func() { copy(to, data) }),
		timing.Call("gaiden, upload", func() {
			if last != nil {
				last.Finalize()
			}
			a, err := s.Put(data, shape, 0)
			failed = errors.Join(failed, err, s.Wait())
			last = a
		}),
		timing.Call("gaiden, download", func() { failed = errors.Join(failed, last.Values(to)) }),
	}
	if last, err = s.Put(data, shape, 0); err != nil {
		return err
	}
	for _, m := range t.Times(context.Background(), cases...) {
		if m.Err != nil {
			return m.Err
		}
		var rate []float64
		for _, x := range m.Samples {
			rate = append(rate, uploadSize*4/x/1e9)
		}
		b.addSamples("188MB", m.Name, "GB/s", rate)
	}
	for i := range to {
		if to[i] != data[i] {
			return fmt.Errorf("bench: upload: element %d is %v, want %v", i, to[i], data[i])
		}
	}
	return failed
}
