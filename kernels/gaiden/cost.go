package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// meter is what this kernel's cells report to. Where it cannot be had, %cost has
// no line of the session's.
func meter() *session.CostMeter {
	m, err := session.NewCostMeter()
	if err != nil {
		return nil
	}
	name, value, _ := strings.Cut(m.Environ(), "=")
	if os.Setenv(name, value) != nil { // cells inherit it
		return nil
	}
	return m
}

// costLine is a line such as "graph 4.1 ms · compile 640 ms (1 compiled, 2 ready) ·
// upload 47.0 MB in 12 ms · device 1.20 s · download 4 B in 80 µs"; "" if nothing
// was spent.
func costLine(c session.Cost) string {
	var parts []string
	add := func(name string, d time.Duration, more string) {
		if d > 0 || more != "" {
			parts = append(parts, strings.TrimSpace(name+" "+units.Seconds(d.Seconds())+more))
		}
	}
	add("graph", c.Graph, "")
	var from []string
	for _, s := range []struct {
		n    int
		name string
	}{{c.Compiled, "compiled"}, {c.Loaded, "from disk"}, {c.Ready, "ready"}} {
		if s.n > 0 {
			from = append(from, fmt.Sprintf("%d %s", s.n, s.name))
		}
	}
	if len(from) > 0 {
		add("compile", c.Compile, " ("+strings.Join(from, ", ")+")")
	}
	move := func(name string, d time.Duration, bytes int64) {
		if bytes > 0 {
			parts = append(parts, fmt.Sprintf("%s %s in %s", name, units.Bytes(float64(bytes)), units.Seconds(d.Seconds())))
		}
	}
	move("upload", c.Upload, c.UploadBytes)
	add("device", c.Device, "")
	move("download", c.Download, c.DownloadBytes)
	return strings.Join(parts, " · ")
}
