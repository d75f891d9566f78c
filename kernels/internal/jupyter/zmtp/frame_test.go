package zmtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadMessage(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 3<<20) // more than one chunk
	tests := []struct {
		name   string
		wire   string
		frames [][]byte
		cmd    bool
		err    error
	}{
		{"one frame", "\x00\x02hi", [][]byte{[]byte("hi")}, false, nil},
		{"two frames", "\x01\x00\x00\x01a", [][]byte{{}, []byte("a")}, false, nil},
		{"long form of a short frame", "\x02\x00\x00\x00\x00\x00\x00\x00\x01a", [][]byte{[]byte("a")}, false, nil},
		{"3 MiB", "\x02\x00\x00\x00\x00\x00\x30\x00\x00" + string(big), [][]byte{big}, false, nil},
		{"command", "\x04\x06\x05READY", [][]byte{[]byte("\x05READY")}, true, nil},
		{"end", "", nil, false, io.EOF},
		{"end between frames", "\x01\x00", nil, false, io.ErrUnexpectedEOF},
		{"end in a header", "\x02\x00", nil, false, io.ErrUnexpectedEOF},
		{"end in a body", "\x00\x02h", nil, false, io.ErrUnexpectedEOF},
		{"end in the second chunk", "\x02\x00\x00\x00\x00\x00\x30\x00\x00" + string(big[:2<<20]), nil, false, io.ErrUnexpectedEOF},
		{"reserved flag", "\x08\x00", nil, false, ErrFlags},
		{"command with more", "\x05\x00", nil, false, ErrFlags},
		{"command inside a message", "\x01\x00\x04\x00", nil, false, ErrFlags},
		{"too large", "\x02\x00\x00\x00\x00\x01\x00\x00\x00", nil, false, &SizeError{Size: 16 << 20, Limit: 8 << 20}},
		{"size with its first bit set", "\x02\xff\xff\xff\xff\xff\xff\xff\xff", nil, false, &SizeError{Size: 1<<64 - 1, Limit: 8 << 20}},
		{"too many empty frames", strings.Repeat("\x01\x00", 1<<20), nil, false, &SizeError{Size: 0, Limit: 8 << 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frames, cmd, err := readMessage(bufio.NewReader(strings.NewReader(tt.wire)), 8<<20)
			var size *SizeError
			if errors.As(tt.err, &size) {
				if !reflect.DeepEqual(err, tt.err) {
					t.Errorf("error is %v, want %v", err, tt.err)
				}
				return
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("error is %v, want %v", err, tt.err)
			}
			if err == nil && (cmd != tt.cmd || !reflect.DeepEqual(frames, tt.frames)) {
				t.Errorf("got %d frames, command %v, want %d, %v", len(frames), cmd, len(tt.frames), tt.cmd)
			}
		})
	}
}

// TestClaimedSize reads headers that claim 64 MiB and end: memory must follow
// what arrives, not what is claimed.
func TestClaimedSize(t *testing.T) {
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readMessage(bufio.NewReader(strings.NewReader("\x02\x00\x00\x00\x00\x04\x00\x00\x00")), 1<<30)
		}
	}).AllocedBytesPerOp()
	if got > 2*chunk {
		t.Errorf("a frame that does not come takes %d bytes, want %d at most", got, 2*chunk)
	}
}

// FuzzReadMessage reads random bytes. A message that is read must be the same
// after it is written and read again.
func FuzzReadMessage(f *testing.F) {
	for _, seed := range []string{"\x00\x02hi", "\x01\x00\x00\x01a", "\x04\x06\x05READY", "\x02\x00\x00\x00\x00\x00\x00\x00\x01a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frames, cmd, err := readMessage(bufio.NewReader(bytes.NewReader(data)), 1<<16)
		if err != nil {
			return
		}
		if cmd {
			parseCommand(frames[0])
			return
		}
		wire := bytes.Join(appendMessage(nil, frames), nil)
		again, _, err := readMessage(bufio.NewReader(bytes.NewReader(wire)), 1<<16)
		if err != nil || !reflect.DeepEqual(again, frames) {
			t.Errorf("got %q, %v after a round trip, want %q", again, err, frames)
		}
	})
}

// FuzzProperties takes random metadata apart.
func FuzzProperties(f *testing.F) {
	f.Add(appendProperty(appendProperty(nil, "Socket-Type", []byte("DEALER")), "Identity", []byte("me")))
	f.Add([]byte("\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		properties, err := parseProperties(data)
		if err != nil && properties != nil {
			t.Errorf("got %v and %v", properties, err)
		}
	})
}
