package fit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/phases"
	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// TestOutOfMemory holds that a run that does not fit names the largest arrays
// and a smaller batch, and leaves the net as it was.
func TestOutOfMemory(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "net", models.MLP(200), Config{})
	data := load(t, n, "bars", digits(64, n.model.Input, 1))
	before, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Quota(3 << 20); err != nil { // the net has 2.4 MB
		t.Fatal(err)
	}
	_, err = n.WithContext(ctx).Fit(data, Train{Batch: 32})
	var e *result.MemoryError
	if !errors.As(err, &e) || !errors.Is(err, wire.OutOfMemory) {
		t.Fatalf("got error %v, want a MemoryError", err)
	}
	if e.Free < 1<<18 || e.Free > 1<<20 {
		t.Errorf("got %d bytes free, want what the quota leaves", e.Free)
	}
	if !strings.Contains(e.Hint(), "not even one example fits") || !strings.Contains(e.Hint(), "net/l1/weights") {
		t.Errorf("hint: got %q, want that no batch fits, and the largest arrays", e.Hint())
	}
	if err := s.Quota(-1); err != nil {
		t.Fatal(err)
	}
	after, err := n.WithContext(ctx).Evaluate(data)
	if err != nil || after.Loss != before.Loss {
		t.Errorf("afterwards: got %v, %v, want %v", after, err, before)
	}
	if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 32}); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestOutOfMemoryNet holds that a net that does not fit is an error of the call that
// makes it, and leaves nothing in the session that would pass for another net.
func TestOutOfMemoryNet(t *testing.T) {
	s := open(t)
	large := New("large", models.MLP(1<<20), Config{Session: s}) // 4 TB
	_, err := large.Upload("bars", digits(10, []int{784}, 1))
	var e *result.MemoryError
	if !errors.As(err, &e) || !errors.Is(err, wire.OutOfMemory) || e.Batch != 0 || !strings.Contains(err.Error(), "fit: large: out of memory: its weights and its optimizer's moments need 13") || !strings.Contains(e.Hint(), "smaller layers") {
		t.Fatalf("got %v, want a MemoryError of the net", err)
	}
	if l, err := s.List("large/"); err != nil || len(l) != 0 {
		t.Errorf("afterwards the session has %v, %v, want nothing of the net", l, err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the next one hears of %v", err)
	}
	small := attach(t, s, "large", models.MLP(8), Config{})
	if _, err := small.Fit(load(t, small, "bars", digits(10, []int{784}, 1)), Train{Batch: 5}); err != nil {
		t.Errorf("a net of that name that fits: %v", err)
	}
}

// TestOutOfMemoryLate holds the same where the device finds out while it works, as GPUs
// do: of the programs that are requested meanwhile the next cell hears nothing.
func TestOutOfMemoryLate(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	greedy := models.Net{Name: "greedy", Input: []int{4}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := in["x"]
		d := x.Shape().Dimensions
		y := layers.Dense(scope, x, true, 10)
		many := Sort(Mul(ReduceAllSum(StopGradient(x)), Iota(x.Graph(), shapes.Make(dtypes.Float32, 1<<d[0]), 0)), 0, true) // 4 TB for 40 examples
		return Add(y, Reshape(Slice(many, AxisRange(0, 1)), 1, 1))
	}}
	for _, packed := range []bool{false, true} {
		n := attach(t, s, "greedy"+fmt.Sprint(packed), greedy, Config{})
		n.packing = packed
		data := load(t, n, "bars", digits(40, []int{4}, 1))
		before, err := n.Weights()
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.WithContext(ctx).Fit(data, Train{Batch: 40, Epochs: 2, Validation: data})
		var e *result.MemoryError
		if !errors.As(err, &e) || !strings.Contains(e.Hint(), "a batch of 20 should fit, or the same batch with Train.Accumulate: 2;") {
			t.Fatalf("packed %t: got error %v, want a MemoryError with a batch that fits", packed, err)
		}
		after, err := n.Weights()
		if err != nil {
			t.Fatalf("packed %t: weights afterwards: %v", packed, err)
		}
		for i, w := range after {
			if !slices.Equal(w.Data, before[i].Data) {
				t.Errorf("packed %t: weights %s are others afterwards", packed, w.Name)
			}
		}
		if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 20}); err != nil {
			t.Errorf("packed %t: a batch that fits: %v", packed, err)
		}
	}
}

