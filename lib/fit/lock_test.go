package fit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// stepsOf reads the net's count of steps.
func stepsOf(t *testing.T, n *Net) int {
	t.Helper()
	s, err := n.session.Array(n.name + "/step")
	if err != nil {
		t.Fatal(err)
	}
	v := make([]int32, 1)
	if err := s.Values(v); err != nil {
		t.Fatal(err)
	}
	return int(v[0])
}

// TestTrainAlone holds that of two trainings of one net at the same time, from two
// programs or from two values of one program, the second is refused with who trains
// since when, whatever it is, and that no step is lost.
func TestTrainAlone(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	first := attach(t, a, "alone", small(), Config{Seed: 3})
	data := load(t, first, "alone", digits(400, first.model.Input, 1))
	for name, s := range map[string]*Net{"another program": attach(t, b, "alone", small(), Config{Seed: 3}), "the same program": attach(t, a, "alone", small(), Config{Seed: 3})} {
		t.Run(name, func(t *testing.T) {
			before := stepsOf(t, first)
			found, err := s.Data("alone")
			if err != nil {
				t.Fatal(err)
			}
			changes := map[string]func() error{
				"Train":      func() error { _, err := s.Fit(found, Train{Batch: 10}); return err },
				"TrainJob":   func() error { _, err := s.FitJob(found, Train{Batch: 10}); return err },
				"SetWeights": func() error { return s.SetWeights(nil) },
				"Reset":      s.Reset,
			}
			tried := false
			h, err := first.Fit(data, Train{Batch: 10, Epochs: 2, Progress: func(p Progress) {
				if tried || p.Phase != "train" {
					return
				}
				tried = true
				for name, change := range changes {
					if err := change(); !errors.Is(err, wire.Busy) || !strings.Contains(err.Error(), "trains it since ") {
						t.Errorf("%s: got %v, want that it is refused, and since when somebody trains", name, err)
					}
				}
			}})
			if err != nil || h.Steps != 80 || !tried {
				t.Fatalf("got %d steps, %v; want 80, and tries in between", h.Steps, err)
			}
			if got := stepsOf(t, first); got != before+80 {
				t.Errorf("the net has done %d steps, want %d", got, before+80)
			}
			if h, err := s.Fit(found, Train{Batch: 10}); err != nil || h.Steps != 40 || stepsOf(t, first) != before+120 {
				t.Errorf("afterwards: got %d steps of %d, %v; want 40 of %d", h.Steps, stepsOf(t, first), err, before+120)
			}
		})
	}
}

// TestAlonePatience holds that somebody who changes the net for a moment is waited for,
// whatever its program is called, and that Train waits no longer than its context.
func TestAlonePatience(t *testing.T) {
	n := attach(t, open(t), "patience", small(), Config{Seed: 3})
	data := load(t, n, "patience", digits(40, n.model.Input, 1))
	s, err := session.Config{Socket: server.socket, Space: fmt.Sprintf("%s %p", t.Name(), t), Client: "cell that trains it", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unlock, err := s.Lock(context.Background(), n.name+"/", "makes", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 10}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > creationTime/2 {
		t.Errorf("got %v after %v, want the context's error at its end", err, time.Since(began))
	}
	time.AfterFunc(100*time.Millisecond, func() { unlock() })
	if h, err := n.Fit(data, Train{Batch: 10}); err != nil || h.Steps != 4 {
		t.Errorf("got %+v, %v; want 4 steps when the net is free again", h, err)
	}
}

// TestMadeOnce holds that a net that many programs begin to use at the same time is made
// by one of them: no first values replace what was trained meanwhile.
func TestMadeOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	nets := make([]*Net, 4)
	for i := range nets {
		s := open(t)
		wg.Go(func() {
			n, err := Attach(s, "once", small(), Config{Seed: int64(i)})
			if err != nil {
				t.Error(err)
				return
			}
			nets[i] = n
			w, err := n.Weights()
			if err != nil || len(w) == 0 {
				t.Error(err)
				return
			}
			if err := n.SetWeights([]Tensor{{Name: w[0].Name, Dims: w[0].Dims, Data: make([]float32, len(w[0].Data))}}); err != nil { // is trained
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	w, err := nets[0].Weights()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range w[0].Data {
		if v != 0 {
			t.Fatalf("%s is %v, want zeros: another program's first values have replaced them", w[0].Name, w[0].Data[:5])
		}
	}
}

// TestPhasesUpdate holds that steps by hand do not replace what somebody else has
// trained meanwhile.
func TestPhasesUpdate(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	n := attach(t, a, "hand", small(), Config{Seed: 3})
	data := load(t, n, "hand", digits(40, n.model.Input, 1))
	other := attach(t, b, "hand", small(), Config{Seed: 3})
	p, err := n.Phases(data, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	step := func() error {
		return errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update())
	}
	for range 2 {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	found, err := other.Data("hand")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Fit(found, Train{Batch: 10}); err != nil {
		t.Fatal(err)
	}
	if err := step(); !errors.Is(err, wire.Busy) || !strings.Contains(err.Error(), "has been replaced") {
		t.Errorf("got %v, want that the net has changed", err)
	}
	if got := stepsOf(t, n); got != 6 {
		t.Errorf("the net has done %d steps, want 2 by hand and 4 of the training", got)
	}
}
