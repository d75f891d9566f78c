package session

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

var update = flag.Bool("update", false, "write the conversation that TestConversation records to the corpus of package wire")

// TestConversation records what a client and a session say to each other, byte by byte,
// and holds that it is whole frames of kinds that package wire knows. With -update it is
// the corpus of wire's FuzzConversation.
func TestConversation(t *testing.T) {
	p := serve(t)
	path := filepath.Join(p.dir, "between.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var said [2][]byte
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		client, err := l.AcceptUnix()
		if err != nil {
			return
		}
		session, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket, Net: "unix"})
		if err != nil {
			client.Close()
			return
		}
		go relay(client, session, &said[0], both.Done)
		relay(session, client, &said[1], both.Done)
	}()
	s, err := Config{Socket: path, Space: "conversation"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"a": {1, 2}})
	x := addOne(t, s, Options{Donate: []bool{true}}, f32(2))
	a, err := s.Array("a")
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Run(Call{Inputs: []*Array{a}, Names: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	values(t, out[0])
	s.List("")
	s.Snapshot("one")
	s.Rollback("one", "")
	s.Array("missing")
	s.Close()
	both.Wait()
	for i, who := range []string{"client", "session"} {
		frames, err := withoutFiles(said[i])
		if err != nil || frames < 8 {
			t.Errorf("%s: %d frames, %v; want 8 or more", who, frames, err)
		}
		if *update {
			for _, path := range []string{p.dir, os.Getenv("GAIDEN_PLUGIN")} { // of this machine
				said[i] = bytes.ReplaceAll(said[i], []byte(path), bytes.Repeat([]byte("d"), len(path)))
			}
			dir := "../engine/wire/testdata/fuzz/FuzzConversation"
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, who), fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", said[i]), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// relay passes bytes and file descriptors on, and keeps the bytes.
func relay(from, to *net.UnixConn, said *[]byte, done func()) {
	defer done()
	b, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, m, _, _, err := from.ReadMsgUnix(b, oob)
		if n == 0 || err != nil {
			to.CloseWrite()
			return
		}
		*said = append(*said, b[:n]...)
		if m == 0 {
			to.Write(b[:n])
			continue
		}
		to.WriteMsgUnix(b[:n], oob[:m], nil)
		if l, err := unix.ParseSocketControlMessage(oob[:m]); err == nil {
			for _, c := range l {
				fds, _ := unix.ParseUnixRights(&c)
				for _, fd := range fds {
					unix.Close(fd)
				}
			}
		}
	}
}

// withoutFiles counts the frames in what was said, and takes from each the note that a
// file descriptor came with it.
func withoutFiles(said []byte) (frames int, err error) {
	for at := 0; at < len(said); frames++ {
		if len(said)-at < wire.HeaderSize {
			return frames, fmt.Errorf("%d bytes after the last frame", len(said)-at)
		}
		if k := wire.Kind(said[at+4]); k.String() == fmt.Sprintf("Kind(%d)", k) {
			return frames, fmt.Errorf("a frame of %s", k)
		}
		said[at+5] = 0
		at += wire.HeaderSize + int(binary.LittleEndian.Uint32(said[at:]))
		if at > len(said) {
			return frames, fmt.Errorf("the last frame lacks %d bytes", at-len(said))
		}
	}
	return frames, nil
}
