package jupyter_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// record is a log that tests can read.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestBadMessages sends what is no message, or not from one who knows the key.
// Each is dropped and logged, and the kernel answers the next request.
func TestBadMessages(t *testing.T) {
	log := &record{}
	k := jupytertest.Start(t, &mock{}, jupyter.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	c := jupytertest.Connect(t, k.Connection)

	signer, _ := k.Connection.Signer()
	good := func(header string) [][]byte {
		frames, err := signer.Encode(jupyter.Message{RawHeader: []byte(header)})
		if err != nil {
			t.Fatal(err)
		}
		return frames
	}
	const header = `{"msg_id":"1","msg_type":"execute_request"}`
	foreign, _ := jupyter.Connection{Key: "another"}.Signer()
	forged, _ := foreign.Encode(jupyter.Message{RawHeader: []byte(header)})
	altered := good(header)
	altered[5] = []byte(`{"code":"evil"}`)
	unsigned := good(header)
	unsigned[1] = nil

	tests := []struct {
		name   string
		frames [][]byte
		want   string // in the log
	}{
		{"wrong signature", forged, "dropped: signature"},
		{"altered content", altered, "dropped: signature"},
		{"no signature", unsigned, "dropped: signature"},
		{"no delimiter", good(header)[1:], "dropped: delimiter"},
		{"one empty frame", [][]byte{{}}, "dropped: delimiter"},
		{"delimiter alone", good(header)[:1], "dropped: frames"},
		{"content missing", good(header)[:5], "dropped: frames"},
		{"header is no JSON", good(`{"msg_id`), "dropped: header"},
		{"header is no object", good(`[1]`), "dropped: header"},
		{"header is no UTF-8", good("\xff\xfe"), "dropped: header"},
		{"no msg_id", good(`{"msg_type":"execute_request"}`), "dropped: header"},
		{"no msg_type", good(`{"msg_id":"1"}`), "dropped: header"},
		{"msg_id is a number", good(`{"msg_id":1,"msg_type":"execute_request"}`), "dropped: header"},
		{"10,000 identities", append(make([][]byte, 10_000), []byte("x")), "dropped: delimiter"},
	}
	for _, tt := range tests {
		for _, channel := range []jupyter.Channel{jupyter.Shell, jupyter.Control, jupyter.Stdin} {
			t.Run(tt.name+" on "+string(channel), func(t *testing.T) {
				before := strings.Count(log.String(), tt.want)
				if err := c.SendFrames(channel, tt.frames); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(time.Minute); strings.Count(log.String(), tt.want) == before; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the log has no new %q; it ends %.300q", tt.want, log.String()[max(0, len(log.String())-300):])
					}
				}
				answered(t, c, jupyter.Shell, "kernel_info_request", nil)
			})
		}
	}
	t.Run("the same message twice", func(t *testing.T) {
		again, err := signer.Encode(jupyter.Message{RawHeader: []byte(`{"msg_id":"captured","msg_type":"execute_request","session":"s"}`), Content: []byte(`{"code":"once"}`)})
		if err != nil {
			t.Fatal(err)
		}
		other := append([][]byte{}, again...)
		other[1] = bytes.ToUpper(other[1]) // the signature
		const want = "it is that of an earlier message"
		for i, send := range []struct {
			channel jupyter.Channel
			frames  [][]byte
		}{{jupyter.Shell, again}, {jupyter.Shell, again}, {jupyter.Control, again}, {jupyter.Shell, other}} {
			if err := c.SendFrames(send.channel, send.frames); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); strings.Count(log.String(), want) < i; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("message %d: the log says %d times %q", i, strings.Count(log.String(), want), want)
				}
			}
		}
		answered(t, c, jupyter.Shell, "kernel_info_request", nil)
		if got := strings.Count(log.String(), want); got != 3 {
			t.Errorf("got %d messages refused, want 3", got)
		}
	})
	if got := executed(t, c, "alive").Stream("stdout"); got != "alive" {
		t.Errorf("the kernel prints %q, want alive", got)
	}
}

