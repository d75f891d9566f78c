package plan

import (
	"slices"
	"testing"
	"time"

	"gaiden/lib/lower"
)

// TestChunkTurns holds that a chunk and the one after it take less than the 100 ms that
// another notebook may wait, and that a longer step is a chunk by itself.
func TestChunkTurns(t *testing.T) {
	for _, tt := range []struct {
		step       time.Duration
		left, want int // turns of 10 steps
	}{
		{0, 50, 1}, // not known: try one
		{time.Millisecond, 50, 4},
		{1300 * time.Microsecond, 50, 3},
		{time.Millisecond, 3, 3},
		{10 * time.Millisecond, 50, 1}, // a turn is longer
		{2 * time.Second, 50, 1},
		{time.Microsecond, 5000, 100}, // the program's limit
	} {
		got := Part{Inner: 10, Unroll: 1, Limit: 100}.ChunkTurns(tt.step, tt.left)
		if got != tt.want {
			t.Errorf("%v a step, %d turns left: got %d, want %d", tt.step, tt.left, got, tt.want)
		}
		if took := 2 * tt.step * time.Duration(10*got); got > 1 && took > 100*time.Millisecond {
			t.Errorf("%v a step: two chunks take %v, want 100 ms at most", tt.step, took)
		}
	}
}

// TestPeeledChunks holds that how long a chunk of a peeled loop is depends on no clock: its
// first turn may differ in the last bits, and one seed twice must give the same losses.
func TestPeeledChunks(t *testing.T) {
	for _, flops := range []float64{1e6, 4e8, 1e9, 9e9} {
		q := Training{Target: lower.Target{Platform: "cpu", Devices: 1}, StateBytes: 8 << 20, Batch: 8, Steps: 500}
		q.Work.FLOPs = flops
		p := decide(t, q).Main
		if p.Form != Peeled {
			t.Fatalf("%.0e FLOPs: got form %d, want a peeled loop", flops, p.Form)
		}
		want := p.ChunkTurns(0, 400)
		for _, step := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
			if got := p.ChunkTurns(step, 400); got != want || got < 1 || got > 400 {
				t.Errorf("%.0e FLOPs, %v a step: got %d turns, want %d", flops, step, got, want)
			}
		}
	}
}

// TestPending holds when a chunk is requested before the last one has ended, and how often
// a packed state gets its names.
func TestPending(t *testing.T) {
	const small, large = 40, 1 << 28
	for _, tt := range []struct {
		name     string
		platform string
		bytes    int64
		step     time.Duration
		binding  bool
		want     int
		interval time.Duration
	}{
		{"the first", "cuda", small, 0, false, 0, 500 * time.Millisecond},
		{"the second", "cuda", small, time.Second, false, 1, 500 * time.Millisecond},
		{"a small state gets its names", "cuda", small, time.Second, true, 1, 500 * time.Millisecond},
		{"a large state", "cuda", large, time.Second, false, 1, 2 * time.Second},
		{"a large state gets its names", "cuda", large, time.Second, true, 0, 2 * time.Second},
		{"a CPU", "cpu", small, time.Second, false, 1, 500 * time.Millisecond},
		{"a CPU, a large state", "cpu", large, time.Second, false, 0, 2 * time.Second},
	} {
		q := Training{Target: lower.Target{Platform: tt.platform}, StateBytes: tt.bytes}
		if got := q.Pending(tt.step, tt.binding); got != tt.want {
			t.Errorf("%s: got %d chunks, want %d", tt.name, got, tt.want)
		}
		if got := q.BindInterval(); got != tt.interval {
			t.Errorf("%s: got names every %v, want %v", tt.name, got, tt.interval)
		}
	}
}

// TestStepTime holds that the time of a step follows chunks of about lower.ChunkTime at once, and
// that a short one, whose end may have been heard of late, changes it little.
func TestStepTime(t *testing.T) {
	for _, tt := range []struct {
		name        string
		known, took time.Duration
		steps       int
		want        time.Duration
	}{
		{"nothing known", 0, 3 * time.Millisecond, 3, time.Millisecond},
		{"slower", time.Millisecond, 80 * time.Millisecond, 40, 2 * time.Millisecond},
		{"faster", 4 * time.Millisecond, 20 * time.Millisecond, 10, 2 * time.Millisecond},
		{"one step that seems to take no time", 10 * time.Millisecond, time.Microsecond, 1, 9999 * time.Microsecond},
		{"one step", 10 * time.Millisecond, 5 * time.Millisecond, 1, 7500 * time.Microsecond},
	} {
		if got := StepTime(tt.known, tt.took, tt.steps); (got - tt.want).Abs() > tt.want/1000 {
			t.Errorf("%s: got %v a step, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTestBatch(t *testing.T) {
	for _, tt := range []struct{ examples, numbers, want int }{
		{10000, 784, 500},
		{100, 784, 100},          // all there are
		{10000, 150_528, 16},     // large images
		{10000, 20_000, 100},     // by the numbers
		{10, 10_000_000, 10},     // fewer than the least
		{10000, 1_000_000_0, 16}, // the least
	} {
		if got := TestBatch(tt.examples, tt.numbers); got != tt.want {
			t.Errorf("%d examples of %d numbers: got batches of %d, want %d", tt.examples, tt.numbers, got, tt.want)
		}
	}
	for _, tt := range []struct {
		platform  string
		convolves bool
		want      int
	}{{"cpu", false, 1}, {"cpu", true, 1}, {"cuda", true, 16}} {
		if got := JobTestBatches(lower.Target{Platform: tt.platform}, tt.convolves, 40); got != tt.want {
			t.Errorf("a job on %s: got %d batches in a run, want %d", tt.platform, got, tt.want)
		}
	}
}

// TestBuckets holds how layers are divided: not at all where there is little to add up, else
// into parts of a tenth at least, with little left for the first layers.
func TestBuckets(t *testing.T) {
	for _, tt := range []struct {
		name     string
		elements []int
		least    int
		want     []int
	}{
		{"little", []int{10, 10, 10}, 30, []int{2}},
		{"one layer", []int{100}, 0, []int{0}},
		{"even", []int{10, 10, 10, 10}, 0, []int{0, 1, 2, 3}},
		{"small ones are joined", []int{1, 40, 3, 3, 3, 50}, 0, []int{0, 4, 5}},
		{"most in the first layer", []int{94, 2, 2, 2}, 0, []int{3}},
		{"nothing before", []int{0, 0, 50, 50}, 0, []int{2, 3}},
	} {
		if got := Buckets(tt.elements, tt.least); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got buckets that end with %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMerge holds that epochs are one loop only where each is a single step that nobody
// looks at.
func TestMerge(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    Training
		want bool
	}{
		{"full batches", Training{FullBatch: true, Epochs: 50}, true},
		{"one epoch", Training{FullBatch: true, Epochs: 1}, false},
		{"smaller batches", Training{Epochs: 50}, false},
		{"a validation", Training{FullBatch: true, Epochs: 50, Watched: true}, false},
		{"two devices", Training{FullBatch: true, Epochs: 50, Settings: Settings{Devices: 2}}, false},
	} {
		tt.q.Target, tt.q.Batch, tt.q.Steps = lower.Target{Platform: "cpu", Devices: 2}, 8, 1
		p := decide(t, tt.q)
		steps := 1
		if tt.want {
			steps = 50
		}
		if p.Merged != tt.want || p.Main.Turns*p.Main.Turn() != steps {
			t.Errorf("%s: got merged %t, %d steps, want %t, %d", tt.name, p.Merged, p.Main.Turns*p.Main.Turn(), tt.want, steps)
		}
	}
}
