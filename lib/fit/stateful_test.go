package fit

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

//go:embed testdata/stateful.json
var statefulJSON []byte

// pieces is SineLSTM(5, length), which carries the state of some sequences on.
func pieces(length, sequences int) models.Net {
	net := models.SineLSTM(5, length)
	net.Layers[1] = models.LSTM{Name: "l2", Units: 5, Stateful: sequences}
	return net
}

// statefulData are those of stateful.py.
func statefulData() Data {
	d := formulaData("stateful", 12, 6, 6)
	d.V = nil
	return d
}

// TestStateful holds that truncated backpropagation through time is PyTorch's,
// with and without a reset before each epoch, and with padding.
func TestStateful(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	type result struct{ Losses, H, C, Recurrent []float64 }
	var want map[string]result
	if err := json.Unmarshal(statefulJSON, &want); err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		net, d := pieces(6, 4), statefulData()
		if name == "masked" {
			net.Layers = append([]models.Layer{models.Masking{Value: 9}}, net.Layers...)
			for i, v := range formula("stateful/mask", len(d.X.([]float32))) {
				if v >= 0.2 || i/6 == 6 {
					d.X.([]float32)[i] = 9
				}
			}
		}
		n := attach(t, s, name, net, Config{Optimizer: optim.SGD{LearningRate: 0.5}, FirstLook: true})
		if err := n.SetWeights(formulaWeights(n)); err != nil {
			t.Fatal(err)
		}
		data := load(t, n, name, d)
		h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 2, InOrder: true, KeepState: name != "reset"})
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got []float32, want []float64) {
			t.Helper()
			if len(got) != len(want) {
				t.Errorf("%s: %s: got %d numbers, want %d", name, what, len(got), len(want))
				return
			}
			for i := range got {
				if math.Abs(float64(got[i])-want[i]) > 2e-5 {
					t.Errorf("%s: %s: number %d: got %v, want %v", name, what, i, got[i], want[i])
					return
				}
			}
		}
		near("losses", h.Losses, w.Losses)
		for part, want := range map[string][]float64{"h": w.H, "c": w.C, "recurrent": w.Recurrent} {
			a, err := s.Array(name + "/l2/" + part)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(want))
			if err := a.Values(got); err != nil {
				t.Fatal(err)
			}
			near(part, got, want)
		}
	}
	if slices.Equal(want["kept"].Losses, want["reset"].Losses) {
		t.Error("stateful.json: got the same losses with and without a reset")
	}
}

// TestStatefulPhases holds that a step in phases carries the state on as the
// epoch program does, and that testing leaves it alone.
func TestStatefulPhases(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	var want []float32
	for _, name := range []string{"epoch", "phases"} {
		n := attach(t, s, name, pieces(6, 4), Config{Seed: 3, FirstLook: true})
		data := load(t, n, "pieces", statefulData())
		if name == "epoch" {
			h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 2, InOrder: true, Validation: data})
			if err != nil {
				t.Fatal(err)
			}
			want = h.Losses
			continue
		}
		p, err := n.WithContext(ctx).Phases(data, 4)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			for _, f := range []func() error{p.Next, p.Forward, p.Loss, p.Backward, p.Update} {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := p.Value(); err != nil || math.Abs(got-float64(w)) > 1e-6 {
				t.Errorf("step %d: got loss %v, %v, want %v", i, got, err, w)
			}
			if _, err := n.WithContext(ctx).Evaluate(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestStatefulRefused holds what is said to batches that do not continue each
// other, and that the number of sequences is no part of the architecture.
func TestStatefulRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "net", pieces(6, 4), Config{FirstLook: true})
	data := load(t, n, "pieces", statefulData())
	odd := statefulData()
	odd.X, odd.Y = odd.X.([]float32)[:11*6], odd.Y.([]float32)[:11*6]
	eleven := load(t, n, "eleven", odd)
	for _, tt := range []struct {
		data *Set
		t    Train
		want string
	}{
		{data, Train{}, "layer l2 carries on 4 sequences from batch to batch: got shuffled examples"},
		{data, Train{Batch: 3, InOrder: true}, "got a batch of 3, want 4"},
		{eleven, Train{InOrder: true}, "got 11 examples, want a multiple"},
	} {
		if _, err := n.WithContext(ctx).Fit(tt.data, tt.t); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got error %v, want %q", tt.t, err, tt.want)
		}
	}
	if _, err := n.WithContext(ctx).Fit(data, Train{InOrder: true}); err != nil {
		t.Fatal(err)
	}
	if err := n.ResetState(); err != nil {
		t.Fatal(err)
	}
	a, err := s.Array("net/l2/h")
	if err != nil {
		t.Fatal(err)
	}
	h := make([]float32, 4*5)
	if err := a.Values(h); err != nil || slices.ContainsFunc(h, func(x float32) bool { return x != 0 }) {
		t.Errorf("after ResetState: got %v, %v, want zeros", h, err)
	}
	before, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, sequences := range []int{6, 0, 4} {
		m := attach(t, s, "net", pieces(6, sequences), Config{FirstLook: true})
		after, err := m.WithContext(ctx).Evaluate(data)
		if err != nil || after.Loss != before.Loss {
			t.Errorf("attached with %d sequences: got %v, %v, want %v", sequences, after, err, before)
		}
		if _, err := m.WithContext(ctx).Fit(data, Train{InOrder: true, LearningRate: 1e-30}); err != nil {
			t.Errorf("trained with %d sequences: %v", sequences, err)
		}
	}
}

// TestTimeOfCompilingLSTM holds that 1,000 places compile as fast as 10.
// TestLSTMLength holds why, on any machine.
func TestTimeOfCompilingLSTM(t *testing.T) {
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
	s := open(t)
	const most = 1.3
	seconds := map[int]float64{10: math.Inf(1), 1000: math.Inf(1)}
	for try := range 8 { // the least of some, if need be: other work on the machine makes it longer only
		for length := range seconds {
			n := attach(t, s, fmt.Sprint("l", length), models.SineLSTM(5, length), Config{})
			data := load(t, n, fmt.Sprint("d", length), numbers(8, length, length, 1))
			p, err := n.epochProgram(data, n.plainSteps(4, 2+try)) // never compiled before
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := s.Compile(p, session.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
			seconds[length] = min(seconds[length], time.Since(began).Seconds())
		}
		if seconds[1000] <= most*seconds[10] {
			return
		}
	}
	if ratio := seconds[1000] / seconds[10]; ratio > most {
		t.Errorf("compile time of 1000 places: got %.2f s, %.2f × that of 10, want %v × at most", seconds[1000], ratio, most)
	}
}
