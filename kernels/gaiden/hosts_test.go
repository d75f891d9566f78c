package main

import (
	"errors"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestShowHosts: %hosts add is an error where a host has not joined, whether the session still
// tries it or goes on without it.
func TestShowHosts(t *testing.T) {
	a, b := wire.HostInfo{Address: "/a", Name: "gpu1", Devices: 1}, wire.HostInfo{Address: "/b"}
	w := wire.WelcomeBody{Note: "host /b: no plugin", Devices: []wire.DeviceInfo{{}, {Host: "gpu1"}}}
	for _, tt := range []struct {
		name  string
		l     []wire.HostInfo
		added []string
		want  string
	}{
		{"nothing added", []wire.HostInfo{a, b}, nil, ""},
		{"one that joined", []wire.HostInfo{a, b}, []string{"/a"}, ""},
		{"one that is still tried", []wire.HostInfo{a, b}, []string{"/a", "/b"}, "host /b has not joined: host /b: no plugin"},
		{"one that was left out", []wire.HostInfo{a}, []string{"/b"}, "host /b has not joined: host /b: no plugin"},
	} {
		p := &page{}
		err := showHosts(p, w, tt.l, tt.added)
		if (err != nil) != (tt.want != "") || err != nil && (!errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if got := p.String(); !strings.Contains(got, "gpu1") {
			t.Errorf("%s: got %q, want the list", tt.name, got)
		}
	}
}
