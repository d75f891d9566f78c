package pjrt

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// Signals aimed at every thread, XLA's too, reach os/signal: no library has
// taken a handler away from Go.
func TestSignals(t *testing.T) {
	c := client(t)
	p := compile(t, c, loop(2000))
	x := must[Buffer](t)(c.Upload(floats(1, 1), Float32, nil, nil))
	out := make([]Buffer, 2)
	told := make(chan error, 1)
	if err := p.Execute([]Buffer{x}, out, nil, nil, Notify, func(err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	got := make(chan os.Signal, 10000)
	signal.Notify(got, syscall.SIGUSR1)
	defer signal.Stop(got)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		var id int
		fmt.Sscan(thread.Name(), &id)
		if _, _, e := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(id), uintptr(syscall.SIGUSR1)); e != 0 {
			continue // the thread has ended
		}
		select {
		case <-got:
		case <-time.After(10 * time.Second):
			t.Fatalf("signal to thread %d of %d was lost", id, len(threads))
		}
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	free(t, c, x, out[0], out[1])
}
