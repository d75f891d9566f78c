package jupyter_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

func TestBadConnectionFiles(t *testing.T) {
	good := `"transport":"tcp","ip":"127.0.0.1","shell_port":1,"iopub_port":2,"stdin_port":3,"control_port":4,"hb_port":5`
	tests := []struct {
		name, text string
		want       string // the error, after the path
	}{
		{"empty", "", "it is not a JSON object: unexpected end of JSON input"},
		{"no JSON", "hello", "it is not a JSON object: invalid character 'h' looking for beginning of value"},
		{"a list", "[]", "it is not a JSON object: got JSON's array"},
		{"a number", "5", "it is not a JSON object: got JSON's number"},
		{"a notebook", `{"cells":[],"nbformat":4}`, "it has no shell_port, so it is not a Jupyter connection file"},
		{"no key", "{" + good + "}", "it has no key, so it is not a Jupyter connection file"},
		{"scheme", "{" + good + `,"key":"k","signature_scheme":"hmac-md4"}`,
			`signature_scheme: got "hmac-md4", want one of hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384, hmac-sha512`},
		{"transport", "{" + strings.Replace(good, "tcp", "pgm", 1) + `,"key":""}`, `transport: got "pgm", want tcp or ipc`},
		{"port too large", "{" + strings.Replace(good, ":5", ":65536", 1) + `,"key":""}`, "hb_port: got 65536, want a port number"},
		{"port twice", "{" + strings.Replace(good, ":5", ":4", 1) + `,"key":""}`, "hb_port: got 4, which is control_port, too"},
		{"port is text", "{" + strings.Replace(good, ":5", `:"5"`, 1) + `,"key":""}`,
			"hb_port: got JSON's string, want a port number"},
		{"port is a fraction", "{" + strings.Replace(good, ":5", `:5.5`, 1) + `,"key":""}`,
			"hb_port: got JSON's number 5.5, want a port number"},
		{"key is a number", "{" + good + `,"key":7}`, "key: got JSON's number, want a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kernel.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := jupyter.Run(within(t), path, &mock{}, jupyter.Options{})
			var bad *jupyter.ConnectionError
			if !errors.As(err, &bad) {
				t.Fatalf("error is %v, want a *ConnectionError", err)
			}
			if got, want := err.Error(), "jupyter: connection file "+path+": "+tt.want; got != want {
				t.Errorf("error is\n%s, want\n%s", got, want)
			}
		})
	}
	err := jupyter.Run(within(t), "/nowhere/kernel.json", &mock{}, jupyter.Options{})
	if got, want := err.Error(), "jupyter: connection file /nowhere/kernel.json: no such file or directory"; got != want {
		t.Errorf("error is %s, want %s", got, want)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v is not os.ErrNotExist", err)
	}
}

// TestTransports runs a cell over each transport and kind of key, from a file.
func TestTransports(t *testing.T) {
	dir := t.TempDir()
	if len(dir) > 80 {
		dir = "." // the path of a Unix socket has 108 bytes at most
	}
	ports := jupyter.Connection{ShellPort: 1, IOPubPort: 2, StdinPort: 3, ControlPort: 4, HBPort: 5}
	for name, c := range map[string]jupyter.Connection{
		"tcp":         {Transport: "tcp", IP: "127.0.0.1", Key: "k", Scheme: "hmac-sha256"},
		"no key":      {Transport: "tcp", IP: "127.0.0.1"},
		"sha512":      {Transport: "tcp", IP: "127.0.0.1", Key: "k", Scheme: "hmac-sha512"},
		"IPv6":        {Transport: "tcp", IP: "::1", Key: "k"},
		"all":         {Transport: "tcp", IP: "*", Key: "k"},
		"Unix socket": {Transport: "ipc", IP: dir + "/ipc", Key: "k"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.Transport == "ipc" {
				at := ports
				at.Transport, at.IP, at.Key = c.Transport, c.IP, c.Key
				c = at
				for _, p := range []string{"1", "2"} { // left by a killed kernel
					stale(t, c.IP+"-"+p)
				}
			}
			path := filepath.Join(t.TempDir(), "kernel.json")
			text, _ := json.Marshal(c)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(context.Background())
			ready, done := make(chan jupyter.Connection, 1), make(chan error, 1)
			go func() {
				done <- jupyter.Run(ctx, path, &mock{}, jupyter.Options{Ready: func(c jupyter.Connection) { ready <- c }})
			}()
			select {
			case c = <-ready:
			case err := <-done:
				if name == "IPv6" && strings.Contains(err.Error(), "cannot assign requested address") {
					t.Skipf("this machine has no IPv6 loopback address: %v; enable IPv6 to run it", err)
				}
				t.Fatal(err)
			}
			client := jupytertest.Connect(t, c)
			if got := executed(t, client, "hello").Stream("stdout"); got != "hello" {
				t.Errorf("the cell printed %q, want hello", got)
			}
			end()
			if err := <-done; err != context.Canceled {
				t.Errorf("the kernel ended with %v, want %v", err, context.Canceled)
			}
			if c.Transport == "ipc" {
				if left, _ := filepath.Glob(c.IP + "-*"); len(left) > 0 {
					t.Errorf("the kernel left %v", left)
				}
			}
		})
	}
}

func TestPortsTaken(t *testing.T) {
	k := jupytertest.Start(t, &mock{}, jupyter.Options{})
	path := filepath.Join(t.TempDir(), "kernel.json")
	text, _ := json.Marshal(k.Connection)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	err := jupyter.Run(within(t), path, &mock{}, jupyter.Options{})
	var taken *jupyter.ListenError
	if !errors.As(err, &taken) || !taken.Err.Taken() {
		t.Fatalf("error is %v, want a *ListenError that says taken", err)
	}
	want := "jupyter: shell socket: zmtp: listen: " + k.Connection.Endpoint(jupyter.Shell) + " is taken by another process"
	if err.Error() != want {
		t.Errorf("error is %s, want %s", err, want)
	}
	if !strings.Contains(taken.Hint(), "restart the kernel") {
		t.Errorf("hint is %q", taken.Hint())
	}
}

// TestPortTakenForAMoment holds that a kernel waits for a port that somebody gives
// back.
func TestPortTakenForAMoment(t *testing.T) {
	first := jupytertest.Start(t, &mock{}, jupyter.Options{})
	c := first.Connection
	first.Stop()
	if err := first.Wait(within(t)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", strings.TrimPrefix(c.Endpoint(jupyter.Control), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { other.Close() })
	s := &jupyter.Server{Receive: func(jupyter.Channel, jupyter.Message) {}}
	if err := s.Listen(c); err != nil {
		t.Fatal(err)
	}
	s.Close(0)
}
