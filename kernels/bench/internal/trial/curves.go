package trial

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit"
)

// curve is a training with one kind of kernels.
type curve struct {
	Case    string    `json:"case"`
	Kernels string    `json:"kernels"`
	Losses  []float64 `json:"losses"` // of the epochs
	Right   []float64 `json:"right"`  // share of right answers
	Samples []float64 `json:"samples"`
	Micros  float64   `json:"micros"` // of a step, the whole epoch around it; the median but for the first epoch
	First   float64   `json:"first_seconds"`
	Apart   float64   `json:"apart,omitempty"`         // from the losses with XLA's kernels, relative, the largest
	Apart32 float64   `json:"apart_float32,omitempty"` // those of bfloat16, from the losses of XLA's float32
	Repeats bool      `json:"repeats,omitempty"`       // a second time, all losses are the same, bit for bit
	Note    string    `json:"note,omitempty"`
}

func (c curve) String() string {
	if c.Note != "" {
		return fmt.Sprintf("%-20s %-6s %s", c.Case, c.Kernels, c.Note)
	}
	return fmt.Sprintf("%-20s %-6s %8.2f µs a step, first epoch %.2f s, losses %.5f, right %.4f", c.Case, c.Kernels, c.Micros, c.First, c.Losses, c.Right)
}

// add adds an epoch of so many steps.
func (c *curve) add(loss, right float64, took time.Duration, steps int) {
	c.Losses, c.Right = append(c.Losses, loss), append(c.Right, right)
	if len(c.Losses) == 1 {
		c.First = took.Seconds()
		return
	}
	c.Samples = append(c.Samples, took.Seconds()*1e6/float64(steps))
	sorted := slices.Sorted(slices.Values(c.Samples))
	c.Micros = sorted[len(sorted)/2]
}

// train trains with one kind of kernels. With -texts it also writes down the program
// of the steps.
func (d *desk) train(t training, kind string, kernels fit.Kernels, set settings) curve {
	c := curve{Case: t.name, Kernels: kind}
	err := d.guard(func() error {
		t.config.Kernels = kernels
		net, data, err := d.attach(t, "curve")
		if err != nil {
			return err
		}
		defer net.Reset()
		if kind == "fused" && set.texts != "" {
			p, err := net.Steps(data, fit.Train{Batch: t.batch})
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(set.texts, hlo.Symbol(t.name)+".mlir"), p.Text(nil), 0o644); err != nil {
				return err
			}
		}
		if at := slices.IndexFunc(shakes, func(s shake) bool { return s.kind == kind }); at >= 0 {
			if err := change(net, func(w []float32) { shakes[at].change(w, t.config.BF16) }); err != nil {
				return err
			}
		}
		run := fit.Train{Batch: t.batch}
		steps := (t.n + t.batch - 1) / t.batch
		for range set.epochs {
			began := time.Now()
			h, err := net.Fit(data, run)
			if err != nil {
				return err
			}
			last := h.Last()
			c.add(last.Train.Loss, float64(last.Train.Right)/float64(max(1, last.Train.N)), time.Since(began), steps)
		}
		return nil
	})
	if err != nil {
		c.Note = err.Error()
	}
	return c
}

// curves trains each net with XLA's kernels, with fused ones, and with XLA's from
// weights that are shaken, and once more with fused ones, which has to give the
// same losses bit for bit. Curves do not agree where fused kernels are more than
// four times as far from XLA's as these are from themselves by any of the shakes, for
// a few draws of noise say no more of its size, and by more than 1 %. In bfloat16 they may also be
// as far as XLA's bfloat16 is from its float32: fused kernels round less (the LSTM's
// state stays float32 in them), and to be nearer to float32 is no fault.
func (d *desk) curves(r *report, set settings) error {
	float32s := map[string][]float64{} // losses with XLA's kernels
	return r.walk(set, trainings(), once, "pairs of curves differ", func(t training, _ string) bool {
		show := func(kind string, kernels fit.Kernels) curve {
			c := d.train(t, kind, kernels, set)
			fmt.Println(c)
			return c
		}
		fused := show("fused", fit.FusedKernels)
		if set.alone {
			r.Curves = append(r.Curves, fused)
			return fused.Note == ""
		}
		plain := show("XLA", fit.XLAKernels)
		all := []*curve{&plain, &fused}
		name, bf16 := strings.CutSuffix(t.name, " bf16")
		for _, s := range shakes {
			if !s.exact || !bf16 {
				other := show(s.kind, fit.XLAKernels)
				all = append(all, &other)
			}
		}
		again := d.train(t, "fused", fit.FusedKernels, set)
		fused.Repeats = again.Note == "" && slices.Equal(again.Losses, fused.Losses)
		fmt.Printf("%-20s the same losses a second time: %t\n", t.name, fused.Repeats)
		if !fused.Repeats && fused.Note == "" { // do XLA's?
			second := d.train(t, "XLA", fit.XLAKernels, set)
			plain.Repeats = second.Note == "" && slices.Equal(second.Losses, plain.Losses)
			fmt.Printf("%-20s XLA's the same a second time: %t\n", t.name, plain.Repeats)
		}
		measure(all)
		if exact, is := float32s[name]; bf16 && is && plain.Note == "" && fused.Note == "" {
			plain.Apart32, fused.Apart32 = apart(exact, plain.Losses), apart(exact, fused.Losses)
			fmt.Printf("%-20s from XLA's float32 they are apart by %.2g, and XLA's by %.2g\n", t.name, fused.Apart32, plain.Apart32)
		}
		if plain.Note == "" {
			float32s[t.name] = plain.Losses
		}
		for _, c := range all {
			r.Curves = append(r.Curves, *c)
		}
		return agree(&plain, &fused, all[2:], plain.Apart32) && fused.Repeats
	})
}

// measure says how far curves are from the first, XLA's.
func measure(all []*curve) {
	for _, c := range all[1:] {
		if c.Note == "" && all[0].Note == "" {
			c.Apart = apart(all[0].Losses, c.Losses)
			fmt.Printf("%-20s %s: losses are apart by %.2g\n", c.Case, c.Kernels, c.Apart)
		}
	}
}

// agree says whether the fused curve is near enough to XLA's, by how far XLA's from other
// weights are, or as near as may be for another reason.
func agree(plain, fused *curve, noise []*curve, or float64) bool {
	most := 0.0
	for _, c := range append([]*curve{plain, fused}, noise...) {
		if c.Note != "" {
			return false
		}
	}
	for _, c := range noise {
		most = max(most, c.Apart)
	}
	return most > 0 && fused.Apart <= max(0.01, 4*most, or)
}

// apart is the largest relative difference of two curves.
func apart(a, b []float64) (far float64) {
	for i := range a {
		far = max(far, math.Abs(a[i]-b[i])/math.Abs(a[i]))
	}
	return far
}
