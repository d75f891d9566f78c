package fit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// TestPauses: nothing is tried in the background while the process asks for
// something, be it of no net, waits for an answer, or trains the net itself.
func TestPauses(t *testing.T) {
	s := open(t)
	defer func(was time.Duration) { pause = was }(pause)
	pause = 300 * time.Millisecond // in which a busy machine lets everybody do something
	var mu sync.Mutex
	for _, tt := range []struct {
		name string
		work func(until func() bool)
	}{
		{"arrays", func(until func() bool) {
			for !until() {
				a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				a.Finalize()
				time.Sleep(time.Millisecond)
			}
		}},
		{"answers", func(until func() bool) {
			for !until() {
				if _, err := s.List(""); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}},
		{"a net's training", func(until func() bool) {
			mu.Lock()
			defer mu.Unlock()
			for !until() {
				time.Sleep(time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pauses{watched: s}
			var over atomic.Bool
			end, begun := time.Now().Add(8*pause), make(chan struct{})
			var begin sync.Once
			go tt.work(func() bool {
				begin.Do(func() { close(begun) })
				if time.Now().After(end) {
					over.Store(true)
				}
				return over.Load()
			})
			<-begun
			if p.wait(&mu); !over.Load() {
				t.Error("it does not wait for the work's end")
			}
			p.wait(&mu) // nor for ever, when there is none
		})
	}
}
