package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// body is what every binary message can do.
type body interface{ Decode([]byte) error }

// bodies is one of each binary message, with all fields set.
var bodies = []struct {
	name   string
	in     any
	append func([]byte) []byte
	out    body
}{
	{"program", &ProgramBody{Handle: 7, Hash: [32]byte{1, 2, 31: 9}, Name: "step", Origin: "a.ipynb cell 3", Replicas: 2, Devices: []uint32{0, 3}, Flags: `{"x":1}`,
		Inputs: []Type{{11, []int{2, 3}}, {4, nil}}, Outputs: []Type{{13, []int{0}}}, Text: []byte("module @m {}")}, nil, &ProgramBody{}},
	{"program without text", &ProgramBody{Handle: 1, Text: nil}, nil, &ProgramBody{}},
	{"upload", &UploadBody{Handle: 1 << 40, Type: Type{6, []int{2, 2}}, Device: 1, Data: []byte{1, 2, 3, 4}}, nil, &UploadBody{}},
	{"upload through a window", &UploadBody{Handle: 2, Type: Type{6, []int{2}}, Window: 4, Offset: 1 << 33, Data: []byte{}}, nil, &UploadBody{}},
	{"execute", &ExecuteBody{Program: 3, Device: 1, Inputs: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, Donate: []bool{true, false, false, true, false, false, false, false, true},
		Outputs: []uint64{10, 11}, Bind: []Binding{{0, "cnn/conv1/weights"}, {1, "ü"}}}, nil, &ExecuteBody{}},
}

func encode(v any) []byte {
	switch v := v.(type) {
	case *ProgramBody:
		return v.Append(nil)
	case *UploadBody:
		return v.Append(nil)
	case *ExecuteBody:
		return v.Append(nil)
	}
	panic(fmt.Sprintf("%T", v))
}

func TestBodies(t *testing.T) {
	for _, tt := range bodies {
		t.Run(tt.name, func(t *testing.T) {
			b := encode(tt.in)
			if err := tt.out.Decode(b); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(tt.out, tt.in) {
				t.Errorf("got %+v, want %+v", tt.out, tt.in)
			}
			for n := range b { // every cut is an error, and no cut panics
				if err := tt.out.Decode(b[:n]); !errors.Is(err, BadFrame) {
					t.Errorf("%d of %d bytes: got %v, want %v", n, len(b), err, BadFrame)
				}
			}
			if err := tt.out.Decode(append(b, 0)); !errors.Is(err, BadFrame) {
				t.Errorf("a byte too many: got %v, want %v", err, BadFrame)
			}
		})
	}
	small := []struct {
		in   []byte
		out  body
		want any
	}{
		{DownloadBody{1, 2, 3}.Append(nil), &DownloadBody{}, &DownloadBody{1, 2, 3}},
		{CopyBody{1, 2, 3}.Append(nil), &CopyBody{}, &CopyBody{1, 2, 3}},
		{WindowBody{9, 1 << 35}.Append(nil), &WindowBody{}, &WindowBody{9, 1 << 35}},
		{DoneBody{9}.Append(nil), &DoneBody{}, &DoneBody{9}},
		{ProgramReply{Disk, 12345}.Append(nil), &ProgramReply{}, &ProgramReply{Disk, 12345}},
	}
	for _, tt := range small {
		if err := tt.out.Decode(tt.in); err != nil || !reflect.DeepEqual(tt.out, tt.want) {
			t.Errorf("got %+v, %v, want %+v", tt.out, err, tt.want)
		}
	}
}

