package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func socketPair() (a, b net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ends := [2]net.Conn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			return nil, nil, err
		}
		f.Close()
	}
	return ends[0], ends[1], nil
}

// TestLink sends bytes both ways while the line is cut again and again.
func TestLink(t *testing.T) {
	a, inA := pair(t)
	b, inB := pair(t)
	near, far := NewLink(inA, []byte("first")), NewLink(inB, nil)
	cuts := make(chan int, 1)
	go func() {
		r, n := rand.New(rand.NewPCG(1, 2)), 0
		for !near.Over() || !far.Over() { // the line may be cut while one tells the other that it is over
			x, y, err := socketPair()
			if err != nil {
				t.Error(err)
				break
			}
			go far.Carry(y)
			go func(d time.Duration) {
				time.Sleep(d)
				x.Close()
				y.Close()
			}(time.Duration(r.IntN(20)) * time.Millisecond)
			near.Carry(x)
			n++
		}
		cuts <- n
	}()
	data := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{7}).Read(data)
	go func() {
		a.Write(data)
	}()
	got := make([]byte, 5+len(data))
	b.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(b, got); err != nil {
		t.Fatal(err)
	}
	if string(got[:5]) != "first" || !bytes.Equal(got[5:], data) {
		t.Error("what arrives is not what was sent")
	}
	for range 20 {
		b.Write([]byte("answer"))
		a.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(a, got[:6]); err != nil || string(got[:6]) != "answer" {
			t.Fatalf("got %q, %v", got[:6], err)
		}
		time.Sleep(3 * time.Millisecond)
	}
	a.Close()
	if _, err := b.Read(got); err != io.EOF {
		t.Errorf("the other end has gone: got %v, want EOF", err)
	}
	if n := <-cuts; n < 3 {
		t.Errorf("%d lines were used: the test has tested nothing", n)
	}
}
