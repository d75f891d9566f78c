package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/wire"
	"gaiden/lib/models"
)

// TestOutOfMemory holds that a run that does not fit names the largest arrays
// and a smaller batch, and leaves the net as it was.
func TestOutOfMemory(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "net", models.MLP(200), Config{})
	data := load(t, n, "bars", digits(64, n.model.Input, 1))
	before, err := n.Test(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Quota(3 << 20); err != nil { // the net has 2.4 MB
		t.Fatal(err)
	}
	_, err = n.Train(ctx, data, Train{Batch: 32})
	var e *MemoryError
	if !errors.As(err, &e) || !errors.Is(err, wire.OutOfMemory) {
		t.Fatalf("got error %v, want a MemoryError", err)
	}
	if !strings.Contains(e.Hint(), "a batch of 16 may fit") || !strings.Contains(e.Hint(), "net/l1/weights") {
		t.Errorf("hint: got %q, want a batch of 16 and the largest arrays", e.Hint())
	}
	if err := s.Quota(-1); err != nil {
		t.Fatal(err)
	}
	after, err := n.Test(ctx, data)
	if err != nil || after.Loss != before.Loss {
		t.Errorf("afterwards: got %v, %v, want %v", after, err, before)
	}
	if _, err := n.Train(ctx, data, Train{Batch: 32}); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestOutOfMemoryNet holds that a net that does not fit is an error of the call that
// makes it, and leaves nothing in the session that would pass for another net.
func TestOutOfMemoryNet(t *testing.T) {
	s := open(t)
	large := New("large", models.MLP(1<<20), Config{Session: s}) // 4 TB
	_, err := large.Load("bars", digits(10, []int{784}, 1))
	var e *MemoryError
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
	if _, err := small.Train(context.Background(), load(t, small, "bars", digits(10, []int{784}, 1)), Train{Batch: 5}); err != nil {
		t.Errorf("a net of that name that fits: %v", err)
	}
}

// TestOutOfMemoryLate holds the same where the device finds out while it works, as GPUs
// do: of the programs that are asked for meanwhile the next cell hears nothing.
func TestOutOfMemoryLate(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	greedy := models.Func("greedy", []int{4}, func(scope *model.Scope, x *Node) *Node {
		d := x.Shape().Dimensions
		y := layers.Dense(scope, x, true, 10)
		many := Sort(Mul(ReduceAllSum(StopGradient(x)), Iota(x.Graph(), shapes.Make(dtypes.Float32, 1<<d[0]), 0)), 0, true) // 4 TB for 40 examples
		return Add(y, Reshape(Slice(many, AxisRange(0, 1)), 1, 1))
	})
	for _, packed := range []bool{false, true} {
		n := attach(t, s, "greedy"+fmt.Sprint(packed), greedy, Config{})
		n.packing = packed
		data := load(t, n, "bars", digits(40, []int{4}, 1))
		before, err := n.Weights()
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Train(ctx, data, Train{Batch: 40, Epochs: 2, Validation: data})
		if !errors.As(err, new(*MemoryError)) {
			t.Fatalf("packed %t: got error %v, want a MemoryError", packed, err)
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
		if _, err := n.Train(ctx, data, Train{Batch: 4}); err != nil {
			t.Errorf("packed %t: a batch that fits: %v", packed, err)
		}
	}
}

// TestNeeds holds that what a step keeps for its gradients grows with the batch,
// and is what the layers' outputs take.
func TestNeeds(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.MLP(200), Config{})
	data := load(t, n, "bars", digits(64, n.model.Input, 1))
	state, few := n.needs(data, 8)
	_, many := n.needs(data, 64)
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
		if got := fitting(tt.batch, tt.state, tt.kept, tt.free); got != tt.want {
			t.Errorf("fitting(%d, %d, %d, %d): got %d, want %d", tt.batch, tt.state, tt.kept, tt.free, got, tt.want)
		}
	}
}
