package hosts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// A key comes to whoever waits for it, here and at a follower's; a lost node ends the wait.
func TestStore(t *testing.T) {
	defer func(d time.Duration) { heartbeat = d }(heartbeat)
	heartbeat = time.Millisecond
	var s Store
	a, b := net.Pipe()
	heard := make(chan Sign)
	go s.serve(a, func(sign Sign) {
		select {
		case heard <- sign:
		default: // nobody asks any more
		}
	})
	remote := NewRemoteStore(b)
	for name, get := range map[string]pjrt.Store{"here": &s, "at a follower's": remote} {
		if _, err := get.Get("none", 0); !errors.Is(err, pjrt.ErrNoKey) {
			t.Errorf("%s: key that is not there: got %v, want ErrNoKey", name, err)
		}
		if _, err := get.Get("none", time.Millisecond); !errors.Is(err, pjrt.ErrNoKey) {
			t.Errorf("%s: key that does not come: got %v, want ErrNoKey", name, err)
		}
		got := make(chan string)
		go func() {
			v, err := get.Get(name, time.Minute)
			got <- fmt.Sprintf("%q %v", v, err)
		}()
		if err := remote.Put(name, []byte("a\x00b")); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v != `"a\x00b" <nil>` {
			t.Errorf("%s: got %s, want the value", name, v)
		}
	}
	got := make(chan error)
	go func() {
		_, err := remote.Get("late", time.Minute)
		got <- err
	}()
	s.Fail(errors.New("host b is lost"))
	if err := <-got; err == nil || !strings.Contains(err.Error(), "host b is lost") {
		t.Errorf("key of a lost host: got %v, want why it does not come", err)
	}
	beats := make(chan error)
	go func() {
		beats <- remote.Beat(func() Sign { return Sign{Devices: []wire.DeviceInfo{{Kind: "GPU", InUse: 7}}} })
	}()
	sign := <-heard
	p := &peer{host: "gpu2"}
	p.sign.Store(&sign)
	for there, want := range []*wire.DeviceInfo{{Kind: "GPU", Host: "gpu2", InUse: 7}, nil} {
		if got := (&Device{Host: "gpu2", peer: p, there: uint32(there)}).Reported(); !reflect.DeepEqual(got, want) {
			t.Errorf("device %d: got report %+v, want %+v", there, got, want)
		}
	}
	a.Close()
	if err := <-beats; err == nil || !strings.Contains(err.Error(), "has ended the connection") {
		t.Errorf("follower whose controller has gone: got %v, want that", err)
	}
	if _, err := remote.Get("key", time.Minute); err == nil || errors.Is(err, pjrt.ErrNoKey) {
		t.Errorf("store of a controller that has gone: got %v, want an error of the connection", err)
	}
}

func secretFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecret(t *testing.T) {
	good := NewSecret()
	for _, tt := range []struct{ name, path, want string }{
		{"good", secretFile(t, good+"\n", 0o600), ""},
		{"short", secretFile(t, "password", 0o600), "got 8 bytes, want 32 or more"},
		{"others can read", secretFile(t, good, 0o644), "want 0600"},
		{"missing", filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		got, err := ReadSecret(tt.path)
		if tt.want == "" && (err != nil || got != good) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// listen takes connections that it sends back what they say.
func listen(t *testing.T, address, secret string) (l *Listener, refused chan error) {
	t.Helper()
	l, err := Listen(address, secret)
	if err != nil {
		t.Fatal(err)
	}
	refused = make(chan error, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Accept(func(c *net.UnixConn) {
			defer c.Close()
			io.Copy(c, c)
		}, func(err error) { refused <- err })
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l, refused
}

// hello says that a connection carries what it is given.
func hello(conn net.Conn) error {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return err
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != "hello" {
		return fmt.Errorf("got %q back", got)
	}
	return nil
}

// Only who has the secret gets through, whichever end it is.
func TestTLS(t *testing.T) {
	secret := NewSecret()
	l, refused := listen(t, "127.0.0.1:0", secret)
	dial := func(secret string) error {
		conn, err := Dial(l.Address(), secret)
		if err != nil {
			return err
		}
		return hello(conn)
	}
	if err := dial(secret); err != nil {
		t.Errorf("with the secret: %v", err)
	}
	for what, try := range map[string]func() error{
		"another secret": func() error { return dial(NewSecret()) },
		"no secret":      func() error { return dial("") },
		"no TLS": func() error {
			conn, err := net.Dial("tcp", l.Address())
			if err != nil {
				return err
			}
			return hello(conn)
		},
		"a client that checks nothing": func() error {
			conn, err := tls.Dial("tcp", l.Address(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			return hello(conn)
		},
		"a client with a key of its own": func() error {
			config, err := tlsOf(NewSecret())
			if err != nil {
				return err
			}
			config.VerifyConnection = nil
			conn, err := tls.Dial("tcp", l.Address(), config)
			if err != nil {
				return err
			}
			return hello(conn)
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s: got through, want a refusal", what)
		}
		if what != "no secret" { // which does not even try
			select {
			case <-refused:
			case <-time.After(10 * time.Second):
				t.Errorf("%s: the listener has refused nothing", what)
			}
		}
	}
}

func TestListenRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "s")
	l, _ := listen(t, path, "")
	if err := func() error {
		conn, err := Dial(path, "")
		if err != nil {
			return err
		}
		return hello(conn)
	}(); err != nil {
		t.Errorf("socket: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: got %v, %v, want mode 0600", st, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("thesis"), 0o600); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(t.TempDir(), "s")
	if err := os.Chmod(filepath.Dir(public), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, address, want string }{
		{"socket in use", l.Address(), "another follower listens"},
		{"file", file, "not a socket"},
		{"folder of all", public, "everybody's"},
		{"port without a secret", "127.0.0.1:0", "want a secret"},
		{"no address", "gpu2", "want the path of its socket, or HOST:PORT"},
		{"no port", "gpu2:", "want the path of its socket, or HOST:PORT"},
		{"relative path", "run/s", "want an absolute one"},
	} {
		got, err := Listen(tt.address, "")
		if err == nil {
			got.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "thesis" {
		t.Errorf("the file: got %q, %v, want it untouched", b, err)
	}
}

func TestGPUs(t *testing.T) {
	g := func(boot, env string, visible ...int64) GPUs { return GPUs{boot, env, visible} }
	for _, tt := range []struct {
		name string
		a, b GPUs
		want bool
	}{
		{"CPUs", g("", ""), g("", ""), false},
		{"two machines", g("a", ""), g("b", ""), false},
		{"all of one", g("a", ""), g("a", ""), true},
		{"all and one", g("a", ""), g("a", "", 1), true},
		{"the same one", g("a", "", 0, 1), g("a", "", 1), true},
		{"one each", g("a", "", 0), g("a", "", 1), false},
		{"one each by the environment", g("a", "0"), g("a", "1"), false},
	} {
		if got := tt.a.Shares(tt.b); got != tt.want || tt.b.Shares(tt.a) != got {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A controller that keeps its connection and says nothing is given up by its followers.
func TestSilentController(t *testing.T) {
	defer func(d time.Duration) { silence = d }(silence)
	silence = 20 * time.Millisecond
	here, there := net.Pipe()
	defer there.Close()
	if err := NewRemoteStore(here).Beat(func() Sign { return Sign{} }); err == nil || !strings.Contains(err.Error(), "has not answered for 20ms") {
		t.Errorf("got %v, want that it does not answer", err)
	}
}

// A follower that keeps its connection and says nothing is given up, and who waits for an
// answer hears it.
func TestSilentFollower(t *testing.T) {
	defer func(d time.Duration) { heartbeat = d }(heartbeat)
	heartbeat = 5 * time.Millisecond
	a, b := net.Pipe()
	conn, err := bridge(a)
	if err != nil {
		t.Fatal(err)
	}
	there, err := bridge(b)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	p := newPeer("address", "gpu2", conn)
	p.heard.Store(time.Now().Add(time.Hour).UnixNano())
	go p.greet("test")
	in, out := wire.NewReader(there), wire.NewWriter(there)
	if f, err := in.Next(); err != nil || f.Kind != wire.Hello {
		t.Fatalf("got %v, %v, want Hello", f.Kind, err)
	}
	if err := out.Send(wire.Welcome, 0, func(b []byte) []byte { return append(b, wire.JSON(wire.WelcomeBody{})...) }); err != nil {
		t.Fatal(err)
	}
	<-p.greeted
	lost := make(chan error, 1)
	p.watch(func(err error) { lost <- err })
	p.heard.Store(time.Now().Add(-2 * silence).UnixNano())
	ask := func() error {
		failed := make(chan error, 1)
		p.request(wire.Sync, nil, func(_ []byte, err error) { failed <- err })
		return <-failed
	}
	asked := ask()
	for what, err := range map[string]error{"who waits": asked, "the worker": <-lost} {
		if !errors.Is(err, wire.Lost) || !strings.Contains(err.Error(), "host gpu2 (address) is lost: it has not answered") {
			t.Errorf("%s: got %v, want that the host is lost", what, err)
		}
	}
	if err := ask(); !errors.Is(err, wire.Lost) {
		t.Errorf("asked later: got %v, want that the host is lost", err)
	}
}

// TestFailed: where one follower is lost, and others are as a consequence, the first one is to
// blame.
func TestFailed(t *testing.T) {
	n := &Nodes{}
	for _, address := range []string{"a", "b", "c"} {
		here, there := net.Pipe()
		defer there.Close()
		conn, err := bridge(here)
		if err != nil {
			t.Fatal(err)
		}
		n.peers = append(n.peers, newPeer(address, "gpu-"+address, conn))
	}
	n.watch()
	if got := n.Failed(); len(got) != 3 {
		t.Errorf("where nobody is lost: got %v, want all", got)
	}
	n.peers[1].lose(errors.New("no such plugin"))
	n.peers[0].lose(io.EOF)
	_, err := n.store.Get("key", time.Minute)
	if got := n.Failed(); len(got) != 1 || got[0] != "b" || err == nil || !strings.Contains(err.Error(), "gpu-b (b) is lost: no such plugin") {
		t.Errorf("got %v, keys fail with %v, want b alone, and why", got, err)
	}
}

// TestProgramText: the text of a program is not kept where no follower may want it.
func TestProgramText(t *testing.T) {
	path := os.Getenv("GAIDEN_PLUGIN")
	if path == "" || strings.Contains(path, "cuda") {
		t.Skip("needs XLA's CPU plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	plugin, err := pjrt.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := plugin.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := &wire.ProgramBody{Text: []byte("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")}
	p, err := newClient(c, nil).Compile(b, pjrt.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.body.Text != nil || b.Text == nil {
		t.Errorf("got a program that keeps %d bytes of text, of a request with %d; want none kept", len(p.body.Text), len(b.Text))
	}
}
