package plan

import (
	"slices"
	"time"

	"gaiden/lib/lower"
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
	if p.Chunk > 0 {
		return max(1, min(left, p.Limit, p.Chunk))
	}
	if step == 0 {
		return 1
	}
	return max(1, min(left, p.Limit, int(lower.ChunkTime/max(1, step*time.Duration(p.Turn())))))
}

// Pending is how many chunks may be unfinished when the next one is requested. It is none
// until it is known how long a step takes; nor while a large state gets its names, since a
// third copy would add to a step's memory; nor with a large state on a CPU, where a request
// costs little compared with a step.
func (t Training) Pending(step time.Duration, binding bool) int {
	if step == 0 || t.StateBytes >= lower.LargeStateBytes && (t.Target.CPU() || binding) {
		return 0
	}
	return 1
}

// BindInterval is how often a packed state is bound to its names, which takes milliseconds,
// during which the devices wait if it is large.
func (t Training) BindInterval() time.Duration {
	if t.StateBytes >= lower.LargeStateBytes {
		return 2 * time.Second
	}
	return 500 * time.Millisecond
}

// StepTime is how long a step takes, by what is known (0: nothing) and by a chunk. A chunk
// far shorter than [lower.ChunkTime] counts for less: on a busy machine the host may hear late of
// the end of one chunk, and the next then seems to take no time.
func StepTime(known, took time.Duration, steps int) time.Duration {
	seen := max(1, took/time.Duration(steps))
	if known == 0 || took >= lower.ChunkTime/4 {
		return seen
	}
	return known + time.Duration(float64(seen-known)*float64(took)/float64(lower.ChunkTime/4))
}

// TestBatch is how many examples of so many numbers are tested or predicted together.
func TestBatch(examples, numbers int) int {
	return min(examples, max(lower.LeastTestExamples, min(lower.MostTestExamples, lower.TestNumbers/numbers)))
}

// JobTestBatches is how many batches of a test a job does in one run.
func JobTestBatches(t lower.Target, convolves bool, batches int) int {
	if t.CPU() || Unlooped(t, convolves) {
		return 1
	}
	return min(batches, lower.JobTestBatches)
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
		if rest > total/lower.LastShare && left > 0 && (size >= total/lower.BucketShare || left <= total/lower.LastShare) {
			last = append(last, j-1)
			size, rest = 0, left
		}
	}
	slices.Reverse(last)
	return last
}
