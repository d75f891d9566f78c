package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/optim"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// small is a net that compiles at once.
func small() models.Net {
	return models.Net{Name: "small", Input: []int{4, 4, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 3, Kernel: 3, Same: true, Act: models.ReLU},
		models.MaxPool2D{Name: "pool", Window: 2},
		models.Flatten{Name: "flatten"},
		models.Dropout{Name: "dropout", Rate: 0.2},
		models.Dense{Name: "output", Units: 10},
	}}
}

// TestSameSeed holds that a seed decides every loss, bit for bit, however a run
// is cut into chunks or calls.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	losses := func(name string, seed int64, calls int) []float32 {
		n := attach(t, s, name, small(), Config{Seed: seed})
		data := load(t, n, "bars", digits(101, n.model.Input, 1))
		var all []float32
		for range calls {
			h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 4 / calls, Batch: 10})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h.Losses...)
		}
		return all
	}
	first := losses("a", 1, 1)
	if got, want := len(first), 4*11; got != want {
		t.Fatalf("losses: got %d, want %d", got, want)
	}
	if got := losses("b", 1, 1); !slices.Equal(got, first) {
		t.Errorf("second run: got %v, want %v", got, first)
	}
	if got := losses("c", 1, 4); !slices.Equal(got, first) {
		t.Errorf("run in four calls: got %v, want %v", got, first)
	}
	if got := losses("d", 2, 1); slices.Equal(got, first) {
		t.Error("another seed: got the same losses, want others")
	}
}

// TestFullBatch holds that epochs of a single step, which run as one loop, are
// what they are one by one.
func TestFullBatch(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	losses := func(name string, calls int) []float32 {
		n := attach(t, s, name, models.MLP(7), Config{Seed: 1, FirstLook: true})
		data := load(t, n, "bars", digits(40, n.model.Input, 1))
		var all []float32
		for range calls {
			h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 12 / calls, Batch: 40})
			if err != nil {
				t.Fatal(err)
			}
			if len(h.Epochs) != 12/calls || h.Steps != 12/calls || h.Last().Number != 12/calls || h.Last().Train.N != 40 {
				t.Errorf("%d calls: got %d epochs, %d steps, last %+v, want %d", calls, len(h.Epochs), h.Steps, h.Last(), 12/calls)
			}
			all = append(all, h.Losses...)
		}
		return all
	}
	want := losses("a", 12)
	if got := losses("b", 1); !slices.Equal(got, want) {
		t.Errorf("in one call: got %v, want %v", got, want)
	}
	n := attach(t, s, "c", models.MLP(7), Config{Optimizer: optim.SGD{LearningRate: 1e18}, FirstLook: true})
	data := load(t, n, "bars", digits(40, n.model.Input, 1))
	_, err := n.WithContext(ctx).Fit(data, Train{Epochs: 50, Batch: 40})
	var e *result.NotFiniteError
	if !errors.As(err, &e) || e.Step != 1 || e.Epoch < 2 || e.KeptEpoch >= e.Epoch {
		t.Errorf("huge learning rate: got %v, want a NotFiniteError at step 1 of a later epoch", err)
	}
}

// TestUnroll holds that the shape of the loop does not change what is computed.
func TestUnroll(t *testing.T) {
	t.Parallel()
	s := open(t)
	losses := func(name, platform string, unroll int, loop plan.Loop) []float32 {
		n := attach(t, s, name, small(), Config{Seed: 3, FirstLook: true})
		n.unroll, n.loop = unroll, loop
		n.target, n.convolves = played(platform, ""), platform == "cpu"
		data := load(t, n, "bars", digits(203, n.model.Input, 1))
		h, err := n.Fit(data, Train{Epochs: 2, Batch: 4})
		if err != nil {
			t.Fatal(err)
		}
		return h.Losses
	}
	want := losses("a", "cpu", 1, plan.AutoLoop)
	for _, tt := range []struct {
		name, platform string
		unroll         int
		loop           plan.Loop
	}{{"b", "cpu", 4, plan.AutoLoop}, {"c", "cuda", 1, plan.AutoLoop}, {"d", "cuda", 2, plan.AutoLoop}, {"e", "cuda", 1, plan.SingleSteps}, {"f", "cpu", 1, plan.LoopedSteps}} {
		got := losses(tt.name, tt.platform, tt.unroll, tt.loop)
		if len(got) != len(want) {
			t.Fatalf("%s unrolled %d: got %d losses, want %d", tt.platform, tt.unroll, len(got), len(want))
		}
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-4 {
				t.Errorf("%s unrolled %d: loss %d: got %v, want %v", tt.platform, tt.unroll, i, got[i], want[i])
				break
			}
		}
	}
}