// TestOddCode sends code that is large, is no UTF-8, or whose JSON is nested too
// deep to be read.
func TestOddCode(t *testing.T) {
	c, k := kernel(t, nil)
	large := strings.Repeat("é", 1<<19)
	if got := executed(t, c, large).Stream("stdout"); got != large {
		t.Errorf("a cell of 1 MiB prints %d bytes, want %d", len(got), len(large))
	}
	signer, _ := k.Connection.Signer()
	for _, tt := range []struct{ name, content, status string }{
		{"no UTF-8", "{\"code\":\"a\xff\xc0b\"}", "ok"},
		{"half a surrogate pair", `{"code":"\ud83d"}`, "ok"},
		{"NUL", `{"code":"\u0000"}`, "ok"},
		{"nested", `{"code":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "error"},
		{"cut off", `{"code":"`, "error"},
		{"empty", "", "error"},
	} {
		m := jupyter.Message{Header: jupyter.NewHeader("execute_request", c.Session, "u"), Content: []byte(tt.content)}
		frames, err := signer.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendFrames(jupyter.Shell, frames); err != nil {
			t.Fatal(err)
		}
		a, err := c.Wait(within(t), m.Header.ID)
		if err != nil || a.Status() != tt.status {
			t.Errorf("%s: status is %q, %v, want %s", tt.name, a.Status(), err, tt.status)
		}
	}
	if faults := c.Faults(); len(faults) > 0 {
		t.Errorf("the client could not read: %v", faults)
	}
}

// TestBadPeers connects to every socket with what is no ZeroMQ, claims too
// much, or says nothing. The kernel answers others meanwhile.
func TestBadPeers(t *testing.T) {
	c, k := kernel(t, nil)
	greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL" + strings.Repeat("\x00", 48)
	huge := "\x02\x40\x00\x00\x00\x00\x00\x00\x00"
	for _, bytes := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", greeting, greeting + huge, greeting + "\x06\x7f\xff\xff\xff\xff\xff\xff\xff",
		greeting + "\x04\x05\x05READY", greeting + "\x04\x09\x05READY\xffab", greeting + "\x04\x01\x09",
		greeting + "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH",
		greeting + "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER" + huge,
		greeting + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB" + huge,
		strings.Repeat("\x00", 1000),
	} {
		for _, channel := range []jupyter.Channel{jupyter.Shell, jupyter.Control, jupyter.Stdin, jupyter.IOPub, jupyter.Heartbeat} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(k.Connection.Endpoint(channel), "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write([]byte(bytes))
		}
	}
	if got := executed(t, c, "alive").Stream("stdout"); got != "alive" {
		t.Errorf("the kernel prints %q, want alive", got)
	}
	if got, err := c.Beat(within(t), []byte("b")); err != nil || string(got) != "b" {
		t.Errorf("beat returns %q, %v, want b", got, err)
	}
	other := jupytertest.Connect(t, k.Connection)
	if got := executed(t, other, "alive").Stream("stdout"); got != "alive" {
		t.Errorf("the kernel prints %q for a new front end, want alive", got)
	}
}

// TestDeafFrontEnd has a subscriber that reads nothing. Its kernel still answers
// others, can be interrupted in mid-flood, and ends.
func TestDeafFrontEnd(t *testing.T) {
	c, k := kernel(t, map[string]cell{"flood": func(ctx context.Context, _ jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
		block := []byte(strings.Repeat("x", 1<<20))
		for ctx.Err() == nil {
			out.Stream("stdout", block)
		}
		return jupyter.ExecuteResult{}
	}})
	deaf, err := net.Dial("tcp", strings.TrimPrefix(k.Connection.Endpoint(jupyter.IOPub), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL" + strings.Repeat("\x00", 48)
	deaf.Write([]byte(greeting + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB" + "\x00\x01\x01"))
	deaf.Read(make([]byte, 64+40))
	time.Sleep(50 * time.Millisecond) // its subscription is on the way

	ctx := within(t)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "flood"})
	got := func() (n int) {
		for _, m := range c.IOPub() {
			if m.Header.Type == "stream" {
				n++
			}
		}
		return n
	}
	for got() < 60 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	last := -1
	for last != got() { // until the flood waits for the deaf one
		last = got()
		time.Sleep(300 * time.Millisecond)
	}
	if last < 60 || last > 200 {
		t.Errorf("the flood stopped after %d MB, want about 64", last)
	}
	answered(t, c, jupyter.Shell, "complete_request", object{"code": "x", "cursor_pos": 1})
	begin := time.Now()
	answered(t, c, jupyter.Control, "interrupt_request", nil)
	if _, err := c.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the interrupt took %v, want a few milliseconds", took)
	}
	if a := executed(t, c, "alive"); a.Stream("stdout") != "alive" {
		t.Error("the kernel does not print to the front end that reads")
	}
}
