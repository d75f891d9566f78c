package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time in seconds that this process and those which it has started have
// used. On a machine that others use, too, it says more than a clock.
func cpuTime() (seconds float64) {
	parent := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 { // from the third one on
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			parent[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for pid := range parent {
		for p := pid; p > 1; p = parent[p] {
			if p != os.Getpid() {
				continue
			}
			var t unix.Timespec
			if unix.ClockGettime(int32(^pid<<3|2), &t) == nil { // that of a process: clock_getcpuclockid(3)
				seconds += float64(t.Nano()) / 1e9
			}
			break
		}
	}
	return seconds
}
