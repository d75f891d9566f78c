package trial

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// repeated is a training done twice from one seed.
type repeated struct {
	Case    string   `json:"case"`
	Way     string   `json:"way"`
	Differ  []string `json:"differ"` // weights that are others after one step, the last layers' first
	Weights int      `json:"weights"`
	First   uint32   `json:"first"`   // CRC-32 of the first weights
	Same    bool     `json:"same"`    // the losses of twenty steps more, bit for bit
	Micros  float64  `json:"micros"`  // of one of these
	Seconds float64  `json:"seconds"` // of the first step, mostly to compile
	Note    string   `json:"note,omitempty"`
}

func (c repeated) String() string {
	if c.Note != "" {
		return fmt.Sprintf("%-20s %-22s %s", c.Case, c.Way, c.Note)
	}
	s := fmt.Sprintf("%-20s %-22s %8.2f µs a step, the same losses a second time: %t; after one step %d of %d weights differ; the first ones are %08x", c.Case, c.Way, c.Micros, c.Same, len(c.Differ), c.Weights, c.First)
	if len(c.Differ) > 0 {
		s += ": " + strings.Join(c.Differ[:min(len(c.Differ), 8)], " ")
	}
	return s
}

// ordered asks XLA for no op whose sums are in no fixed order. It then takes the first
// that there is for each, and tries out none.
const ordered = "xla_gpu_exclude_nondeterministic_ops"

// ways are how a net may be trained.
var ways = []struct {
	name    string
	kernels fit.Kernels
	flags   map[string]any
	pooling models.Pooling
}{
	{"XLA", fit.XLAKernels, nil, models.Mask},
	{"XLA exact", fit.XLAKernels, map[string]any{ordered: true}, models.Mask},
	{"XLA scatter", fit.XLAKernels, nil, models.SelectAndScatter},
	{"fused", fit.FusedKernels, nil, models.Mask},
}

// repeats trains each net twice, and looks what differs. Where the weights of one layer
// differ after a step and others do not, it is the algorithm of their gradient that has
// no fixed order. XLA keeps what it has chosen for an op while the session's worker
// lives, whatever the options: of two ways of one net each wants a session of its own.
func (d *desk) repeats(r *report, set settings) error {
	var names []string
	for _, way := range ways {
		names = append(names, way.name)
	}
	return r.walk(set, trainings(), names, "trainings were others the second time", func(t training, name string) bool {
		way := ways[slices.Index(names, name)]
		c := repeated{Case: t.name, Way: name}
		t.n, t.config.Kernels, t.config.Flags = t.batch, way.kernels, way.flags
		t.net.Layers = slices.Clone(t.net.Layers)
		for i, layer := range t.net.Layers {
			if p, is := layer.(models.MaxPool2D); is {
				p.Gradient = way.pooling
				t.net.Layers[i] = p
			}
		}
		if err := d.guard(func() error { return d.twice(t, &c) }); err != nil {
			c.Note = err.Error()
		}
		fmt.Println(c)
		r.Repeats = append(r.Repeats, c)
		return c.Same
	})
}

// checksum is the CRC-32 of weights' bits.
func checksum(weights []fit.Tensor) uint32 {
	sum := crc32.NewIEEE()
	for _, w := range weights {
		binary.Write(sum, binary.LittleEndian, w.Data) // neither returns an error
	}
	return sum.Sum32()
}

// twice trains a net of a single batch twice.
func (d *desk) twice(t training, c *repeated) error {
	var first []fit.Tensor
	var losses [2][]float32
	for k := range losses {
		net, data, err := d.attach(t, "repeat")
		if err != nil {
			return err
		}
		defer net.Reset()
		weights, err := net.Weights()
		if err != nil {
			return err
		}
		c.First = checksum(weights)
		began := time.Now()
		if _, err := net.Fit(data, fit.Train{Batch: t.batch}); err != nil {
			return err
		}
		if k == 0 {
			c.Seconds = time.Since(began).Seconds()
		}
		if weights, err = net.Weights(); err != nil {
			return err
		}
		c.Weights = len(weights)
		for i, w := range weights {
			if k > 0 && !slices.Equal(w.Data, first[i].Data) {
				c.Differ = append(c.Differ, w.Name)
			}
		}
		slices.Reverse(c.Differ)
		first = weights
		on := func() error {
			h, err := net.Fit(data, fit.Train{Batch: t.batch, Epochs: 20})
			if err != nil {
				return err
			}
			losses[k] = append(losses[k], h.Losses...)
			return nil
		}
		if err := on(); err != nil { // it may have to compile
			return err
		}
		began = time.Now()
		if err := on(); err != nil {
			return err
		}
		c.Micros = float64(time.Since(began).Microseconds()) / 20
		if err := net.Reset(); err != nil {
			return err
		}
	}
	c.Same = slices.Equal(losses[0], losses[1])
	return nil
}
