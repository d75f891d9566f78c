package fit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// inItems are examples a few at a time; each has so many.
func inItems(d Data, sizes ...int) iter.Seq2[Data, error] {
	return func(yield func(Data, error) bool) {
		size := len(d.X.([]byte)) / len(d.Y.([]int32))
		for from, i := 0, 0; from < len(d.Y.([]int32)); i++ {
			to := min(from+sizes[i%len(sizes)], len(d.Y.([]int32)))
			if !yield(Data{X: d.X.([]byte)[from*size : to*size], Y: d.Y.([]int32)[from:to]}, nil) {
				return
			}
			from = to
		}
	}
}

func streamOf(t testing.TB, n *Net, all iter.Seq2[Data, error], buffer int) *Set {
	t.Helper()
	s, err := n.Stream("bars/stream", all, buffer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStreamEqualsSet holds that a stream in order gives the numbers of the same examples
// from a set, whatever the sizes in which they come, and with all forms of steps.
func TestStreamEqualsSet(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		name    string
		net     models.Net
		config  Config
		train   Train
		buffer  int
		packing bool
		least   int // steps
	}{
		{"loop", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 40, false, 22},
		{"buffer that is no multiple", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 47, false, 22},
		{"one batch", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 10, false, 22},
		{"larger than the data", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 1000, false, 22},
		{"last batch dropped", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10, DropLast: true}, 50, false, 20},
		{"single steps", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 40, false, 22},
		{"packed", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 40, true, 22},
		{"unrolled", models.MLP(9), Config{}, Train{Epochs: 2, Batch: 10}, 50, false, 22},
		{"bf16", models.MLP(9), Config{BF16: true}, Train{Epochs: 1, Batch: 10}, 40, false, 11},
		{"dropout", small(), Config{}, Train{Epochs: 2, Batch: 10}, 40, false, 22},
		{"two devices", models.MLP(9), Config{Devices: 2, AllDevices: true}, Train{Epochs: 2, Batch: 10}, 40, false, 22},
		{"two devices, packed", models.MLP(9), Config{Devices: 2, AllDevices: true}, Train{Epochs: 2, Batch: 10}, 20, true, 22},
		{"steps", models.MLP(9), Config{}, Train{Steps: 15, Batch: 10}, 40, false, 15},
		{"steps, to a buffer's end", models.MLP(9), Config{}, Train{Steps: 15, Batch: 10}, 20, false, 15},
		{"steps, fewer than an epoch", models.MLP(9), Config{}, Train{Steps: 3, Batch: 10}, 40, false, 3},
		{"steps of whole epochs", models.MLP(9), Config{}, Train{Steps: 22, Batch: 10}, 40, false, 22},
		{"steps, last batch dropped", models.MLP(9), Config{}, Train{Steps: 25, Batch: 10, DropLast: true}, 50, false, 25},
		{"steps, packed", models.MLP(9), Config{}, Train{Steps: 13, Batch: 10}, 40, true, 13},
	} {
		d := digits(103, tt.net.Input, 1)
		tt.config.Seed, tt.config.FirstLook, tt.train.InOrder = 3, true, true
		a, b := attach(t, s, "a", tt.net, tt.config), attach(t, s, "b", tt.net, tt.config)
		for _, n := range []*Net{a, b} {
			n.packing = tt.packing
			switch tt.name {
			case "single steps":
				n.loop = plan.SingleSteps
			case "unrolled":
				n.unroll = 3
			}
		}
		set := load(t, a, "bars", d)
		tt.train.Validation = set
		want, err := a.Fit(set, tt.train)
		if err != nil {
			t.Fatal(err)
		}
		from := streamOf(t, b, inItems(d, 7, 1, 30), tt.buffer)
		tt.train.Validation = streamOf(t, b, inItems(d, 9), 33)
		got, err := b.Fit(from, tt.train)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if len(b.deviceCopies) > 0 {
			t.Errorf("%s: %d copies of blocks are left on other devices, want none", tt.name, len(b.deviceCopies))
		}
		if got.Steps != tt.least || !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Right, want.Right) {
			t.Errorf("%s: got %d steps of losses %v, want %d of %v", tt.name, got.Steps, got.Losses, want.Steps, want.Losses)
		}
		if len(got.Epochs) != len(want.Epochs) {
			t.Errorf("%s: got %d epochs, want %d", tt.name, len(got.Epochs), len(want.Epochs))
			continue
		}
		for i, e := range got.Epochs {
			w := want.Epochs[i]
			if e.Train.N != w.Train.N || e.Train.Right != w.Train.Right || math.Abs(e.Validation.Loss-w.Validation.Loss) > 1e-5 || e.Validation.N != 103 || e.Validation.Right != w.Validation.Right {
				t.Errorf("%s: epoch %d: got %v and %v, want %v and %v", tt.name, i+1, e.Train, e.Validation, w.Train, w.Validation)
			}
		}
		a.Reset()
		b.Reset()
	}
	if l, err := s.List("data/bars/stream"); err != nil || len(l) > 0 {
		t.Errorf("got %v, %v in the session, want nothing of a stream", l, err)
	}
}

