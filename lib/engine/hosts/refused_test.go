package hosts_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/wire"
)

// TestHostsRefused: XLA's own CPU plugin makes no client of several nodes, and says so before
// anything has ended.
func TestHostsRefused(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	t.Setenv(realEnv, "yes")
	socket := devicetest.Start(t)
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	s := open(t, socket)
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{f.address}}); !errors.Is(err, wire.Unsupported) || !strings.Contains(err.Error(), "CPU plugin") {
		t.Errorf("got %v, want that the plugin cannot", err)
	}
	a, err := s.Ask(wire.AskBody{Verb: wire.Hosts})
	if err != nil || len(a.Hosts) != 0 || s.Welcome().Generation != 1 {
		t.Errorf("got hosts %v, %v, want the session as it was", a, err)
	}
}

// TestFollowerThatCannotStart: the others join, and the session says why this one does not.
func TestFollowerThatCannotStart(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin, since sessions of one test do not share GPUs: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	socket := devicetest.Start(t)
	dir := filepath.Join(t.TempDir(), "run")
	good := startFollower(t, filepath.Join(dir, "good.sock"))
	t.Setenv("GAIDEN_PLUGIN", filepath.Join(dir, "plugin.so"))
	bad := startFollower(t, filepath.Join(dir, "bad.sock"))
	call := func(c hosts.Call) *net.UnixConn {
		t.Helper()
		conn, err := hosts.Dial(bad.address, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c.Protocol = wire.Protocol
		if err := hosts.SendLine(conn, c); err != nil {
			t.Fatal(err)
		}
		var a hosts.Answer
		if err := hosts.ReadLine(conn, &a); !c.Store && (err != nil || a.Error != nil) {
			t.Fatalf("call %+v: got %+v, %v, want it taken", c, a, err)
		}
		return conn
	}
	// A session that only asks whether it may come does not take another one's place.
	pending := call(hosts.Call{Owner: "one", Set: "one"})
	call(hosts.Call{Owner: "two", Set: "two", Probe: true})
	call(hosts.Call{Owner: "one", Set: "one", Store: true, Node: 1, Count: 2})
	if frame, err := wire.NewReader(pending).Next(); err != nil || frame.Kind != wire.Failed || !strings.Contains(string(frame.Body), "plugin.so") {
		t.Errorf("after another session's probe: got %v %s, %v, want why the worker cannot start", frame.Kind, frame.Body, err)
	}
	s := open(t, socket)
	if _, err := s.Ask(wire.AskBody{Verb: wire.Hosts, Names: []string{bad.address, good.address}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, socket)
	a, err := s.Ask(wire.AskBody{Verb: wire.Hosts})
	if err != nil || len(a.Hosts) != 1 || a.Hosts[0].Address != good.address || a.Hosts[0].Devices != 1 {
		t.Errorf("got hosts %v, %v, want the good one alone", a, err)
	}
	if note := s.Welcome().Note; !strings.Contains(note, "bad.sock) is lost") || !strings.Contains(note, "plugin.so") {
		t.Errorf("got note %q, want that the bad one has no plugin", note)
	}
}
