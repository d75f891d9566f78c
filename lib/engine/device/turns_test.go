package device

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestTurns holds that spaces that want a device all the time get equal parts of it, up to
// the slack and one program, whoever asks first or most often, and that somebody may always
// go. The clock is that of the device.
func TestTurns(t *testing.T) {
	const ms = time.Millisecond
	const slack = 50 * ms
	for _, tt := range []struct {
		name  string
		costs []time.Duration // of a space's programs
		deep  []int           // how many it has at work at most
	}{
		{"8 kernels with short steps", []time.Duration{ms, ms, ms, ms, ms, ms, ms, ms}, []int{1, 1, 1, 1, 1, 1, 1, 1}},
		{"one queues deep", []time.Duration{ms, ms, ms, ms, ms, ms, ms, ms}, []int{64, 1, 1, 1, 1, 1, 1, 1}},
		{"one has long programs", []time.Duration{40 * ms, ms, ms}, []int{2, 1, 1}},
		{"one has very long programs", []time.Duration{2000 * ms, ms}, []int{1, 1}},
		{"alone", []time.Duration{40 * ms}, []int{2}},
	} {
		r := rand.New(rand.NewPCG(7, 7))
		turns := newTurns(new(sync.Mutex))
		spaces := make([]*space, len(tt.costs))
		had, at := make([]time.Duration, len(spaces)), make([]int, len(spaces))
		longest := time.Duration(0)
		for i := range spaces {
			spaces[i] = &space{name: fmt.Sprint(i)}
			turns.want(spaces[i]) // its next one waits, always
			longest = max(longest, tt.costs[i])
		}
		var device []int // what it has to do, in order
		for range 20_000 {
			for range 20 { // the first space asks most often, and first
				i := min(r.IntN(2*len(spaces)), r.IntN(2*len(spaces))) % len(spaces)
				if at[i] < tt.deep[i] && turns.mayGo(spaces[i], slack) {
					turns.start(spaces[i], tt.costs[i])
					turns.want(spaces[i])
					at[i]++
					device = append(device, i)
				}
			}
			if len(device) == 0 {
				continue
			}
			i := device[0]
			device = device[1:]
			had[i] += tt.costs[i]
			at[i]--
			turns.done(spaces[i])
			for k := range had {
				if d := had[i] - had[k]; d > slack+2*longest+64*ms { // and what is in the queue
					t.Fatalf("%s: space %d has had %v, space %d %v", tt.name, i, had[i], k, had[k])
				}
			}
		}
		for i, d := range had {
			if d < time.Second {
				t.Errorf("%s: space %d has had %v of the device, want a part of it", tt.name, i, d)
			}
		}
	}
}

// TestTurnsIdle holds that who has not wanted the device for a while gets no more of it
// later, and that nobody waits for who does not want it.
func TestTurnsIdle(t *testing.T) {
	const ms = time.Millisecond
	turns := newTurns(new(sync.Mutex))
	a, b := &space{name: "a"}, &space{name: "b"}
	turns.want(b)
	turns.start(b, ms)
	turns.done(b)
	for range 1000 { // b is away
		if turns.want(a); !turns.mayGo(a, 0) {
			t.Fatal("a waits for nobody")
		}
		turns.start(a, 10*ms)
		turns.done(a)
	}
	turns.want(a)
	turns.want(b)
	n := 0
	for ; turns.mayGo(b, 0); n++ {
		turns.start(b, ms)
		turns.want(b)
	}
	if n == 0 || n > 20 {
		t.Errorf("b has %d executions of 1 ms before a has another of 10 ms, want about 10", n)
	}
	if !turns.mayGo(a, 0) {
		t.Error("neither may go")
	}
}