// TestStreamShuffles holds that the seed decides the order of a buffer, and that each
// example counts once in an epoch.
func TestStreamShuffles(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := digits(60, []int{16}, 1)
	run := func(name string, seed int64) *History {
		n := attach(t, s, name, small(), Config{Seed: seed, FirstLook: true})
		defer n.Reset()
		h, err := n.Fit(streamOf(t, n, inItems(d, 11), 30), Train{Epochs: 2, Batch: 10})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b, c := run("a", 1), run("b", 1), run("c", 2)
	if !slices.Equal(a.Losses, b.Losses) || slices.Equal(a.Losses, c.Losses) {
		t.Errorf("got %v and %v of one seed, %v of another", a.Losses, b.Losses, c.Losses)
	}
	// Weights that do not change show which examples were in an epoch.
	n := attach(t, s, "d", models.Net{Name: "line", Input: []int{1}, Layers: []models.Layer{models.Dense{Name: "out", Units: 1, NoBias: true}}}, Config{FirstLook: true, Loss: losses.MSE{}})
	if err := n.SetWeights([]Tensor{{Name: "out/weights", Dims: []int{1, 1}, Data: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 8)
	for i := range x {
		x[i] = float32(int(1) << i)
	}
	set, err := n.Stream("powers", func(yield func(Data, error) bool) {
		_ = yield(Data{X: x[:5], Y: make([]float32, 5)}, nil) && yield(Data{X: x[5:], Y: make([]float32, 3)}, nil)
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Fit(set, Train{Epochs: 2, Batch: 1, LearningRate: 1e-30})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]float32{h.Losses[:4], h.Losses[4:8], h.Losses[8:12], h.Losses[12:]} {
		sum := float32(0)
		for _, l := range part {
			sum += l
		}
		if want := float32(1 + 4 + 16 + 64); sum != want && sum != 256*want {
			t.Errorf("got losses %v, want each of a buffer's examples once", h.Losses)
		}
	}
	if slices.Equal(h.Losses[:8], h.Losses[8:]) || slices.IsSorted(h.Losses[:4]) && slices.IsSorted(h.Losses[4:8]) {
		t.Errorf("got losses %v, want orders that differ", h.Losses)
	}
}

// TestStreamOverlaps holds that a block is uploaded while the steps of the one before it
// run, and that the devices do not wait for an iterator that is fast.
func TestStreamOverlaps(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.MLP(64), Config{FirstLook: true})
	d := digits(2000, n.model.Input, 1)
	set := load(t, n, "bars", d)
	if _, err := n.Fit(set, Train{Batch: 10, InOrder: true}); err != nil { // how long a step takes is known then
		t.Fatal(err)
	}
	var pending []int
	n.streamed = func(p int) { pending = append(pending, p) }
	h, err := n.Fit(streamOf(t, n, inItems(d, 100), 200), Train{Epochs: 3, Batch: 10})
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	for _, p := range pending[1:] {
		if p == 0 {
			idle++
		}
	}
	if len(pending) != 30 || idle > 3 || h.Waits > 3 {
		t.Errorf("got %d uploads, %d of them with no steps running, %d waits: want 30, and hardly any", len(pending), idle, h.Waits)
	}
}

// TestStreamGoesOn: an iterator that ignores what yield returns is an error that says so, and
// hides none of another kind.
func TestStreamGoesOn(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "net", small(), Config{})
	d := digits(10, n.model.Input, 1)
	item := func(y []int32) Data { return Data{X: d.X, Y: y} }
	first := true
	for want, all := range map[string]iter.Seq2[Data, error]{
		"continues after yield has returned false: want if !yield": func(yield func(Data, error) bool) {
			for range 3 {
				yield(item(d.Y.([]int32)), nil)
			}
		},
		"disk is gone": func(yield func(Data, error) bool) {
			for range 3 {
				yield(Data{}, errors.New("disk is gone"))
			}
		},
		"label 0 is 10": func(yield func(Data, error) bool) {
			if yield(item(d.Y.([]int32)), nil); first {
				first = false
				return
			}
			for range 2 {
				yield(item([]int32{10, 0, 0, 0, 0, 0, 0, 0, 0, 0}), nil)
			}
		},
	} {
		set, err := n.Stream("stream", all, 20)
		if err == nil {
			_, err = n.Fit(set, Train{Batch: 10})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestStreamFaults holds what a run does whose iterator fails: the error says what and where,
// and the steps that were done count.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	s := open(t)
	broken := errors.New("disk is on fire")
	d := digits(40, []int{16}, 1)
	item := Data{X: d.X.([]byte)[:10*16], Y: d.Y.([]int32)[:10]}
	after := func(count int, then func(yield func(Data, error) bool)) iter.Seq2[Data, error] {
		return func(yield func(Data, error) bool) {
			for range count {
				if !yield(item, nil) {
					return
				}
			}
			then(yield)
		}
	}
	give := func(d Data, err error) func(func(Data, error) bool) {
		return func(yield func(Data, error) bool) { yield(d, err) }
	}
	epoch := 0
	for _, tt := range []struct {
		name  string
		all   iter.Seq2[Data, error]
		train Train
		steps int
		want  string
	}{
		{"an error", after(5, give(Data{}, broken)), Train{}, 4, "stream bars/stream, epoch 1: disk is on fire"},
		{"wrong examples", after(5, give(Data{X: make([]byte, 15), Y: []int32{1}}, nil)), Train{}, 4, "item 5 of the iterator: "},
		{"another type", after(5, give(Data{X: make([]float32, 16), Y: []int32{1}}, nil)), Train{}, 4, "examples are (Float32)[1, 16]/0/1/false, want (Uint8)[1, 16]/0/1/false as the first ones"},
		{"a label out of range", after(5, give(Data{X: make([]byte, 16), Y: []int32{10}}, nil)), Train{}, 4, "label 0 is 10"},
		{"a panic", after(5, func(func(Data, error) bool) { panic("oops") }), Train{}, 4, "the iterator: panic: oops\n\tgaiden/lib/fit.TestStreamFaults"},
		{"an epoch without examples", func(yield func(Data, error) bool) {
			if epoch++; epoch < 3 { // the first one is looked at when the stream is made
				yield(item, nil)
			}
		}, Train{Epochs: 2}, 1, "epoch 2: 0 examples, want at least 1"},
		{"less than a batch", after(1, give(Data{}, nil)), Train{Batch: 20, DropLast: true}, 0, "Data has no X"},
		{"too few", give(item, nil), Train{Batch: 20, DropLast: true}, 0, "10 examples, want at least 20"},
	} {
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), small(), Config{FirstLook: true})
		if tt.train.Batch == 0 {
			tt.train.Batch = 10
		}
		h, err := n.Fit(streamOf(t, n, tt.all, 20), tt.train)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.name == "an error" && !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		step, e := n.session.Array(n.name + "/step")
		done := make([]int32, 1)
		if e != nil || step.Values(done) != nil || h == nil || h.Steps > tt.steps || int(done[0]) != h.Steps {
			t.Errorf("%s: got history %v and step %v, %v, want the steps before the fault", tt.name, h, done, e)
		}
	}
	n := attach(t, s, "net", small(), Config{FirstLook: true})
	for _, tt := range []struct {
		all    iter.Seq2[Data, error]
		buffer int
		want   string
	}{
		{nil, 10, "the iterator is nil"},
		{inItems(d, 10), 0, "buffer of 0 examples"},
		{give(Data{}, broken), 10, "disk is on fire"},
		{func(func(Data, error) bool) {}, 10, "the iterator gives no examples"},
		{give(Data{X: make([]byte, 16)}, nil), 10, "Data has no Y"},
	} {
		if _, err := n.Stream("s", tt.all, tt.buffer); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	set, from := load(t, n, "set", d), streamOf(t, n, inItems(d, 10), 20)
	_, job := n.FitJob(from, Train{})
	_, validation := n.FitJob(set, Train{Validation: from})
	_, predicted := n.Predict(from)
	_, phases := n.Phases(from, 10)
	_, large := n.Fit(from, Train{Batch: 30})
	for what, err := range map[string]error{"a job of bars/stream, which is a stream": job, "the validation of a job of bars": validation, "predictions of bars": predicted, "phases of bars": phases,
		"batch of 30 from the 20 examples": large} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
	var seen Progress
	h, err := n.Fit(from, Train{Steps: 9, Batch: 10, Progress: func(p Progress) { seen = p }})
	if err != nil || h.Steps != 9 || len(h.Epochs) != 3 || h.Last().Train.N != 10 || seen.Done() != 1 || !strings.HasPrefix(seen.String(), "epoch 3/3, step 1/1, ") {
		t.Errorf("got %v, %v, %v, want 9 steps, the last one of epoch 3", h, seen, err)
	}
	if score, err := n.Evaluate(from); err != nil || score.N != 40 {
		t.Errorf("got %v, %v, want the score of 40 examples", score, err)
	}
}

// TestStreamStops holds that a run that is stopped while an iterator waits ends at once, with
// the steps that were done.
func TestStreamStops(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := digits(20, []int{16}, 1)
	ctx, stop := context.WithCancel(t.Context())
	blocked, first := make(chan bool), true
	t.Cleanup(func() { close(blocked) })
	n := attach(t, s, "net", small(), Config{FirstLook: true})
	set := streamOf(t, n, func(yield func(Data, error) bool) {
		more := yield(d, nil)
		if more {
			more = yield(d, nil)
		}
		if more && !first {
			<-blocked
		}
		first = false
	}, 20)
	first = false
	h, err := n.WithContext(ctx).Fit(set, Train{Batch: 10, Progress: func(p Progress) {
		if p.Step == 2 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) || h == nil || h.Steps < 2 {
		t.Errorf("got %v, %v, want the first block's steps", h, err)
	}
	if _, err := n.Evaluate(load(t, n, "set", d)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestStreamNotFinite: the example of a stream that ends a training is found on several devices,
// each of which has only a part of it, as it is on one.
func TestStreamNotFinite(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := digits(120, small().Input, 1)
	x := make([]float32, len(d.X.([]byte)))
	for i, b := range d.X.([]byte) {
		x[i] = float32(b) / 255
	}
	x[100*len(x)/120] = float32(math.Inf(1)) // example 40 of the second buffer
	var want *result.NotFiniteError
	for _, devices := range []int{1, 2} {
		n := attach(t, s, fmt.Sprint("net", devices), small(), Config{Seed: 3, Devices: devices, AllDevices: devices > 1, FirstLook: true})
		from := streamOf(t, n, func(yield func(Data, error) bool) { yield(Data{X: x, Y: d.Y}, nil) }, 60)
		_, err := n.Fit(from, Train{Epochs: 2, Batch: 20})
		var got *result.NotFiniteError
		if !errors.As(err, &got) || got.Example != 40 {
			t.Fatalf("%d devices: got %v, want that example 40 is not finite", devices, err)
		}
		if want == nil {
			want = got
		}
		if got.Step != want.Step || got.Kept < 3 || got.Kept >= got.Step || got.Part != want.Part { // the first buffer is kept, and of the second as much as a fast machine does at once
			t.Errorf("%d devices: got %+v, want %+v", devices, got, want)
		}
		if len(n.deviceCopies) > 0 {
			t.Errorf("%d devices: %d arrays are left on other devices, want none", devices, len(n.deviceCopies))
		}
	}
}