func TestTypeBytes(t *testing.T) {
	tests := []struct {
		typ  Type
		want int64 // -1: an error
	}{
		{Type{11, []int{100, 784}}, 313600},
		{Type{11, nil}, 4},
		{Type{1, []int{3, 0, 5}}, 0},
		{Type{15, []int{2}}, 32},
		{Type{0, []int{2}}, -1},
		{Type{16, []int{2}}, -1},
		{Type{11, []int{-1}}, -1},
		{Type{11, []int{1 << 31, 1 << 31, 1 << 31}}, -1},
	}
	for _, tt := range tests {
		got, err := tt.typ.Bytes()
		if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want) {
			t.Errorf("%s: got %d, %v, want %d", tt.typ, got, err, tt.want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	err := fmt.Errorf("outer: %w", Errorf(OutOfMemory, "want %d", 3).WithHint("use less"))
	if !errors.Is(err, OutOfMemory) || errors.Is(err, Lost) {
		t.Errorf("errors.Is(%v): want OutOfMemory only", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Hint() != "use less" || e.Error() != "want 3" {
		t.Errorf("got %+v", e)
	}
	e.Program = "step"
	if got, want := e.Error(), "program step: want 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pair is two ends of a real Unix socket.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestStream(t *testing.T) {
	a, b := pair(t)
	w, r := NewWriter(a), NewReader(b)
	sizes := []int{0, 1, 7, 100, 65536, 300 << 10, 5 << 20, 3}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i, n := range sizes {
			if err := w.Send(Free, uint32(i), func(to []byte) []byte { return append(to, bytes.Repeat([]byte{byte(i)}, n)...) }); err != nil {
				t.Error(err)
			}
		}
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if err := w.SendFD(Window, 99, []byte("with a file"), int(f.Fd())); err != nil {
			t.Error(err)
		}
		w.Send(Sync, 100, nil)
		w.Close()
		a.Close()
	})
	for i, n := range sizes {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.ID != uint32(i) || f.Kind != Free || !bytes.Equal(f.Body, bytes.Repeat([]byte{byte(i)}, n)) {
			t.Fatalf("frame %d: got id %d kind %v and %d bytes", i, f.ID, f.Kind, len(f.Body))
		}
		r.Recycle(f.Body)
	}
	f, err := r.Next()
	if err != nil || f.Kind != Window || f.FD == nil || string(f.Body) != "with a file" {
		t.Fatalf("got %v %v, want a window with a file", f.Header, err)
	}
	f.FD.Close()
	if f, err = r.Next(); err != nil || f.Kind != Sync || len(f.Body) != 0 {
		t.Fatalf("got %v %v, want Sync", f.Header, err)
	}
	if _, err = r.Next(); err != io.EOF {
		t.Fatalf("got %v, want EOF", err)
	}
	wg.Wait()
}

func TestBadStream(t *testing.T) {
	whole := func(h Header, body string) string {
		b := make([]byte, HeaderSize)
		h.put(b)
		return string(b) + body
	}
	tests := []struct {
		name, in string
		want     string
	}{
		{"oversized", whole(Header{Size: 1<<32 - 1, Kind: Free}, ""), "frame of 4294967295 bytes: limit is 2147483648 (2 GiB)"},
		{"unknown kind", whole(Header{Kind: 77}, ""), "unknown kind 77"},
		{"kind zero", whole(Header{}, ""), "unknown kind 0"},
		{"descriptor that did not come", whole(Header{Kind: Window, FDs: 1}, ""), "without the file descriptor"},
		{"torn body", whole(Header{Size: 100, Kind: Free}, "abc"), "unexpected EOF"},
		{"torn header", "abc", "unexpected EOF"},
		{"torn body of 2 GiB", whole(Header{Size: 2 << 30, Kind: Free}, "abc"), "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pair(t)
			io.WriteString(a, tt.in)
			a.Close()
			_, err := NewReader(b).Next()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestBodyMemory holds that what a frame says of its length takes no memory, and
// what arrives little more than it has.
func TestBodyMemory(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name       string
		said, sent int
		most       uint64
	}{
		{"a length alone", MaxBody, 0, 2 * mb}, // the reader's own buffer is a part of it
		{"torn", MaxBody, 3 * mb, 6 * mb},
		{"torn above a step", MaxBody, 5 * mb, 22 * mb},
		{"whole", 64 * mb, 64 * mb, 64*mb + 22*mb},
	} {
		a, b := pair(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(b)
		h := make([]byte, HeaderSize)
		Header{Size: uint32(tt.said), Kind: Free}.put(h)
		go func() {
			a.Write(h)
			for piece, rest := make([]byte, mb), tt.sent; rest > 0; rest -= mb {
				a.Write(piece)
			}
			a.Close()
		}()
		f, err := r.Next()
		runtime.ReadMemStats(&after)
		if tt.said == tt.sent && (err != nil || len(f.Body) != tt.sent) || tt.said > tt.sent && err != io.ErrUnexpectedEOF {
			t.Errorf("%s: got %d bytes, %v", tt.name, len(f.Body), err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > tt.most+2*mb { // the sender's piece
			t.Errorf("%s: took %d bytes of memory, want %d at most", tt.name, got, tt.most)
		}
	}
}

func TestPrivateDir(t *testing.T) {
	tmp := t.TempDir()
	ok := filepath.Join(tmp, "a", "b")
	open := filepath.Join(tmp, "open")
	all, sticky := filepath.Join(tmp, "all"), filepath.Join(tmp, "sticky")
	os.Mkdir(all, 0o777)
	os.Chmod(all, 0o777)
	os.Mkdir(sticky, 0o755)
	os.Chmod(sticky, 0o755|os.ModeSticky)
	own := filepath.Join(tmp, "own")
	os.Mkdir(own, 0o700)
	os.Chmod(own, 0o700|os.ModeSticky)
	link := filepath.Join(tmp, "link")
	file := filepath.Join(tmp, "file")
	os.Mkdir(open, 0o755)
	os.Chmod(open, 0o755)
	os.Symlink(tmp, link)
	os.WriteFile(file, nil, 0o600)
	tests := []struct{ dir, want string }{
		{ok, ""}, {ok, ""}, {own, ""}, {open, "want 0700"}, {all, "is everybody's"}, {sticky, "is everybody's"}, {link, "symbolic link"}, {file, "not a directory"},
	}
	for _, tt := range tests {
		err := PrivateDir(tt.dir)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", filepath.Base(tt.dir), err, tt.want)
		}
	}
}

// FuzzDecode holds that no body panics a decoder or makes it take memory that
// the body does not have.
func FuzzDecode(f *testing.F) {
	for _, tt := range bodies {
		f.Add(encode(tt.in))
	}
	f.Add(DownloadBody{1, 2, 3}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, out := range []body{&ProgramBody{}, &UploadBody{}, &ExecuteBody{}, &DownloadBody{}, &CopyBody{}, &WindowBody{}, &DoneBody{}, &ProgramReply{}} {
			if out.Decode(b) == nil {
				switch v := out.(type) {
				case *ProgramBody:
					if !bytes.Equal(v.Append(nil), b) {
						t.Errorf("%T does not encode as it was decoded", v)
					}
				case *UploadBody:
					if !bytes.Equal(v.Append(nil), b) {
						t.Errorf("%T does not encode as it was decoded", v)
					}
				}
			}
		}
		DecodeHandles(b)
	})
}

func BenchmarkExecuteFrame(b *testing.B) {
	e := ExecuteBody{Program: 1}
	for i := range 31 {
		e.Inputs, e.Outputs, e.Donate = append(e.Inputs, uint64(i+1)), append(e.Outputs, uint64(i+100)), append(e.Donate, true)
	}
	var buf []byte
	var out ExecuteBody
	b.ReportAllocs()
	for b.Loop() {
		buf = e.Append(buf[:0])
		if err := out.Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}
