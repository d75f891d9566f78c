package plan

import (
	"slices"
	"time"

	"gaiden/lib/lower"
)

// Thresholds of a training's chunks, tests and sums over devices: see cost.go for the others.
const (
	// ChunkTime is how long a chunk of steps should take. A short cell of another notebook
	// waits for the running chunk and the one that is pending, 100 ms at most; a fifth of
	// that is left for a busy machine. A longer step is a chunk by itself.
	ChunkTime = 40 * time.Millisecond
	// largeStateBytes is the size of a state whose copies cost more than a few milliseconds
	// in which the devices have nothing to do.
	largeStateBytes = 128 << 20
	// RecomputeBytes is the size of a batch norm's output from which a GPU computes it twice
	// rather than keeping it: much less memory for little time.
	RecomputeBytes = 16 << 20
	// BucketedElements is how many gradient elements devices add up in one piece. More are
	// divided into buckets.
	BucketedElements = 16 << 20
	// A bucket has at least one part in bucketShare of all elements. The last one, whose
	// all-reduce no computation hides, has at most one part in lastShare.
	bucketShare, lastShare = 10, 16
	// A batch of a test or prediction has so many examples and numbers at most: enough to
	// keep a device busy, few enough for its memory.
	mostTestExamples, leastTestExamples, testNumbers = 500, 16, 2_000_000
	// jobTestBatches is how many of these a job on a GPU does between two looks at other
	// clients.
	jobTestBatches = 16
)

// merge makes all epochs one where each is a single step that nothing is decided after.
func (p *Plan) merge() {
	if p.FullBatch && p.Epochs > 1 && !p.Watched && p.Settings.Devices < 2 {
		p.Merged, p.Steps = true, p.Epochs
	}
}

// ChunkTurns is how many of the turns that are left the next chunk does, with steps that
// take so long; 0: not known.
func (p Part) ChunkTurns(step time.Duration, left int) int {
	if step == 0 {
		return 1
	}
	return max(1, min(left, p.Limit, int(ChunkTime/max(1, step*time.Duration(p.Turn())))))
}

// Pending is how many chunks may be unfinished when the next one is requested. It is none
// until it is known how long a step takes; nor while a large state gets its names, since a
// third copy would add to a step's memory; nor with a large state on a CPU, where a request
// costs little compared with a step.
func (t Training) Pending(step time.Duration, binding bool) int {
	if step == 0 || t.StateBytes >= largeStateBytes && (t.Target.CPU() || binding) {
		return 0
	}
	return 1
}

// BindInterval is how often a packed state is bound to its names, which takes milliseconds,
// during which the devices wait if it is large.
func (t Training) BindInterval() time.Duration {
	if t.StateBytes >= largeStateBytes {
		return 2 * time.Second
	}
	return 500 * time.Millisecond
}

// StepTime is how long a step takes, by what is known (0: nothing) and by a chunk. A chunk
// far shorter than ChunkTime counts for less: on a busy machine the host may hear late of
// the end of one chunk, and the next then seems to take no time.
func StepTime(known, took time.Duration, steps int) time.Duration {
	seen := max(1, took/time.Duration(steps))
	if known == 0 || took >= ChunkTime/4 {
		return seen
	}
	return known + time.Duration(float64(seen-known)*float64(took)/float64(ChunkTime/4))
}

// TestBatch is how many examples of so many numbers are tested or predicted together.
func TestBatch(examples, numbers int) int {
	return min(examples, max(leastTestExamples, min(mostTestExamples, testNumbers/numbers)))
}

// JobTestBatches is how many batches of a test a job does in one run.
func JobTestBatches(t lower.Target, convolves bool, batches int) int {
	if t.CPU() || Unlooped(t, convolves) {
		return 1
	}
	return min(batches, jobTestBatches)
}

// Buckets divides layers, given by the elements of their gradients, where devices share
// batches: while the backward pass of a bucket's layers runs, the gradients of the bucket
// after it are added up over the devices. It returns the last layer of each bucket; there
// is one bucket where there are no more than least elements.
func Buckets(elements []int, least int) (last []int) {
	total, size := 0, 0
	for _, n := range elements {
		total += n
	}
	last = []int{len(elements) - 1}
	if total <= least {
		return last
	}
	rest := total // elements of this bucket's layers and those before it
	for j := len(elements) - 1; j > 0; j-- {
		size += elements[j]
		left := rest - size
		if rest > total/lastShare && left > 0 && (size >= total/bucketShare || left <= total/lastShare) {
			last = append(last, j-1)
			size, rest = 0, left
		}
	}
	slices.Reverse(last)
	return last
}
