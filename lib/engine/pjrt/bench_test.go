package pjrt

import (
	"fmt"
	"testing"
	"time"
)

// One step of n small tensors, donated and aliased but where the name says so.
// µs/step includes what the device does.
func benchmarkExecute(b *testing.B, n int, donor bool, mode Mode) {
	c := client(b)
	p := compile(b, c, increments(n, 16, donor))
	st := vectors(b, c, n, 16)
	donate := all(n)
	told := make(chan error, 1)
	done := func(err error) { told <- err }
	start := time.Now()
	for b.Loop() {
		if err := p.Execute(st, st, donate, nil, mode, done); err != nil {
			b.Fatal(err)
		}
		if mode == Notify {
			if err := <-told; err != nil {
				b.Fatal(err)
			}
		}
	}
	first(b, c, st[n-1], 16) // the work is done
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/1e3/float64(b.N), "µs/step")
	free(b, c, st...)
}

func BenchmarkExecute1(b *testing.B)         { benchmarkExecute(b, 1, true, Async) }
func BenchmarkExecute31(b *testing.B)        { benchmarkExecute(b, 31, true, Async) }
func BenchmarkExecute31Wait(b *testing.B)    { benchmarkExecute(b, 31, true, Wait) }
func BenchmarkExecute31Notify(b *testing.B)  { benchmarkExecute(b, 31, true, Notify) }
func BenchmarkExecute31NoAlias(b *testing.B) { benchmarkExecute(b, 31, false, Async) }
func BenchmarkExecute100(b *testing.B)       { benchmarkExecute(b, 100, true, Async) }

func BenchmarkTransfer(b *testing.B) {
	for _, n := range []int{4, 64 << 10, 64 << 20} {
		c := client(b)
		data := make([]byte, n)
		b.Run(fmt.Sprintf("up %d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				x, err := c.Upload(data, Uint8, []int{n}, nil)
				if err != nil {
					b.Fatal(err)
				}
				free(b, c, x)
			}
		})
		b.Run(fmt.Sprintf("down %d", n), func(b *testing.B) {
			x := must[Buffer](b)(c.Upload(data, Uint8, []int{n}, nil))
			b.SetBytes(int64(n))
			for b.Loop() {
				if err := c.Download(x, data); err != nil {
					b.Fatal(err)
				}
			}
			free(b, c, x)
		})
	}
}
