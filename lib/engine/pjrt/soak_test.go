package pjrt

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Eight goroutines execute, upload, download and wait at once while the garbage
// collector runs; every value is exact and memory stays flat.
func TestSoak(t *testing.T) {
	c := client(t)
	const tensors, workers = 4, 8
	steps := 20000
	if testing.Short() {
		steps = 2000
	}
	p := compile(t, c, increments(tensors, 16, true))
	round := func() {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := soak(c, p, w, steps, tensors); err != nil {
					t.Errorf("worker %d: %v", w, err)
				}
			}()
		}
		wg.Wait()
	}
	stop := make(chan struct{})
	collected := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				collected <- n
				return
			case <-time.After(2 * time.Millisecond):
				runtime.GC()
				n++
			}
		}
	}()
	round() // fills the pools
	before := resident()
	round()
	round()
	close(stop)
	if n := <-collected; n < 3 {
		t.Errorf("got %d garbage collections, want several", n)
	}
	if grown := resident() - before; grown > 16<<10 {
		t.Errorf("resident memory grew by %d kB in %d steps, want less than 16 MB", grown, 2*workers*steps)
	}
	if n := len(p.frames.idle); n > workers {
		t.Errorf("got %d frames for %d goroutines, want no more of them", n, workers)
	}
}

func soak(c *Client, p *Program, worker, steps, tensors int) error {
	st := make([]Buffer, tensors)
	for i := range st {
		b, err := c.Upload(floats(16, float32(i)), Float32, []int{16}, nil)
		if err != nil {
			return err
		}
		st[i] = b
	}
	donate := all(tensors)
	buf := make([]byte, 64)
	told := make(chan error, 1)
	for i := range steps {
		mode := Mode((i + worker) % 50 % 3)
		if err := p.Execute(st, st, donate, nil, mode, func(err error) { told <- err }); err != nil {
			return err
		}
		if mode == Notify {
			if err := <-told; err != nil {
				return err
			}
		}
		if i%100 != 99 {
			continue
		}
		j := i / 100 % tensors
		if err := c.Download(st[j], buf); err != nil {
			return err
		}
		if got, want := float(buf, 5), float32(i+1+j); got != want {
			return fmt.Errorf("step %d tensor %d: got %v, want %v", i, j, got, want)
		}
		b, err := c.Upload(buf, Float32, []int{16}, nil)
		if err != nil {
			return err
		}
		if err := c.Free(st[j]); err != nil {
			return err
		}
		st[j] = b
	}
	for _, b := range st {
		if err := c.Free(b); err != nil {
			return err
		}
	}
	return nil
}
