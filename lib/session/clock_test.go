package session

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestFaultsClock: while the session is down the machine's clock jumps, by years
// and in both directions, as the times of its files show. What is newest is told
// by numbers, not by clocks: nothing is lost, nothing old comes back, and bounds
// hold. In a process only clocks that cannot jump are compared.
func TestFaultsClock(t *testing.T) {
	p := serve(t)
	s := p.open("clock")
	for i, year := range []int{1980, 2090, 1999, 2038, 2026} {
		bindAll(t, s, map[string][]float32{"w": {float32(i)}})
		if i == 2 {
			if _, err := s.Snapshot("named"); err != nil {
				t.Fatal(err)
			}
		}
		addOne(t, s, Options{}, f32(3+i)) // a program for the disk
		if _, err := s.Ask(wire.AskBody{Verb: wire.Stop}); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		n := 0
		err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				n++
				at := time.Date(year, 5, n%28+1, 0, 0, 0, 0, time.UTC)
				err = os.Chtimes(path, at, at)
			}
			return err
		})
		if err != nil || n < 4 {
			t.Fatalf("%d files, %v", n, err)
		}
		p.again()
		s = p.open("clock")
		if got, want := look(t, s), "w["+string(rune('0'+i))+"]"; got != want {
			t.Fatalf("after a jump to %d: got %s, want %s", year, got, want)
		}
		if l, err := s.Snapshots(); err != nil || len(l) == 0 || len(l) > 5 {
			t.Errorf("after a jump to %d: %d snapshots, %v", year, len(l), err)
		}
		if x := addOne(t, s, Options{}, f32(3+i)); x.From != wire.Disk {
			t.Errorf("after a jump to %d: a program comes from %v, want disk", year, x.From)
		}
	}
	if _, err := s.Rollback("named", ""); err != nil || look(t, s) != "w[2]" {
		t.Errorf("rollback after the jumps: %v, %s", err, look(t, s))
	}
}

// TestOldClient: a client of another version is told so, and what to do.
func TestOldClient(t *testing.T) {
	p := serve(t)
	for _, protocol := range []int{0, wire.Protocol - 1, wire.Protocol + 1} {
		conn, err := dial(p.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		hello := wire.HelloBody{Protocol: protocol, Version: "0.0.1", Space: "old"}
		wire.NewWriter(conn).Send(wire.Hello, 1, func(b []byte) []byte { return append(b, wire.JSON(hello)...) })
		f, err := wire.NewReader(conn).Next()
		if err != nil || f.Kind != wire.Failed {
			t.Fatalf("protocol %d: got %v, %v, want a refusal", protocol, f.Kind, err)
		}
		e := decodeError(f.Body)
		var w *wire.Error
		if !errors.Is(e, wire.BadVersion) || !strings.Contains(e.Error(), "0.0.1") || !errors.As(e, &w) || w.Hint() == "" {
			t.Errorf("protocol %d: got %v", protocol, e)
		}
	}
}

// TestOtherSession: a session of another version that lets us in is left.
func TestOtherSession(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		wire.NewReader(conn.(*net.UnixConn)).Next()
		conn.Write(wire.AppendFrame(nil, wire.Welcome, 1, wire.JSON(wire.WelcomeBody{Protocol: wire.Protocol + 1, Version: "9.9"})))
	}()
	if _, err := (Config{Socket: socket, NoStart: true}).Open(); !errors.Is(err, wire.BadVersion) || !strings.Contains(err.Error(), "9.9") {
		t.Errorf("got %v, want %v", err, wire.BadVersion)
	}
}

// TestSpacesAreApart: two notebooks write one name at once, and each has its own.
func TestSpacesAreApart(t *testing.T) {
	p := serve(t)
	a, b := p.open("a"), p.open("b")
	for i := range 20 {
		bindAll(t, a, map[string][]float32{"w": {float32(i)}})
		bindAll(t, b, map[string][]float32{"w": {float32(-i)}})
	}
	if look(t, a) != "w[19]" || look(t, b) != "w[-19]" {
		t.Errorf("got %s and %s", look(t, a), look(t, b))
	}
	if _, err := b.Delete("*"); err != nil {
		t.Fatal(err)
	}
	if l, err := b.ArraysOf("a", "w"); err != nil || values(t, l[0])[0] != 19 {
		t.Errorf("another notebook's array by its name: %v", err)
	}
	// Two connections of one notebook do share: the last one wins, wholly.
	c := p.open("a")
	done := make(chan error, 2)
	for k, s := range []*Session{a, c} {
		go func() {
			var err error
			for range 50 {
				v := []float32{float32(k), float32(k), float32(k)}
				var x, y *Array
				if x, err = s.Put(v, f32(3), 0); err == nil {
					y, err = s.Put(v, f32(3), 0)
				}
				if err == nil {
					err = s.Bind([]string{"x", "y"}, []*Array{x, y})
				}
			}
			done <- err
		}()
	}
	for range 100 {
		l, err := a.Arrays("x", "y")
		if errors.Is(err, wire.NotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if v, w := values(t, l[0]), values(t, l[1]); v[0] != w[0] || v[0] != v[2] {
			t.Fatalf("arrays are mixed: %v and %v", v, w)
		}
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
}
