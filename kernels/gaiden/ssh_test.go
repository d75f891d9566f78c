package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/session"
)

// TestMain lets the test program be gaiden, on both machines.
func TestMain(m *testing.M) {
	if os.Getenv("GAIDEN_TEST_MAIN") != "" {
		os.Exit(gaiden(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// machine is an sshd on a port of its own, with keys that are made for the test:
// the other machine.
type machine struct {
	t       *testing.T
	dir     string
	options []string // for ssh
	host    string
	gaiden  string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
	sshd := "/usr/sbin/sshd"
	for _, f := range []string{sshd, "/usr/bin/ssh", "/usr/bin/ssh-keygen"} {
		if !exists(f) {
			t.Skip("needs " + f + ": apt-get install openssh-server openssh-client")
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		os.MkdirAll("/run/sshd", 0o755) // where it wants to be when it has no rights
	}
	m := &machine{t: t, dir: t.TempDir(), host: me.Username + "@127.0.0.1"}
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n", port, m.dir, m.dir)
	os.WriteFile(filepath.Join(m.dir, "config"), []byte(config), 0o600)
	var log strings.Builder
	d := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(m.dir, "config"))
	d.Stderr = &log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Process.Kill()
		d.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log.String())
		}
	})
	m.options = []string{"-p" + strconv.Itoa(port), "-i" + m.dir + "/user", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR", "-F/dev/null"}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.gaiden = fmt.Sprintf("env -u GAIDEN_SOCKET GAIDEN_TEST_MAIN=1 GAIDEN_PLUGIN=%s XDG_RUNTIME_DIR=%s/run XDG_STATE_HOME=%s/state XDG_CACHE_HOME=%s/cache %s", os.Getenv("GAIDEN_PLUGIN"), m.dir, m.dir, m.dir, self)
	os.Mkdir(m.dir+"/run", 0o700)
	t.Cleanup(func() {
		for _, lock := range []string{"agent.sock.lock", "session.sock.lock"} {
			b, _ := os.ReadFile(m.dir + "/run/gaiden/" + lock)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				syscall.Kill(pid, syscall.SIGTERM)
				for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				}
			}
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command("ssh", append(m.options, "-oBatchMode=yes", m.host, "true")...).CombinedOutput()
		if err == nil {
			return m
		}
		if time.Now().After(end) {
			t.Fatalf("ssh to a server of our own: %v: %s\n%s", err, out, log.String())
		}
	}
}

// relay starts gaiden session --ssh, which listens at socket.
func (m *machine) relay(socket string) *exec.Cmd {
	m.t.Helper()
	args := []string{"session", "--ssh", "-gaiden", m.gaiden}
	for _, o := range m.options {
		args = append(args, "-ssh-option", o)
	}
	cmd := exec.Command("/proc/self/exe", append(args, m.host)...)
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_MAIN=1", "GAIDEN_SOCKET="+socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	if !strings.HasPrefix(line, "session of "+m.host+": gaiden session") {
		m.t.Fatalf("relay said %q", line)
	}
	return cmd
}

// cut kills the ssh that a relay has at work, and says whether there was one.
func cut(relay int) bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, d := range dirs {
		b, _ := os.ReadFile(d)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(relay) {
			pid, _ := strconv.Atoi(strings.Split(d, "/")[2])
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

// TestSSH works with another machine's session while the line breaks again and
// again: no handle, name or step is lost.
func TestSSH(t *testing.T) {
	m := newMachine(t)
	socket := filepath.Join(t.TempDir(), "run", "session.sock")
	relay := m.relay(socket)
	second := exec.Command("/proc/self/exe", "session", "--ssh", m.host)
	second.Env = append(os.Environ(), "GAIDEN_TEST_MAIN=1", "GAIDEN_SOCKET="+socket)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "the session of "+m.host+" is in use here") {
		t.Errorf("a second relay: got %v, %q", err, out)
	}
	s, err := session.Config{Socket: socket, Space: "far", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Welcome().Boot != "" {
		t.Error("the session thinks that there is shared memory")
	}
	const n = 1 << 18 // 1 MB: it would go through a window
	shape := shapes.Make(dtypes.Float32, n)
	const stateSize = 16
	stateShape := shapes.Make(dtypes.Float32, stateSize)
	g := graph.NewGraph(s.Backend(), "step")
	if err := g.Compile(graph.AddScalar(graph.Parameter(g, "x", stateShape), 1)); err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(g.Executable().(*session.Executable).Program(), session.Options{Donate: []bool{true}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Put(make([]float32, stateSize), stateShape, 0)
	if err != nil {
		t.Fatal(err)
	}
	state := []*session.Array{x}
	big := make([]float32, n)
	cuts, steps := 0, 0
	for i := range 6 {
		if cut(relay.Process.Pid) {
			cuts++
		}
		for range 20 {
			if state, err = p.Run(session.Call{Inputs: state, Names: []string{"far/x"}}); err != nil {
				t.Fatal(err)
			}
			steps++
		}
		for k := range big {
			big[k] = float32(i + k%7)
		}
		a, err := s.Put(big, shape, 0)
		if err != nil {
			t.Fatal(err)
		}
		back := make([]float32, n)
		if err := a.Values(back); err != nil {
			t.Fatalf("after %d cuts: %v", cuts, err)
		}
		if back[0] != big[0] || back[n-1] != big[n-1] {
			t.Fatalf("after %d cuts: data came back as other data", cuts)
		}
	}
	v := make([]float32, stateSize)
	if err := state[0].Values(v); err != nil || v[0] != float32(steps) {
		t.Errorf("after %d steps and %d cuts: state is %v, %v", steps, cuts, v[0], err)
	}
	if cuts < 4 {
		t.Errorf("the line was cut %d times: the test has tested nothing", cuts)
	}
	if b, err := s.Array("far/x"); err != nil || b.Values(v) != nil || v[0] != float32(steps) {
		t.Errorf("the name stands for %v, %v, want %d", v[0], err, steps)
	}
	t.Setenv("GAIDEN_SOCKET", socket)
	var out strings.Builder
	if err := stopSession(&out); err != nil || !strings.Contains(out.String(), "which continues") {
		t.Errorf("stop: %q, %v", out.String(), err)
	}
	if err := s.Wait(); err == nil {
		t.Error("the relay has gone: got no error")
	}
	// The other machine has kept what has a name.
	m.relay(socket)
	s, err = session.Config{Socket: socket, Space: "far", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := s.Array("far/x"); err != nil || b.Values(v) != nil || v[0] != float32(steps) {
		t.Errorf("afterwards the name stands for %v, %v, want %d", v[0], err, steps)
	}
}
