package build

import (
	"strings"
	"time"

	"gaiden/lib/timing/units"
)

// Cost is where a cell's time went. Parts that did not happen are zero.
type Cost struct {
	Compose time.Duration // parsing, resolving imports, checking types
	Compile time.Duration
	Link    time.Duration
	Start   time.Duration // from fork to the program's existence
	Run     time.Duration // until it ended and all its output was read
	After   time.Duration // until what it left elsewhere was looked after
	Road    string        // "checked", "cached", "direct", "go build" or "go test"
}

// String returns one line, such as "compose 2.00 ms · compile 15.1 ms · link 78.0 ms · start 1.20 ms · run 3.10 ms (direct)".
func (c Cost) String() string {
	var parts []string
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"compose", c.Compose}, {"compile", c.Compile}, {"link", c.Link}, {"start", c.Start}, {"run", c.Run}, {"after", c.After}} {
		if d := p.d.Round(100 * time.Microsecond); d > 0 {
			parts = append(parts, p.name+" "+units.Seconds(d.Seconds()))
		}
	}
	s := strings.Join(parts, " · ")
	if c.Road != "" {
		s += " (" + c.Road + ")"
	}
	return strings.TrimSpace(s)
}
