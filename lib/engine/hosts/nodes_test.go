package hosts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// TestLostRestore: a rollback has not succeeded before another host has the arrays.
func TestLostRestore(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin, since sessions of one test do not share GPUs: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	socket := devicetest.Start(t)
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	s := add(t, open(t, socket), socket, "", f)
	for _, title := range []string{"one", "two"} {
		if err := s.Bind([]string{"x"}, []*session.Array{put(t, s, 1, 1, float32(len(title)))}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Snapshot(title); err != nil {
			t.Fatal(err)
		}
	}
	pid := f.worker(t)
	syscall.Kill(pid, syscall.SIGSTOP)
	for running := true; running; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("follower's worker %d: got threads %v, %v", pid, threads, err)
		}
		running = slices.ContainsFunc(threads, func(path string) bool {
			b, err := os.ReadFile(path)
			return err != nil || !strings.Contains(string(b), ") T ")
		})
	}
	// Until then, it takes no array. A time that is too short makes the test a weaker one.
	time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(pid, syscall.SIGKILL) })
	if _, err := s.Rollback("one", ""); err == nil {
		t.Error("rollback to a host that takes no array and is lost then: got success, want an error")
	}
}

// TestReady: what went wrong with one array of a follower is said of that one alone, as the
// arrays may be different notebooks'.
func TestReady(t *testing.T) {
	path := os.Getenv("GAIDEN_PLUGIN")
	if path == "" || onGPUs() {
		t.Skip("needs XLA's CPU plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	plugin, err := pjrt.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	nodes := hosts.Gather([]string{f.address}, "", hosts.Call{Version: session.Version, Owner: "test"})
	defer nodes.Close()
	c, err := nodes.Open(plugin, map[string]any{"cpu_device_count": int64(1)})
	if err != nil || len(nodes.Missing) > 0 {
		t.Fatal(err, nodes.Missing)
	}
	upload := func(bytes int) pjrt.Buffer {
		t.Helper()
		b, err := c.Upload(make([]byte, bytes), pjrt.Float32, []int{2}, c.Devices()[1])
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bad, good, worse := upload(1), upload(8), upload(3)
	for _, tt := range []struct {
		b    pjrt.Buffer
		want string
	}{{good, ""}, {worse, "got 3 bytes, want 8"}, {bad, "got 1 bytes, want 8"}, {good, ""}} {
		if err := c.Wait(tt.b); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// TestDevicesOfHosts has two devices in each of two processes: each computes with its own part
// of what a program is given, and gives it to its own device. The test double adds up within a
// process.
func TestDevicesOfHosts(t *testing.T) {
	if onGPUs() {
		t.Skip("needs more devices than there are GPUs: set GAIDEN_PLUGIN to the CPU plugin that scripts/run fetches")
	}
	t.Setenv("GAIDEN_CPU_DEVICES", "2")
	socket := devicetest.Start(t)
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	s := open(t, socket)
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{f.address}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, socket)
	if n := len(s.Welcome().Devices); n != 4 {
		t.Fatalf("got %d devices, want 4; note: %s", n, s.Welcome().Note)
	}
	p, err := s.Compile(program(t, 4), session.Options{Donate: []bool{true}})
	if err != nil {
		t.Fatal(err)
	}
	var in []*session.Array
	for r := range 4 {
		in = append(in, put(t, s, r, float32(r), float32(10*r)))
	}
	out, err := p.Run(session.Call{Inputs: in})
	if err != nil {
		t.Fatal(err)
	}
	for r, a := range out { // 2x+1 of both devices of a process
		if r < 2 {
			wantValues(t, fmt.Sprint("device ", r), a, 1+3, 1+21)
		} else {
			wantValues(t, fmt.Sprint("device ", r), a, 5+7, 41+61)
		}
	}
	one, err := s.Compile(program(t, 1), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for d := range 4 {
		x, err := put(t, s, 0, 1, 2).CopyToDevice(compute.DeviceNum(d))
		if err != nil {
			t.Fatal(err)
		}
		out, err := one.Run(session.Call{Inputs: []*session.Array{x.(*session.Array)}, Device: d})
		if err != nil {
			t.Fatal(err)
		}
		wantValues(t, fmt.Sprint("program on device ", d), out[0], 3, 5)
	}
}

// TestControllerGone kills a session and its worker: a follower waits, and another session may
// have it at once.
func TestControllerGone(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin, since sessions of one test do not share GPUs: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	socket := devicetest.Start(t)
	s := add(t, open(t, socket), socket, "", f)
	pid := f.worker(t)
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	syscall.Kill(st.PID, syscall.SIGKILL)
	for syscall.Kill(pid, 0) == nil {
		if time.Since(began) > recovery {
			t.Fatalf("the follower's worker is there %v after its controller's end", time.Since(began))
		}
		time.Sleep(time.Millisecond)
	}
	socket = devicetest.Start(t)
	add(t, open(t, socket), socket, "", f)
	if took := time.Since(began); took > recovery {
		t.Errorf("another session had the follower after %v, want at most %v", took, recovery)
	}
}
