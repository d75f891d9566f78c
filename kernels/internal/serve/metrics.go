package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// metrics are what /metrics shows, in Prometheus's text format.
type metrics struct {
	mu       sync.Mutex // protects following
	codes    map[int]int64
	examples int64
	batches  [8]int64 // by size: 1, 2, 4, … 64, more
	seconds  [len(bounds) + 1]int64
	sum      float64
	count    int64
}

// bounds are those of the histogram of answers' times, in seconds.
var bounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

func (m *metrics) answered(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.codes[code]++
}

func (m *metrics) took(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 0
	for i < len(bounds) && d.Seconds() > bounds[i] {
		i++
	}
	m.seconds[i]++
	m.sum, m.count = m.sum+d.Seconds(), m.count+1
}

func (m *metrics) ran(examples int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 0
	for i < len(m.batches)-1 && examples > 1<<i {
		i++
	}
	m.batches[i]++
	m.examples += int64(examples)
}

func (m *metrics) write(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	head := func(name, kind, help string) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	head("gaiden_requests_total", "counter", "Requests for predictions, and requests that were refused, by HTTP status.")
	for _, code := range slices.Sorted(maps.Keys(m.codes)) {
		fmt.Fprintf(w, "gaiden_requests_total{code=\"%d\"} %d\n", code, m.codes[code])
	}
	head("gaiden_request_seconds", "histogram", "Time from a request to its answer.")
	total := int64(0)
	for i, bound := range bounds {
		total += m.seconds[i]
		fmt.Fprintf(w, "gaiden_request_seconds_bucket{le=\"%g\"} %d\n", bound, total)
	}
	fmt.Fprintf(w, "gaiden_request_seconds_bucket{le=\"+Inf\"} %d\ngaiden_request_seconds_sum %g\ngaiden_request_seconds_count %d\n", m.count, m.sum, m.count)
	head("gaiden_batch_examples", "histogram", "Examples that were computed together.")
	total = 0
	for i, n := range m.batches {
		total += n
		bound := fmt.Sprint(1 << i)
		if i == len(m.batches)-1 {
			bound = "+Inf"
		}
		fmt.Fprintf(w, "gaiden_batch_examples_bucket{le=%q} %d\n", bound, total)
	}
	fmt.Fprintf(w, "gaiden_batch_examples_sum %d\ngaiden_batch_examples_count %d\n", m.examples, total)
}
