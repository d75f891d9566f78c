package hosts_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/pjrt/nodetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

const (
	addressEnv = "GAIDEN_TEST_ADDRESS"
	secretEnv  = "GAIDEN_TEST_SECRET"
	realEnv    = "GAIDEN_TEST_REAL_PLUGIN" // no test double
)

// On a CPU all processes of these tests have the test double of a plugin.
func TestMain(m *testing.M) {
	if !onGPUs() && os.Getenv(realEnv) == "" {
		pjrt.Loaded = nodetest.Replace
	}
	devicetest.Play(session.Version, map[string]func() error{"follow": follow})
	os.Exit(m.Run())
}

func onGPUs() bool { return strings.Contains(os.Getenv("GAIDEN_PLUGIN"), "cuda") }

// follow is a follower's process.
func follow() error {
	plugin, err := device.Find()
	if err != nil {
		return err
	}
	l, err := hosts.Listen(os.Getenv(addressEnv), os.Getenv(secretEnv))
	if err != nil {
		return err
	}
	os.Setenv(devicetest.Role, "worker")
	fmt.Println("ready", l.Address())
	f := device.Follower{Version: session.Version, Command: []string{"/proc/self/exe"}, Plugin: plugin, Log: os.Stderr}
	f.Run(l)
	return nil
}

// follower is the process of one, in a group of its own.
type follower struct {
	*exec.Cmd
	address string
	log     *strings.Builder
}

func startFollower(t *testing.T, address string) *follower {
	t.Helper()
	f := &follower{exec.Command("/proc/self/exe"), address, &strings.Builder{}}
	f.Env = append(os.Environ(), devicetest.Role+"=follow", addressEnv+"="+address, "XDG_CACHE_HOME="+t.TempDir())
	f.Stderr = f.log
	out, err := f.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Process.Signal(syscall.SIGTERM)
		f.Wait()
		if t.Failed() {
			t.Logf("follower's log:\n%s", f.log)
		}
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscanf(line, "ready %s\n", &f.address); err != nil {
		t.Fatalf("follower said %q, want ready; its log:\n%s", line, f.log)
	}
	return f
}

// worker is the process number of the follower's worker.
func (f *follower) worker(t *testing.T) int {
	t.Helper()
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", f.Process.Pid))
	for _, path := range threads {
		b, _ := os.ReadFile(path)
		var pid int
		if n, _ := fmt.Sscan(string(b), &pid); n == 1 {
			return pid
		}
	}
	t.Fatalf("follower %d has no worker", f.Process.Pid)
	return 0
}

