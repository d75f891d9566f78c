package device

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
)

// words are what a worker writes to its standard error. They pass on to the
// session's log; what it says when it crashes is kept, so that the next worker
// can tell it to the clients.
type words struct {
	to io.Writer // nil is nowhere

	mu    sync.Mutex // protects following
	last  []byte     // the newest of all
	crash []byte     // from the first line on that tells of a crash
}

const (
	keptWords   = 64 << 10 // bytes of the end that are kept, and of a crash
	keptCrashes = 10       // files
)

// crashLine begins what Go, the C++ library and XLA say when a process has to
// end: what follows are stacks.
var crashLine = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: |runtime: |F\d{4} |terminate called|.*Check failed: |.*` + deviceLost + `).*$`)

// Write never fails: a full disk must not end the worker.
func (x *words) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.to != nil {
		x.to.Write(b)
	}
	x.last = append(x.last, b...)
	if n := len(x.last); n > 2*keptWords {
		x.last = append(x.last[:0], x.last[n-keptWords:]...)
	}
	if x.crash != nil {
		x.crash = append(x.crash, b[:min(len(b), max(0, keptWords-len(x.crash)))]...)
	} else if at := crashLine.FindIndex(x.last); at != nil {
		x.crash = bytes.Clone(x.last[at[0]:])
	}
	return len(b), nil
}

// routine is a line that tells of work, not of an end: of the worker's own log, of what
// XLA does, and of arrays that do not fit a block.
var routine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d worker: |I\d{4} |W\d{4} .*heap_simulator\.cc|WARNING: All log messages before absl)`)

// lastLine is one line about the end: the first of a crash, else the last ones
// that are no routine.
func (x *words) lastLine() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	text, n := x.last, 0
	if x.crash != nil {
		text, n = x.crash, 3
	}
	var lines []string
	for l := range strings.SplitSeq(string(text), "\n") {
		if l = strings.TrimSpace(l); l != "" && !routine.MatchString(l) {
			lines = append(lines, l)
		}
	}
	if n == 0 {
		lines = lines[max(0, len(lines)-3):]
	} else {
		lines = lines[:min(n, len(lines))]
	}
	s := strings.Join(lines, " / ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

// all is the last line, but with what XLA says of its flags, which is a crash, whole.
func (x *words) all() string {
	x.mu.Lock()
	line := flagLine.FindString(string(x.last))
	x.mu.Unlock()
	if line != "" {
		return line
	}
	return x.lastLine()
}

// saveCrash writes the words to a file of dir, of which the newest few are kept, and
// returns its path.
func (x *words) saveCrash(dir string, generation int, end error) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("worker-%s-%d.log", time.Now().Format("20060102-150405.000"), generation))
	x.mu.Lock()
	text := fmt.Appendf(nil, "worker %d: %v\n", generation, end)
	if x.crash != nil {
		text = append(append(text, x.crash...), "\n… the end of its log:\n"...)
	}
	text = append(text, x.last[max(0, len(x.last)-keptWords):]...)
	x.mu.Unlock()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", err
	}
	if old, err := filepath.Glob(filepath.Join(dir, "worker-*.log")); err == nil {
		sort.Strings(old)
		for _, f := range old[:max(0, len(old)-keptCrashes)] {
			os.Remove(f)
		}
	}
	return path, nil
}