// TestOutOfMemoryAhead holds that a run trains as with more memory where there is room for
// one chunk's state, but for no second one next to it, nor, where each step writes the next
// state to memory of its own, for a third.
func TestOutOfMemoryAhead(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	for i, tt := range []struct {
		train Train
		fresh bool
		note  string
	}{
		{Train{Batch: 1, Epochs: 3}, false, noteOneChunk},
		{Train{Batch: 5, Epochs: 3}, false, noteOneChunk},
		{Train{Batch: 64, Epochs: 500}, false, noteOneChunk}, // epochs are single steps, of few chunks: perhaps of one
		{Train{Batch: 1, Epochs: 2}, true, noteOneTurn},
		{Train{Batch: 10, Epochs: 20}, true, noteOneTurn},
		{Train{Batch: 64, Epochs: 50}, true, noteOneTurn},
	} {
		var want *History
		for _, tight := range []bool{false, true} {
			n := attach(t, s, fmt.Sprintf("net-%d-%t", i, tight), models.MLP(64), Config{})
			if tt.fresh {
				n.loop = plan.SingleSteps
			}
			data := load(t, n, "bars", digits(64, n.model.Input, 1))
			train := func() (*History, error) {
				r, err := n.run(ctx, data, tt.train, plan.Call)
				if err != nil {
					t.Fatal(err)
				}
				defer r.close()
				if tt.fresh && r.main.Form.Single() {
					r.main.Form = plan.Fresh
				}
				return r.history, errors.Join(r.train(), r.bindState())
			}
			if _, err := train(); err != nil { // from here on it is known how long a step takes
				t.Fatal(err)
			}
			if tight {
				if err := s.Quota(heldBytes(t, s) + n.stateBytes()*3/2); err != nil {
					t.Fatal(err)
				}
			}
			h, err := train()
			if err := s.Quota(-1); err != nil {
				t.Fatal(err)
			}
			switch {
			case err != nil:
				t.Errorf("case %d, little memory %t: %v", i, tight, err)
			case !tight:
				want = h
			case h.Steps > len(h.Epochs) && h.Note != tt.note:
				t.Errorf("case %d: got note %q, want %q, which says why it is slower", i, h.Note, tt.note)
			case !slices.Equal(h.Losses, want.Losses) || len(h.Epochs) != len(want.Epochs):
				t.Errorf("case %d: the losses are not those with more memory", i)
			}
			if err := s.Wait(); err != nil {
				t.Errorf("the next one hears of %v", err)
			}
		}
	}
}

// TestOutOfMemorySaved holds that a run with room for one chunk's state waits for a snapshot
// that holds the one before, and trains on.
func TestOutOfMemorySaved(t *testing.T) {
	s, err := session.Config{Socket: devicetest.Start(t), Space: "saved", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	n := attach(t, s, "net", models.MLP(256), Config{})
	data := load(t, n, "bars", digits(64, n.model.Input, 1))
	train := Train{Batch: 8, Epochs: 60}
	if _, err := n.WithContext(ctx).Fit(data, train); err != nil { // from here on it is known how long a step takes
		t.Fatal(err)
	}
	if err := s.Quota(heldBytes(t, s) + n.stateBytes()*3/2); err != nil {
		t.Fatal(err)
	}
	ended, saved := make(chan struct{}), make(chan int)
	go func() {
		k := 0
		for ; ; k++ {
			select {
			case <-ended:
				saved <- k
				return
			default:
			}
			if _, err := s.Snapshot("during"); err != nil {
				t.Error(err)
			}
		}
	}()
	h, err := n.WithContext(ctx).Fit(data, train)
	close(ended)
	if k := <-saved; k < 3 {
		t.Errorf("only %d snapshots were made meanwhile", k)
	}
	if err != nil || h.Steps != 480 {
		t.Errorf("got %v, %v, want 480 steps", h, err)
	}
}

// TestNeeds holds that what a step keeps for its gradients grows with the batch,
// and is what the layers' outputs take.
func TestNeeds(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.MLP(200), Config{})
	data := load(t, n, "bars", digits(64, n.model.Input, 1))
	state, few := n.stepBytes(data, 8)
	_, many := n.stepBytes(data, 64)
	if want := int64(3*4*(784*200+200+200*200+200+200*10+10) + 4); state < want || state > want+100 {
		t.Errorf("state: got %d bytes, want %d and random numbers", state, want)
	}
	if many < 7*few || many > 9*few {
		t.Errorf("kept for 64 examples: got %d bytes, want about 8 × the %d of 8", many, few)
	}
	if low := int64(8 * 4 * (200 + 200 + 10)); few < low || few > 8*low {
		t.Errorf("kept for 8 examples: got %d bytes, want at least the %d of the layers' outputs, and not many times more", few, low)
	}
}

