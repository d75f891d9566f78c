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

// TestLinkEnd cuts the line at the instant when one end has said that the
// connection has ended, before the other has heard it: on the next line it is
// said again, and neither waits for a line that does not come.
func TestLinkEnd(t *testing.T) {
	a, inA := pair(t)
	b, inB := pair(t)
	near, far := NewLink(inA, nil), NewLink(inB, nil)
	a.Close()
	x, y, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	carried := make(chan error, 1)
	go func() { carried <- near.Carry(x) }()
	y.Write(make([]byte, 8)) // nothing has arrived
	said := make([]byte, 12)
	if _, err := io.ReadFull(y, said); err != nil || !bytes.Equal(said[8:], []byte{0xff, 0xff, 0xff, 0xff}) {
		t.Fatalf("the end that has ended says %x, %v", said, err)
	}
	y.Close()
	<-carried
	if near.Over() {
		t.Fatal("nobody has heard of the end, and it counts as told")
	}
	if x, y, err = socketPair(); err != nil {
		t.Fatal(err)
	}
	go func() { carried <- far.Carry(y) }()
	if err := near.Carry(x); err != nil {
		t.Error(err)
	}
	<-carried
	if !near.Over() || !far.Over() {
		t.Errorf("after the second line: over is %v and %v, want both", near.Over(), far.Over())
	}
	b.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := b.Read(said); err != io.EOF {
		t.Errorf("the other end's connection: got %v, want EOF", err)
	}
}
