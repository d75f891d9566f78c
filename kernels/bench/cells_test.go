package main

import (
	"maps"
	"testing"
	"time"
)

func TestCellParts(t *testing.T) {
	got := cellParts("1003 find 2.713ms work 5.655208ms\ncompose 2.40 ms · compile 13.4 ms · link 184 ms · start 1.10 ms · run 1.30 ms · after 300 µs (direct)\n" +
		"graph 4.1 ms · compile 640 ms (1 compiled, 2 ready) · upload 47.0 MB in 12 ms · device 1.20 s · download 4 B in 80 µs\n")
	us := time.Microsecond
	want := map[string]time.Duration{"find": 2713 * us, "work": 5655208, "compose": 2400 * us, "compile": 13400 * us, "link": 184000 * us,
		"start": 1100 * us, "run": 1300 * us, "after": 300 * us, "graph": 4100 * us, "device": 1200000 * us}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFreeConnection: five ports, all different, as a connection file wants them.
func TestFreeConnection(t *testing.T) {
	c, err := freeConnection()
	if err != nil {
		t.Fatal(err)
	}
	ports := map[int]bool{c.ShellPort: true, c.IOPubPort: true, c.StdinPort: true, c.ControlPort: true, c.HBPort: true}
	if len(ports) != 5 || ports[0] || c.Key == "" {
		t.Errorf("got %+v, want five ports and a key", c)
	}
}