func TestFitting(t *testing.T) {
	for _, tt := range []struct {
		batch             int
		state, kept, free int64
		want              int
	}{
		{64, 100, 6400, -1, 32},
		{64, 100, 6400, 6500, 32},  // 100 + 2·3200
		{64, 100, 6400, 6499, 16},  // one byte short
		{64, 100, 6400, 301, 1},    // 100 + 200
		{64, 100, 6400, 200, 0},    // not one
		{1, 100, 6400, 1 << 40, 0}, // there is no smaller one
	} {
		if got := largestBatch(tt.batch, tt.state, tt.kept, tt.free); got != tt.want {
			t.Errorf("fitting(%d, %d, %d, %d): got %d, want %d", tt.batch, tt.state, tt.kept, tt.free, got, tt.want)
		}
	}
}

// TestHoldsNothing holds that no call leaves arrays in the session but those with names:
// a cell with many of them would hold the net's memory as often.
func TestHoldsNothing(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would free them, some time
	for _, tt := range []struct {
		model  models.Net
		config Config
		train  Train
	}{
		{models.MLP(64), Config{}, Train{Batch: 8, Epochs: 3}},
		{models.SeedCNN(), Config{Optimizer: optim.SGD{}}, Train{Batch: 20, Epochs: 3}},
		{models.MLP(64), Config{Devices: 2, AllDevices: true}, Train{Batch: 8, Epochs: 3}},
	} {
		name := fmt.Sprintf("%s-%d", tt.model.Name, tt.config.Devices)
		base := heldBytes(t, s)
		n := attach(t, s, name, tt.model, tt.config)
		set := digits(64, n.model.Input, 1)
		data := load(t, n, "bars", set)
		var named int64
		all, err := s.List("")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			if strings.HasPrefix(a.Name, name+"/") || base == 0 {
				named += a.Bytes
			}
		}
		if got := heldBytes(t, s) - base; got != named {
			t.Errorf("%s: %d bytes after Load, want the %d of what has a name", name, got, named)
		}
		var parts *phases.Step
		steps := func(p *phases.Step) error {
			return errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update())
		}
		train := tt.train
		train.Validation = data
		var weights []Tensor
		for _, call := range []struct {
			what string
			do   func() error
		}{
			{"Train", func() error { _, err := n.WithContext(ctx).Fit(data, tt.train); return err }},
			{"Train with a test", func() error { _, err := n.WithContext(ctx).Fit(data, train); return err }},
			{"Test", func() error { _, err := n.WithContext(ctx).Evaluate(data); return err }},
			{"Predict", func() error { _, err := n.WithContext(ctx).Predict(data); return err }},
			{"Predict of values", func() error { _, err := n.WithContext(ctx).Predict(set.X); return err }},
			{"Weights", func() (err error) { weights, err = n.Weights(); return err }},
			{"SetWeights", func() error { return n.SetWeights(weights) }},
			{"SetWeights of others", func() error { n.SetWeights(append(weights, Tensor{Name: "other"})); return nil }},
			{"ResetState", n.ResetState},
			{"Phases", func() (err error) {
				if parts == nil {
					parts, err = n.WithContext(ctx).Phases(data, 8)
				}
				return errors.Join(err, steps(parts))
			}},
			{"Phases closed", func() error {
				p, err := n.WithContext(ctx).Phases(data, 8)
				if err == nil {
					err = steps(p)
					p.Close()
				}
				return err
			}},
			{"Layers closed", func() error {
				p, err := n.WithContext(ctx).Phases(data, 8)
				if err == nil {
					_, err = p.Layers(ctx)
					p.Close()
				}
				return err
			}},
			{"Load", func() error { _, err := n.Upload("bars", set); return err }},
		} {
			var was int64
			for i := range 4 { // the first two may make what the others need
				if err := call.do(); err != nil {
					t.Fatalf("%s: %s: %v", name, call.what, err)
				}
				if got := heldBytes(t, s); i > 1 && got != was {
					t.Errorf("%s: %s leaves %d bytes", name, call.what, got-was)
				} else {
					was = got
				}
			}
		}
	}
}

// heldBytes is what the arrays of a session's space take.
func heldBytes(t *testing.T, s *session.Session) int64 {
	t.Helper()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	return st.Space(s.Space()).Bytes
}
