package report

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gaiden/lib/fit"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// A Profiler profiles a net, like the magics %phases, %bottleneck, %roofline and %sweep.
// Each method measures, shows the result and returns it. An interrupt ends the
// measurement and keeps the results so far. A nil Net is an error.
//
//	report.Profiler{Net: net, Data: "train", Options: profile.Options{Batch: 8}}.Phases()
type Profiler struct {
	Net *fit.Net
	// Data is the name of a data set in the session. "" selects one that fits the
	// net, or random data if there is none.
	Data string
	profile.Options
}

// Phases is %phases: it measures the phases, layers and ops of a step.
func (h Profiler) Phases() (*profile.Phases, error) {
	return h.measure(func(p *profile.Phases) { Show(Phases(p)) })
}

// Compare measures the phases and layers of several nets on the same data, and shows
// them next to each other. For example, to compare three gradients of a layer:
//
//	report.Profiler{Net: fill, Options: profile.Options{Batch: 64}}.Compare(search, mask)
func (h Profiler) Compare(others ...*fit.Net) ([]*profile.Phases, error) {
	h.NoErrors, h.NoEpoch, h.NoOps = true, true, true
	var all []*profile.Phases
	for _, net := range append([]*fit.Net{h.Net}, others...) {
		h.Net = net
		p, err := h.measure(func(*profile.Phases) {})
		if err != nil {
			return all, err
		}
		all = append(all, p)
		if p.Partial {
			break
		}
	}
	Show(Nets(fmt.Sprintf("%s: batch %d", all[0].Data, all[0].Batch), all...))
	return all, nil
}

// Bottleneck is %bottleneck: it measures only as much as it needs and shows one
// finding.
func (h Profiler) Bottleneck() (*profile.Phases, error) {
	h.NoErrors, h.NoEpoch = true, true
	return h.measure(func(p *profile.Phases) {
		fmt.Println(p.Bottleneck())
		if p.Partial {
			fmt.Println("stopped: a partial result")
		}
		for _, w := range p.Warnings {
			fmt.Println("warning:", w)
		}
	})
}

// Roofline is %roofline with a net: it shows phases and layers in a roofline plot.
func (h Profiler) Roofline() (*profile.Phases, error) {
	h.NoErrors, h.NoEpoch, h.NoOps = true, true, true
	return h.measure(func(p *profile.Phases) { Show(Roofline(p.Net+" on "+p.Peaks.Device, p.Peaks, p.Lines()...)) })
}

// Batches is %sweep with a net: it measures the forward and backward pass for batches
// of 2^n, up to Options.Batch; 0 means all the data.
func (h Profiler) Batches() (*profile.Batches, error) {
	ctx, bar, done := h.begin("core time", 0)
	defer done()
	train, _, err := h.data(1024)
	if err != nil {
		return nil, err
	}
	b, err := profile.SweepBatches(ctx, h.Net, train, profile.SweepOptions{Most: h.Batch, Progress: bar})
	done()
	if err == nil {
		Show(Batches(b))
	}
	return b, err
}

func (h Profiler) measure(show func(*profile.Phases)) (*profile.Phases, error) {
	train, test, err := h.data(max(1024, 8*h.Batch))
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	var done func()
	ctx, h.Progress, done = h.begin("measuring "+h.Net.Name(), 0)
	defer done()
	if h.Test == nil {
		h.Test = test
	}
	p, err := profile.Measure(ctx, h.Net, train, h.Options)
	done()
	if err != nil {
		return nil, err
	}
	show(p)
	return p, nil
}

// data finds a set, or makes one of n examples of noise.
func (h Profiler) data(n int) (train, test *fit.Set, err error) {
	if h.Net == nil {
		return nil, nil, errors.New("report: no net: got nil, want one that fit.New made")
	}
	train, test, err = profile.Sets(h.Net, h.Data)
	if err == nil && train == nil {
		train, err = profile.Synthetic(h.Net, n)
	}
	return train, test, err
}

// begin opens a progress bar; done closes it, once.
func (h Profiler) begin(title string, total int) (ctx context.Context, tell func(string), done func()) {
	bar := &Progress{Title: title, Total: total}
	steps := 0
	return session.Context(), func(what string) { steps++; bar.Set(steps, what) }, sync.OnceFunc(func() {
		bar.Set(steps, "done")
		bar.Close()
	})
}

// RooflineOf is %roofline without a net: it shows the peak rates of the session's
// device. With again, it measures them again.
func RooflineOf(again bool) error {
	s, err := session.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	read := profile.ReadPeaks
	if again {
		read = func(ctx context.Context, s *session.Session, _ func(string)) (profile.Peaks, error) {
			return profile.MeasurePeaks(ctx, s)
		}
	}
	p, err := read(session.Context(), s, nil)
	if err == nil {
		Show(Peaks(p), Roofline("Roofline of "+p.Device, p))
	}
	return err
}

// SweepOf is %sweep without a net: it measures an activation function on 2^0 to
// 2^most numbers.
func SweepOf(activation string, most int) error {
	s, err := session.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	bar := &Progress{Title: activation, Total: most + 1}
	steps := 0
	w, err := profile.SweepActivation(session.Context(), s, activation, most, func(what string) { steps++; bar.Set(steps, what) })
	if steps > 0 {
		bar.Close()
	}
	if err == nil {
		Show(Sweep(w))
	}
	return err
}
