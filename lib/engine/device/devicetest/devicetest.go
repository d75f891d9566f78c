// Package devicetest starts sessions for tests of other packages: real processes, without
// building gaiden. A test program plays them.
//
//	func TestMain(m *testing.M) {
//		devicetest.Play(session.Version, nil) // does not return in such a process
//		os.Exit(m.Run())
//	}
//	…
//	socket := devicetest.Start(t) // a session, until the test's end
package devicetest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/engine/device"
)

// Role names the environment variable that says which process a test program is to play.
const Role = "GAIDEN_TEST_ROLE"

// Play plays the process that Role names, one of a session's or of more, and ends. Where
// it names none it returns.
func Play(version string, more map[string]func() error) {
	var err error
	switch role := os.Getenv(Role); role {
	case "serve":
		os.Setenv(Role, "worker")
		s := device.Supervisor{Version: version, Command: []string{"/proc/self/exe"}, Ready: os.NewFile(3, "ready"), Log: os.Stderr}
		err = s.Run()
	case "worker":
		err = device.Work(version)
	default:
		play, is := more[role]
		if !is {
			return
		}
		err = play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// FirstLook has XLA optimize no program of this process, and of those that it starts, but those
// whose own flags say so: tests compile thousands of programs, and run each for a few steps. XLA
// reads its flags as a process begins, so the process begins again. Flags of the user's are kept.
func FirstLook() {
	if _, own := os.LookupEnv("XLA_FLAGS"); own {
		return
	}
	err := syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), "XLA_FLAGS=--xla_backend_optimization_level=0"))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Plugin is the file of the XLA plugin. Without one the test is skipped.
func Plugin(t testing.TB) string {
	t.Helper()
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file (pjrt_c_api_cpu_plugin.so), or use scripts/test, which fetches one")
	}
	return plugin
}

// Worker starts a worker in this process, with so many devices of a CPU, and returns its socket.
// It ends with the process.
func Worker(plugin, version string, devices int) (socket string, err error) {
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		return "", err
	}
	socket = filepath.Join(dir, "s")
	w := &device.Worker{Version: version, Generation: 1, Socket: socket,
		Plugin: device.Plugin{Path: plugin, Device: "cpu", Options: map[string]any{"cpu_device_count": int64(devices)}}}
	if err := w.Open(); err != nil {
		return "", err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return "", err
	}
	go w.Run(l)
	return socket, nil
}

// Start starts a session for a test, and returns its socket. Its files are in a folder of
// its own. Without an XLA plugin the test is skipped.
func Start(t *testing.T) (socket string) {
	t.Helper()
	Plugin(t)
	dir := t.TempDir()
	socket = filepath.Join(dir, "run", "session.sock")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), Role+"=serve", "GAIDEN_SOCKET="+socket, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	cmd.ExtraFiles = []*os.File{w}
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("session's log:\n%s", log)
		}
	})
	if line, _ := bufio.NewReader(r).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		t.Fatalf("session said %q, want ready", line)
	}
	return socket
}
