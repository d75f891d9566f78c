package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFindPeers holds that peers which are not there are told before anything is measured.
func TestFindPeers(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: apt-get install python3")
	}
	for _, tt := range []struct{ python, peers, want string }{
		{"", "json", ""},
		{"python3", "json,os", ""},
		{"", "json,no_such_library", "python3 has no no_such_library: name an interpreter"},
		{"/nowhere/python", "json", "/nowhere/python: no such file or directory: name an interpreter"},
		{"false", "json", "false: exit status 1: name an interpreter"},
	} {
		b := bench{python: tt.python, peerNames: tt.peers}
		err := b.findPeers()
		if tt.want == "" && (err != nil || b.python != "python3") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of %q: got %v and %q, want %q", tt.peers, tt.python, err, b.python, tt.want)
		}
	}
}
