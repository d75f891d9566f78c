package main

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/data"
	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// streamed is how many examples are read from the file at a time, and how many buffers an
// epoch has.
const streamed, buffersPerEpoch = 256, 8

// benchStream measures epochs of examples that are on the device, and of the same ones that
// are read from a file while the steps run.
func benchStream(b *bench) error {
	images := slices.DeleteFunc(slices.Clone(trainCases), func(c trainCase) bool { return c.data != nil })
	return b.eachNet(images, b.stream)
}

func (b *bench) stream(s *session.Session, c trainCase) error {
	if s.Welcome().Platform == "cpu" {
		c = c.small()
	}
	if c.n == 0 {
		return nil
	}
	net, resident, err := c.attach(s, "stream", c.config)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "bench-stream-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	all := c.examples()
	x, y := all.X.([]byte), dtypes.UnsafeByteSlice(all.Y.([]int32))
	if _, err := file.Write(append(x[:len(x):len(x)], y...)); err != nil {
		return err
	}
	from := io.ReaderAt(file)
	size := len(x) / c.n
	parts := data.Batches((c.n+streamed-1)/streamed, func(k int) (data.Examples, error) {
		n := min(streamed, c.n-k*streamed)
		x, labels := make([]byte, n*size), make([]int32, n)
		if _, err := from.ReadAt(x, int64(k*streamed*size)); err != nil {
			return data.Examples{}, err
		}
		_, err := from.ReadAt(dtypes.UnsafeByteSlice(labels), int64(c.n*size+4*k*streamed))
		return data.Examples{X: x, Y: labels}, err
	})
	stream, err := net.Stream("bench/stream", parts, max(c.batch, c.n/buffersPerEpoch))
	if err != nil {
		return err
	}
	t := fit.Train{Epochs: max(1, c.epochs), Batch: c.batch, DropLast: true, Quiet: true}
	waits, epochs := 0, 0
	used := map[*fit.Set][]float64{} // CPU time, which says more than a clock where others use the machine
	timed := func(set *fit.Set) func() (float64, error) {
		return func() (float64, error) {
			began, cpu := time.Now(), cpuTime()
			h, err := net.Fit(set, t)
			if err != nil {
				return 0, err
			}
			waits, epochs = waits+h.Waits, epochs+t.Epochs
			used[set] = append(used[set], (cpuTime()-cpu)/float64(h.Steps)*1e6)
			return time.Since(began).Seconds() / float64(h.Steps) * 1e6, nil
		}
	}
	subjects := []*subject{{name: "resident", measure: timed(resident)}, {name: "stream", measure: timed(stream)}}
	for _, x := range subjects { // all programs, and the pace
		if _, err := x.measure(); err != nil {
			return err
		}
	}
	waits, epochs = 0, 0
	if err := b.rounds(c.name, subjects, func() error { return nil }); err != nil {
		return err
	}
	b.addSamples(c.name+"-cpu-epochs", "resident", "µs of CPU time", used[resident][1:])
	b.addSamples(c.name+"-cpu-epochs", "stream", "µs of CPU time", used[stream][1:])
	b.addSamples(c.name, "waits of a device for the stream, each epoch", "", []float64{2 * float64(waits) / float64(epochs)})
	return nil
}
