package trial

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/session"
)

// memory fills the device until too little is left for a training step, which has to
// say so, with a batch that fits and what is largest, and leave the net as it was.
// The batch that it names has to fit, and when the memory is free again the first one.
func (d *desk) memory(t training, left int64) error {
	net, data, err := d.attach(t, "memory")
	if err != nil {
		return err
	}
	defer net.Reset()
	before, err := net.Weights()
	if err != nil {
		return err
	}
	names, err := d.fill(left)
	defer d.s.Delete(names...)
	if err != nil {
		return err
	}
	train := func(batch int) error {
		began := time.Now()
		_, err := net.Fit(data, fit.Train{Batch: batch})
		st, _ := d.s.Status()
		v := st.Devices[0]
		fmt.Printf("%s: a batch of %d: %.1f s, %.2f GB in use, %.2f at most, %.2f is the limit: %v\n", t.name, batch, time.Since(began).Seconds(), float64(v.InUse)/1e9, float64(v.Peak)/1e9, float64(v.Limit)/1e9, err)
		return err
	}
	var small *result.MemoryError
	if err := train(t.batch); !errors.As(err, &small) {
		return fmt.Errorf("got %v, want a MemoryError", err)
	}
	fmt.Printf("%s: its hint: %s\n", t.name, small.Hint())
	after, err := net.Weights()
	if err != nil {
		return err
	}
	for i, w := range after {
		if !slices.Equal(w.Data, before[i].Data) {
			return fmt.Errorf("weights %s are others after it", w.Name)
		}
	}
	if small.Fits < 1 {
		return fmt.Errorf("got no batch that fits next to %d bytes", small.Free)
	}
	if err := train(small.Fits); err != nil {
		return err
	}
	if _, err := d.s.Delete(names...); err != nil {
		return err
	}
	return train(t.batch)
}

// fill takes the device's memory but for so many bytes, under the names it returns.
func (d *desk) fill(left int64) (names []string, err error) {
	const each = 1 << 30 // bytes
	p, err := d.program("fill", hlo.DefaultPrecision, []shapes.Shape{f32()}, func(_ *hlo.Builder, in []*Node) []*Node {
		return []*Node{BroadcastToDims(in[0], each/4)}
	})
	if err != nil {
		return nil, err
	}
	one, err := d.s.Put([]float32{1}, f32(), 0)
	if err != nil {
		return nil, err
	}
	for {
		st, err := d.s.Status()
		if err != nil {
			return names, err
		}
		if v := st.Devices[0]; v.Limit < 1 {
			return names, errors.New("this device tells no limit of its memory")
		} else if v.Limit-v.InUse < left+each {
			return names, nil
		}
		out, err := p.Run(session.Call{Inputs: []*session.Array{one}})
		if err != nil {
			return names, err
		}
		name := fmt.Sprintf("trial/filled/%d", len(names))
		if err := d.s.Bind([]string{name}, out); err != nil {
			return names, err
		}
		names = append(names, name)
	}
}
