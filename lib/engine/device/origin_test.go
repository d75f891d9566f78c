package device

import (
	"sync"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestForeignNumbers: processes of two containers, or of two machines, may have the same
// number. What the kernel of one requests for its cell is not done to the other's.
func TestForeignNumbers(t *testing.T) {
	w := &Worker{holdings: holdings{conns: map[*conn]struct{}{}}}
	w.unpinned = sync.NewCond(&w.mu)
	cells := map[string]*conn{}
	for _, origin := range []string{"here", "there"} {
		c := &conn{w: w, clientInfo: clientInfo{pid: 107, group: 107, hello: wire.HelloBody{Origin: origin}}, requests: requests{read: 5}}
		c.changed = sync.NewCond(&c.mu)
		cells[origin] = c
		w.conns[c] = struct{}{}
	}
	if n := w.cancel("here", 107); n != 1 || cells["here"].dropTo != 5 || cells["there"].dropTo != 0 {
		t.Errorf("cancel: got %d connections, here up to frame %d, there up to %d; want 1, 5 and 0", n, cells["here"].dropTo, cells["there"].dropTo)
	}
	for _, c := range cells {
		delete(w.conns, c)
		w.orphan(c, wire.Errorf(wire.ExecuteError, "of %s", c.hello.Origin), false)
	}
	for _, tt := range []struct{ origin, want string }{{"there", "of there"}, {"there", ""}, {"here", "of here"}} {
		got := ""
		for _, e := range w.drain(tt.origin, 107).Errors {
			got += e.Text
		}
		if got != tt.want {
			t.Errorf("drain of %s: got %q, want %q", tt.origin, got, tt.want)
		}
	}
}
