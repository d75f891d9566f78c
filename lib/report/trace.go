package report

// mostBuckets is how many points a trace has at most: more than the plot has pixels says
// nothing, and a run may have millions of steps.
const mostBuckets = 400

// A trace is a curve of any number of steps in bounded memory: each of its points is the
// mean of as many steps, which are twice as many whenever there are too many points.
type trace struct {
	every, steps int // of a point; all
	buckets      []bucket
}

// A bucket is some steps: the sum of their values and of what those are divided by, and the
// range of their means.
type bucket struct{ sum, weight, low, high float64 }

// add adds a step whose mean is sum by weight. A weight of 0 adds no value.
func (t *trace) add(sum, weight float64) {
	t.every = max(t.every, 1)
	if t.steps%t.every == 0 {
		if len(t.buckets) == mostBuckets {
			for i := range mostBuckets / 2 {
				t.buckets[i] = t.buckets[2*i].and(t.buckets[2*i+1])
			}
			t.buckets, t.every = t.buckets[:mostBuckets/2], 2*t.every
		}
		t.buckets = append(t.buckets, bucket{})
	}
	t.steps++
	last := &t.buckets[len(t.buckets)-1]
	*last = last.and(bucket{sum, weight, sum / weight, sum / weight})
}

// and is both; one without weight is as good as none.
func (b bucket) and(c bucket) bucket {
	switch {
	case b.weight == 0:
		return c
	case c.weight == 0:
		return b
	}
	return bucket{b.sum + c.sum, b.weight + c.weight, min(b.low, c.low), max(b.high, c.high)}
}

// series is the curve over the steps; each point stands in the middle of its steps. Where
// they are many, the band is their range.
func (t *trace) series(name string) Series {
	s := Series{Name: name}
	for i, b := range t.buckets {
		first, last := i*t.every+1, min((i+1)*t.every, t.steps)
		s.X, s.Y = append(s.X, float64(first+last)/2), append(s.Y, b.sum/b.weight)
		if t.every > 1 {
			s.Low, s.High = append(s.Low, b.low), append(s.High, b.high)
		}
	}
	return s
}
