package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// trainDevices compares numbers of devices: nets with one batch shared by all,
// and the deepest one also with a batch for each. A net that is small is
// measured as it is trained, which may be on one device, and with all.
func (b *bench) trainDevices() error {
	var numbers []int
	for _, text := range strings.Split(b.devices, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("train: -devices %s: want numbers such as 1,2,4", b.devices)
		}
		numbers = append(numbers, n)
	}
	return inPrivate(func(_ *session.Private, s *session.Session) error { return b.trainOn(s, numbers) })
}

func (b *bench) trainOn(s *session.Session, numbers []int) error {
	if have := len(s.Welcome().Devices); have < numbers[len(numbers)-1] {
		return fmt.Errorf("train: -devices %s: the session has %d", b.devices, have)
	}
	for _, name := range []string{"mlp-b100", "lenet5-b100", "resnet14-b32", "resnet152-b2048"} {
		c := caseOf(name)
		if s.Welcome().Platform == "cpu" {
			c = c.small()
		}
		if !b.wants(name) || c.n == 0 {
			continue
		}
		for _, n := range numbers {
			if err := b.onDevices(s, c, n, false, c.name); err != nil {
				return fmt.Errorf("train: %s on %d devices: %w", name, n, err)
			}
			if n == 1 {
				continue
			}
			if !strings.HasPrefix(name, "resnet") {
				if err := b.onDevices(s, c, n, true, c.name); err != nil {
					return fmt.Errorf("train: %s on %d devices: %w", name, n, err)
				}
				continue
			}
			each := c
			each.batch, each.n = c.batch*n, c.n*n
			if err := b.onDevices(s, each, n, true, c.name+" each"); err != nil {
				return fmt.Errorf("train: %s for each of %d devices: %w", name, n, err)
			}
		}
	}
	return nil
}

// caseOf is the case of a name.
func caseOf(name string) trainCase {
	for _, c := range trainCases {
		if c.name == name {
			return c
		}
	}
	panic("bench: no case " + name)
}

// deviceRun is how long a run takes at least.
const deviceRun = 3 * time.Second

// onDevices measures samples a second, in runs that take deviceRun and no less, however
// many devices there are: else a run's beginning and end weigh more with more of them.
func (b *bench) onDevices(s *session.Session, c trainCase, n int, all bool, name string) error {
	config := c.config
	config.Devices, config.AllDevices = n, all
	net, data, err := c.attach(s, "bench", config)
	if err != nil {
		return err
	}
	defer net.Reset()
	var rates, steps []float64
	used, epochs := 0, max(1, c.epochs)
	for i := range b.turns + 1 {
		began := time.Now()
		h, err := net.Fit(data, fit.Train{Epochs: epochs, Batch: c.batch, DropLast: true})
		if err != nil {
			return err
		}
		used = h.Devices
		if i == 0 { // compiled
			epochs = max(epochs, int(math.Ceil(float64(epochs)*deviceRun.Seconds()/h.Device.Seconds())))
			continue
		}
		took := time.Since(began).Seconds()
		rates, steps = append(rates, float64(c.n*epochs)/took), append(steps, took/float64(h.Steps)*1e6)
	}
	subject := fmt.Sprintf("%d devices", n)
	switch {
	case all && name == c.name:
		subject += ", all used"
	case used != n:
		subject += fmt.Sprintf(", %d used", used)
	}
	b.addSamples(name, subject, "µs a step", steps)
	b.addSamples(name, subject, "samples/s", rates)
	_, err = s.Delete("data/*")
	return err
}