// open connects to a session, whose worker may be about to start.
func open(t *testing.T, socket string) *session.Session {
	t.Helper()
	s, err := session.Config{Socket: socket, Space: "test", NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// add has followers join, and connects to the next generation.
func add(t *testing.T, s *session.Session, socket, secret string, followers ...*follower) *session.Session {
	t.Helper()
	a := wire.AskBody{Verb: wire.Hosts, Path: secret}
	for _, f := range followers {
		a.Names = append(a.Names, f.address)
	}
	if _, err := s.Ask(a); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, socket)
	if got, want := len(s.Welcome().Devices), 1+len(followers); got != want {
		t.Fatalf("got %d devices after the followers joined, want %d; note: %s", got, want, s.Welcome().Note)
	}
	return s
}

func put(t *testing.T, s *session.Session, device int, v ...float32) *session.Array {
	t.Helper()
	a, err := s.Put(v, shapes.Make(dtypes.Float32, len(v)), device)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantValues(t *testing.T, what string, a *session.Array, want ...float32) {
	t.Helper()
	got := make([]float32, len(want))
	if err := a.Values(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
	}
}

// program is x*2+1, with a sum over replicas where there are several.
func program(t *testing.T, replicas int) *hlo.Program {
	t.Helper()
	return variant(t, replicas, 1)
}

// variant is the same with another number for 1.
func variant(t *testing.T, replicas, add int) *hlo.Program {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	b := hlo.NewBuilder(nil, fmt.Sprintf("step%d", replicas), nil)
	if replicas > 1 {
		must(b.DistributedSPMD(replicas))
	}
	f := b.Main().(*hlo.Function)
	x, err := f.Parameter("x", shapes.Make(dtypes.Float32, 2), nil)
	must(err)
	one, err := f.Constant([]float32{float32(add), float32(add)}, 2)
	must(err)
	two, err := f.Add(x, x)
	must(err)
	y, err := f.Add(two, one)
	must(err)
	if replicas > 1 {
		l, err := f.AllReduce([]compute.Value{y}, compute.ReduceOpSum, nil)
		must(err)
		y = l[0]
	}
	must(f.Return([]compute.Value{y}, nil))
	p, err := b.Program()
	must(err)
	return p
}

// TestFollowers is the life of a session with hosts: they join, compute, are lost, and come
// back.
func TestFollowers(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin, as it has more processes than most machines have GPUs: set GAIDEN_PLUGIN to the one that scripts/run fetches; TestTraining is for two GPUs")
	}
	socket := devicetest.Start(t)
	dir := t.TempDir()
	first := startFollower(t, filepath.Join(dir, "run", "a.sock"))
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(hosts.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := hosts.ReadSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(secretEnv, text)
	second := startFollower(t, "127.0.0.1:0")
	s := open(t, socket)
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{second.address}}); !errors.Is(err, wire.Denied) {
		t.Errorf("port without a secret: got %v, want a refusal", err)
	}
	if err := s.Bind([]string{"kept"}, []*session.Array{put(t, s, 0, 3, 4)}); err != nil {
		t.Fatal(err)
	}
	// What could not be brought back, or is being worked with, ends no worker.
	if _, err := s.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	l, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(socket)), "state", "gaiden", "snapshots", "*", "*.safetensors"))
	if err != nil || len(l) == 0 {
		t.Fatalf("got snapshots %q, %v, want some", l, err)
	}
	archive := filepath.Dir(l[0])
	refused := func(what string, want error, text string) {
		t.Helper()
		_, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{first.address}})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want a refusal that says %q", what, err, text)
		}
	}
	if err := errors.Join(os.Rename(archive, archive+".away"), os.WriteFile(archive, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Bind([]string{"late"}, []*session.Array{put(t, s, 0, 5)}); err != nil {
		t.Fatal(err)
	}
	refused("arrays that cannot be saved", wire.Unavailable, archive)
	if err := errors.Join(os.Remove(archive), os.Rename(archive+".away", archive)); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.Lock(t.Context(), "ke", "trains with", 0)
	if err != nil {
		t.Fatal(err)
	}
	refused("arrays that are locked", wire.Busy, "trains with")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	// The session's disk, but no follower's, has this one.
	if _, err := s.Compile(program(t, 1), session.Options{}); err != nil {
		t.Fatal(err)
	}
	s = add(t, s, socket, secret, first, second)
	host, _ := os.Hostname()
	for i, d := range s.Welcome().Devices {
		if want := []string{"", host, host}[i]; d.Host != want {
			t.Errorf("device %d: got host %q, want %q", i, d.Host, want)
		}
	}
	kept := func() {
		t.Helper()
		a, err := s.Array("kept")
		if err != nil {
			t.Fatal(err)
		}
		wantValues(t, "array from before", a, 3, 4)
	}
	kept()
	step := func(replicas int) {
		t.Helper()
		p, err := s.Compile(program(t, replicas), session.Options{Donate: []bool{true}})
		if err != nil {
			t.Fatal(err)
		}
		var state []*session.Array
		for r := range replicas {
			state = append(state, put(t, s, r, float32(r), 1))
		}
		for range 3 {
			if state, err = p.Run(session.Call{Inputs: state}); err != nil {
				t.Fatal(err)
			}
		}
		all := float32(replicas)
		want := []float32{all * all, 3 * all} // after one step
		for i := range want {
			for range 2 {
				want[i] = all * (2*want[i] + 1)
			}
		}
		for r, a := range state {
			wantValues(t, fmt.Sprintf("%d replicas, device %d", replicas, r), a, want...)
		}
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
	step(3)
	if _, err := s.Compile(program(t, 2), session.Options{}); !errors.Is(err, wire.Unsupported) || !strings.Contains(err.Error(), "2 hosts of 3") {
		t.Errorf("program for some of the hosts: got %v, want a refusal", err)
	}
	// Others cannot have a follower meanwhile, and what is no call does not disturb it.
	for _, tt := range []struct {
		line string
		want wire.Code
	}{
		{string(wire.JSON(hosts.Call{Protocol: wire.Protocol, Owner: "another session"})), wire.Busy},
		{string(wire.JSON(hosts.Call{Protocol: wire.Protocol + 1})), wire.BadVersion},
		{string(wire.JSON(hosts.Call{Protocol: wire.Protocol, Probe: true, Owner: "another session"})), wire.Busy},
		{string(wire.JSON(hosts.Call{Store: true, Set: "guessed"})), ""},
		{"GET / HTTP/1.1\r", ""},
		{strings.Repeat("x", 5000), ""},
	} {
		conn, err := hosts.Dial(first.address, "")
		if err != nil {
			t.Fatal(err)
		}
		var a hosts.Answer
		fmt.Fprintln(conn, tt.line)
		err = hosts.ReadLine(conn, &a)
		if conn.Close(); tt.want == "" && err == nil || tt.want != "" && !errors.Is(a.Error, tt.want) {
			t.Errorf("call %.40q: got answer %+v, %v, want %q", tt.line, a, err, tt.want)
		}
	}
	step(3)
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{first.address}}); err == nil || !strings.Contains(err.Error(), "in this session already") {
		t.Errorf("host that has joined: got %v, want a refusal", err)
	}
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{first.address + "x"}}); !errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), first.address+"x") {
		t.Errorf("host that does not answer: got %v, want a refusal with its address", err)
	}
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Remove: []string{"/nowhere"}}); !errors.Is(err, wire.NotFound) {
		t.Errorf("host that is not there: got %v, want a refusal", err)
	}
	// What is on one device of a follower.
	x := put(t, s, 0, 1, 2)
	for _, d := range []compute.DeviceNum{1, 2, 2, 0} {
		b, err := x.CopyToDevice(d)
		if err != nil {
			t.Fatal(err)
		}
		x = b.(*session.Array)
	}
	wantValues(t, "copied around", x, 1, 2)
	one, err := s.Compile(program(t, 1), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, err := one.Run(session.Call{Inputs: []*session.Array{put(t, s, 2, 5, 6)}, Device: 2})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "program on a follower", y[0], 11, 13)
	// A mistake is an error, not a hang, and ends nothing.
	all, err := s.Compile(program(t, 3), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := all.Run(session.Call{Inputs: []*session.Array{put(t, s, 0, 1, 2), put(t, s, 2, 1, 2), put(t, s, 1, 1, 2)}})
	if err == nil {
		err = wrong[0].Values(make([]float32, 2))
	}
	if err == nil || !strings.Contains(err.Error(), "argument 1 is not on the device") {
		t.Errorf("program on all hosts with arrays of the wrong ones: got %v, want an error that says so", err)
	}
	y, err = one.Run(session.Call{Inputs: []*session.Array{put(t, s, 1, 5, 6)}, Device: 2})
	if err == nil {
		err = y[0].Values(make([]float32, 2))
	}
	if err == nil || !strings.Contains(err.Error(), "argument 0 is not on the device") {
		t.Errorf("array on another host: got %v, want an error that says so", err)
	}
	kept()

	// A follower's worker dies: the session continues with those that answer.
	syscall.Kill(second.worker(t), syscall.SIGKILL)
	s = reopen(t, s, socket)
	if got := len(s.Welcome().Devices); got != 3 || !strings.Contains(s.Welcome().Note, "is lost") {
		t.Errorf("after a worker's death: got %d devices, note %q, want 3 and a note that a host was lost", got, s.Welcome().Note)
	}
	kept()
	step(3)
	// So it does when the whole follower is gone.
	second.Process.Kill()
	s = reopen(t, s, socket)
	if got := len(s.Welcome().Devices); got != 2 || !strings.Contains(s.Welcome().Note, second.address) {
		t.Errorf("after a follower's death: got %d devices, note %q, want 2 and a note with its address", got, s.Welcome().Note)
	}
	kept()
	step(2)
	// And when it is the controller's worker.
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(st.WorkerPID, syscall.SIGKILL)
	s = reopen(t, s, socket)
	if got := len(s.Welcome().Devices); got != 2 {
		t.Errorf("after the controller's death: got %d devices, note %q, want 2", got, s.Welcome().Note)
	}
	step(2)
	// One that comes back joins again, one that leaves is gone. Of two who want it at the same
	// time one is refused.
	second = startFollower(t, second.address)
	answers := make(chan error)
	for _, s := range []*session.Session{s, open(t, socket)} {
		go func() {
			_, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{second.address}, Remove: []string{first.address}})
			answers <- err
		}()
	}
	if x, y := <-answers, <-answers; (x == nil) == (y == nil) {
		t.Errorf("two requests at the same time: got %v and %v, want one that is refused", x, y)
	}
	s = reopen(t, s, socket)
	a, err := s.Ask(wire.AskBody{Verb: wire.Hosts})
	if err != nil || len(a.Hosts) != 1 || a.Hosts[0] != (wire.HostInfo{Address: second.address, Name: host, Devices: 1}) {
		t.Errorf("got hosts %v, %v, want the second alone", a, err)
	}
	kept()
}

// reopen waits until a connection has heard that its worker has ended, and connects to the next.
func reopen(t *testing.T, s *session.Session, socket string) *session.Session {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		if _, err := s.Status(); errors.Is(err, wire.Lost) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the worker has not ended")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return open(t, socket)
}