// TestOutlives holds that weights belong to the session: another connection,
// as another process has one, goes on where the first stopped.
func TestOutlives(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "cnn", small(), Config{Seed: 1})
	data := load(t, n, "bars", digits(100, n.model.Input, 1))
	if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 10}); err != nil {
		t.Fatal(err)
	}
	want, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	other, err := session.Config{Socket: server.socket, Space: s.Space(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m := attach(t, other, "cnn", small(), Config{Seed: 99})
	found, err := m.Data("bars")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.WithContext(ctx).Evaluate(found)
	if err != nil {
		t.Fatal(err)
	}
	if got.Loss != want.Loss || got.Right != want.Right {
		t.Errorf("second connection: got %v, want %v", got, want)
	}
	again := load(t, m, "bars", digits(100, n.model.Input, 1))
	if again.Fresh {
		t.Error("the same data: got an upload, want none")
	}
	if fresh := load(t, m, "bars", digits(100, n.model.Input, 2)); !fresh.Fresh {
		t.Error("other data: got no upload, want one")
	}
}

// TestArchitecture holds that another net under the same name is refused until
// Reset, and that another optimizer is not.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "cnn", small(), Config{FirstLook: true})
	data := load(t, n, "bars", digits(40, n.model.Input, 1))
	before, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	wide := small()
	wide.Layers[0] = models.Conv2D{Name: "conv", Channels: 4, Kernel: 3, Same: true, Act: models.ReLU}
	_, err = Attach(s, "cnn", wide, Config{})
	var wrong *result.ArchitectureError
	if !errors.As(err, &wrong) {
		t.Fatalf("another net: got error %v, want an ArchitectureError", err)
	}
	if want := "conv/weights is float32[3 3 1 3], want float32[3 3 1 4]"; !strings.Contains(err.Error(), want) {
		t.Errorf("another net: got %q, want it to hold %q", err, want)
	}
	m := attach(t, s, "cnn", small(), Config{Optimizer: optim.SGD{Momentum: 0.9}, FirstLook: true})
	after, err := m.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	if before.Loss != after.Loss {
		t.Errorf("another optimizer: got loss %v, want the weights' %v", after.Loss, before.Loss)
	}
	if _, err := m.WithContext(ctx).Fit(data, Train{}); err != nil {
		t.Error(err)
	}
	list, err := s.List("cnn/adam/")
	if err != nil || len(list) > 0 {
		t.Errorf("state of the old optimizer: got %v, %v, want none", list, err)
	}
	if err := New("cnn", wide, Config{Session: s}).Reset(); err != nil {
		t.Fatal(err)
	}
	attach(t, s, "cnn", wide, Config{FirstLook: true})
}

