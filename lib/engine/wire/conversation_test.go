package wire

import (
	"bytes"
	"net"
	"os"
	"syscall"
	"testing"
)

// FuzzConversation sends bytes through a socket to a Reader, and each frame's body to
// the decoder of its kind. Its corpus in testdata/fuzz has what a client and a session
// have said to each other (TestConversation in lib/session records it). Nothing panics,
// no frame has more memory than its bytes, and frames are what AppendFrame makes.
func FuzzConversation(f *testing.F) {
	f.Add(AppendFrame(nil, Hello, 1, []byte(`{}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ends [2]*net.UnixConn
		for i, fd := range fds {
			file := os.NewFile(uintptr(fd), "end")
			c, err := net.FileConn(file)
			file.Close()
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = c.(*net.UnixConn)
			defer ends[i].Close()
		}
		go func() {
			ends[0].Write(data)
			ends[0].Close()
		}()
		r := NewReader(ends[1])
		defer r.Close()
		rest := data
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			again := AppendFrame(nil, frame.Kind, frame.ID, frame.Body)
			if frame.FD != nil || len(rest) < len(again) || !bytes.Equal(rest[:len(again)], again) {
				t.Fatalf("a frame %s of %d bytes is not what was sent", frame.Kind, len(frame.Body))
			}
			rest = rest[len(again):]
			decode(frame)
		}
	})
}

// decode decodes the body of a frame as its kind says.
func decode(f Frame) error {
	for _, kind := range []struct {
		kind Kind
		body interface{ Decode([]byte) error }
	}{{Program, &ProgramBody{}}, {Window, &WindowBody{}}, {Upload, &UploadBody{}}, {Execute, &ExecuteBody{}}, {Download, &DownloadBody{}}, {Copy, &CopyBody{}}, {Done, &DoneBody{}}} {
		if kind.kind == f.Kind {
			return kind.body.Decode(f.Body)
		}
	}
	switch f.Kind {
	case Hello:
		return DecodeJSON(f.Kind, f.Body, &HelloBody{})
	case Welcome:
		return DecodeJSON(f.Kind, f.Body, &WelcomeBody{})
	case Ask:
		return DecodeJSON(f.Kind, f.Body, &AskBody{})
	case Failed:
		return DecodeJSON(f.Kind, f.Body, &Error{})
	case Free:
		_, err := DecodeHandles(f.Body)
		return err
	}
	return nil
}
