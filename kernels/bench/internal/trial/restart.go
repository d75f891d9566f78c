package trial

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"gaiden/lib/fit"
)

// restarted is a training that a second worker does again, with the programs that the
// first one left on the disk.
type restarted struct {
	Case    string     `json:"case"`
	Same    bool       `json:"same"`    // the losses, bit for bit
	Seconds [2]float64 `json:"seconds"` // of the training by each worker
	Note    string     `json:"note,omitempty"`
}

func (c restarted) String() string {
	if c.Note != "" {
		return fmt.Sprintf("%-20s %s", c.Case, c.Note)
	}
	return fmt.Sprintf("%-20s %.2f s, and by the next worker %.2f s; the same losses: %t", c.Case, c.Seconds[0], c.Seconds[1], c.Same)
}

// restarts trains each net in one worker and, from the same seed, in the one that
// comes after its end: what only a program that has just been compiled can do shows
// then.
func (d *desk) restarts(r *report, set settings) error {
	return r.walk(set, trainings(), once, "trainings were others in the second worker", func(t training, _ string) bool {
		c := restarted{Case: t.name}
		t.n = 4 * t.batch
		if err := d.guard(func() error { return d.restart(t, &c) }); err != nil {
			c.Note = err.Error()
		}
		fmt.Println(c)
		r.Restarts = append(r.Restarts, c)
		return c.Same
	})
}

func (d *desk) restart(t training, c *restarted) error {
	var losses [2][]float32
	for k := range losses {
		net, data, err := d.attach(t, "restart")
		if err != nil {
			return err
		}
		began := time.Now()
		h, err := net.Fit(data, fit.Train{Batch: t.batch, Epochs: 3})
		if err = errors.Join(err, net.Reset()); err != nil {
			return err
		}
		c.Seconds[k], losses[k] = time.Since(began).Seconds(), h.Losses
		if k == 0 {
			if _, err := d.s.Snapshot(""); err != nil { // or the net that was reset comes back
				return err
			}
			time.Sleep(time.Second) // the programs are on their way to the disk
			syscall.Kill(d.worker, syscall.SIGKILL)
			if err := d.open(); err != nil {
				return err
			}
		}
	}
	c.Same = slices.Equal(losses[0], losses[1])
	return nil
}