// TestNextOptimizer holds that the steps of another optimizer count from its own beginning, also of
// one that keeps nothing, and that those of the same one, in a wrapper or without one, go on.
func TestNextOptimizer(t *testing.T) {
	t.Parallel()
	s := open(t)
	adam, sgd := optim.Adam{LearningRate: 0.01}, optim.SGD{LearningRate: 0.01}
	groups := optim.Groups{Optimizer: adam, Groups: []optim.Group{{Names: []string{"body"}, Frozen: true}}}
	for _, tt := range []struct {
		name        string
		first, next optim.Optimizer
		want        int // steps after 2 of the first and 1 of the next one
	}{
		{"adam, sgd", adam, sgd, 1}, {"sgd, adam", sgd, adam, 1}, {"averages, sgd", optim.EMA{Optimizer: adam}, optim.Scheduled{Optimizer: sgd, Schedule: optim.Exponential{By: 0.5}}, 1},
		{"adam, adam", adam, adam, 3}, {"averages, none", optim.EMA{Optimizer: adam}, adam, 3}, {"all, some", adam, groups, 3}, {"sgd, sgd", sgd, optim.Clipped{Optimizer: sgd, Norm: 1}, 3},
	} {
		n := attach(t, s, "n", body(), Config{Optimizer: tt.first, FirstLook: true})
		data := load(t, n, "bars", digits(32, n.model.Input, 1))
		if _, err := n.Fit(data, Train{Batch: 16}); err != nil {
			t.Fatal(err)
		}
		n = attach(t, s, "n", body(), Config{Optimizer: tt.next, FirstLook: true})
		if _, err := n.Fit(data, Train{Batch: 32}); err != nil {
			t.Fatal(err)
		}
		if got, err := n.stepsDone(); err != nil || got != tt.want {
			t.Errorf("%s: got %d steps, %v, want %d", tt.name, got, err, tt.want)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStop holds that a run ends soon after its context, keeps what was done,
// and says so.
func TestStop(t *testing.T) {
	for name, packed := range map[string]bool{"arrays": false, "packed": true} {
		t.Run(name, func(t *testing.T) { stops(t, packed) })
	}
}

func stops(t *testing.T, packed bool) {
	s := open(t)
	n := attach(t, s, "cnn", small(), Config{})
	n.packing = packed
	data := load(t, n, "bars", digits(5000, n.model.Input, 1))
	ctx, cancel := context.WithCancel(context.Background())
	var stopped time.Time
	h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 100000, Batch: 5, Progress: func(p Progress) {
		if p.Step > 50 && stopped.IsZero() {
			stopped = time.Now()
			cancel()
		}
	}})
	// The promise is half a second, which scripts/test timing holds; chunks end after
	// 100 ms or so, which TestTurns does. Elsewhere the machine may stall; without a
	// stop the run takes hours.
	most := 10 * time.Second
	if os.Getenv("GAIDEN_TIMING") != "" {
		most = 500 * time.Millisecond
	}
	if took := time.Since(stopped); took > most {
		t.Errorf("stop: took %v, want %v at most", took, most)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stop: got error %v, want context.Canceled", err)
	}
	if h.Steps == 0 || h.Stopped == "" || len(h.Losses) != h.Steps {
		t.Errorf("history: got %d steps, %d losses, stopped %q", h.Steps, len(h.Losses), h.Stopped)
	}
	var step [1]int32
	a, err := s.Array("cnn/step")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Values(step[:]); err != nil || int(step[0]) != h.Steps {
		t.Errorf("steps kept: got %d, %v, want %d", step[0], err, h.Steps)
	}
	if packed && h.Dropped != 0 {
		t.Errorf("steps dropped: got %d with %d, want none of a packed state", h.Dropped, h.Steps)
	}
}

// TestDropped holds that History says what else the devices did than what was kept.
func TestDropped(t *testing.T) {
	s := open(t)
	n := attach(t, s, "cnn", small(), Config{})
	n.unroll = 1
	data := load(t, n, "bars", digits(5000, n.model.Input, 1))
	if _, err := n.Fit(data, Train{Batch: 5}); err != nil { // which finds the pace
		t.Fatal(err)
	}
	chunks := func() (runs int64) { // of all sessions of the worker; other programs shuffle
		all, err := s.Ask(wire.AskBody{Verb: wire.Programs})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Programs {
			if strings.Contains(p.Name, "epoch") {
				runs += p.Runs
			}
		}
		return runs
	}
	before := chunks()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	chunk := 0
	h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 100000, Batch: 5, Progress: func(p Progress) {
		if p.Phase == "train" && p.Step > 0 && chunk == 0 {
			chunk = p.Step
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || h.Steps != chunk || h.Dropped == 0 {
		t.Fatalf("got %d steps and %d dropped, %v, want %d, some that were requested ahead, and context.Canceled", h.Steps, h.Dropped, err, chunk)
	}
	s.Wait() // what was requested ahead may still be at work
	if got := chunks() - before; got != 2 {
		t.Errorf("got %d chunks, want 2: one was kept, one dropped, and none was requested after the stop", got)
	}
}

// TestEarlyStop holds threshold and patience.
func TestEarlyStop(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "cnn", small(), Config{})
	data := load(t, n, "bars", digits(100, n.model.Input, 1))
	h, err := n.Fit(data, Train{Epochs: 50, Batch: 10, Threshold: 1e9})
	if err != nil || len(h.Epochs) != 1 || !strings.Contains(h.Stopped, "threshold") {
		t.Errorf("threshold: got %d epochs, stopped %q, %v, want 1", len(h.Epochs), h.Stopped, err)
	}
	h, err = n.Fit(data, Train{Epochs: 50, Batch: 10, LearningRate: 1e-30, Patience: 2, Validation: data})
	if err != nil || len(h.Epochs) != 3 || !strings.Contains(h.Stopped, "2 epochs") {
		t.Errorf("patience: got %d epochs, stopped %q, %v, want 3", len(h.Epochs), h.Stopped, err)
	}
}

// TestWild holds that devices which share a batch, and look at their gradients only,
// do not take a step that might make weights infinite, however small these are.
func TestWild(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "net", small(), Config{Optimizer: optim.SGD{Momentum: 0.9}, Devices: 2, AllDevices: true, FirstLook: true})
	n.packing = true
	data := load(t, n, "bars", digits(40, n.model.Input, 1))
	if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 10}); err != nil {
		t.Fatal(err)
	}
	before, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{1e31, 3e38} {
		_, err = n.WithContext(ctx).Fit(data, Train{Batch: 10, LearningRate: rate})
		var e *result.NotFiniteError
		if !errors.As(err, &e) || e.Step != 1 {
			t.Errorf("rate %g: got error %v, want a NotFiniteError at step 1", rate, err)
		}
		if after, err := n.WithContext(ctx).Evaluate(data); err != nil || after.Loss != before.Loss {
			t.Errorf("rate %g: got a loss of %v afterwards, error %v, want that of before, %v", rate, after.Loss, err, before.Loss)
		}
	}
}

// TestPartialBatch holds that the mean loss of an epoch is that over real
// examples, and so is Test's.
func TestPartialBatch(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	net := small()
	net.Layers = slices.Delete(net.Layers, 3, 4) // dropout
	n := attach(t, s, "cnn", net, Config{Optimizer: optim.SGD{}})
	all := digits(701, n.model.Input, 1)
	data := load(t, n, "bars", all)
	score, err := n.WithContext(ctx).Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.WithContext(ctx).Predict(all.X)
	if err != nil {
		t.Fatal(err)
	}
	want, right := 0.0, 0
	for i, label := range all.Y.([]int32) {
		want -= math.Log(p.Probabilities(i)[label]) / 701
		if p.Classes[i] == label {
			right++
		}
	}
	if math.Abs(score.Loss-want) > 1e-5 || score.Right != right {
		t.Errorf("test: got %v, want loss %v and %d right", score, want, right)
	}
	h, err := n.WithContext(ctx).Fit(data, Train{Batch: 100, LearningRate: 1e-30})
	if err != nil {
		t.Fatal(err)
	}
	if e := h.Last().Train; math.Abs(e.Loss-want) > 1e-5 || e.Right != right || e.N != 701 || h.Steps != 8 {
		t.Errorf("epoch without learning: got %v of %d in %d steps, want loss %v, %d right of 701 in 8", e, e.N, h.Steps, want, right)
	}
}

// TestIsEnd holds that Stop hides the error of the context that has ended, and no other.
func TestIsEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("pressed")
	for _, tt := range []struct {
		err  error
		want bool
	}{{context.Canceled, false}, {nil, false}} {
		if got := isEnd(ctx, tt.err); got != tt.want {
			t.Errorf("before: %v: got %t, want %t", tt.err, got, tt.want)
		}
	}
	cancel(why)
	for _, tt := range []struct {
		err  error
		want bool
	}{{why, true}, {context.Canceled, true}, {fmt.Errorf("fit: net: %w", why), true}, {&result.NotFiniteError{}, false}, {errors.New("no room"), false}, {nil, false}} {
		if got := isEnd(ctx, tt.err); got != tt.want {
			t.Errorf("after: %v: got %t, want %t", tt.err, got, tt.want)
		}
	}
}
