package jupyter

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"gaiden/lib/engine/wire"
)

// historySize is how many cells the history keeps.
const historySize = 10_000

// lineLimit is the longest line of a history file that is read.
const lineLimit = 64 << 20 // bytes

// An entry is a cell that was run. In the file an entry without input marks
// the start of a session.
type entry struct {
	Session int    `json:"session"`
	Line    int    `json:"line,omitempty"` // execution_count
	Input   string `json:"input,omitempty"`
}

// history is the cells that were run, in this session and in those before. It
// lives in memory and, if path is not empty, in a file of JSON lines that
// several kernels may share.
type history struct {
	path    string
	size    int // entries kept
	session int // of this kernel, from 1

	mu      sync.Mutex
	entries []entry
}

// openHistory reads the file, if there is one, shortens it if it has grown long,
// and begins a session. With an error comes a history that works in memory.
func openHistory(path string, size int) (*history, error) {
	h := &history{path: path, size: size, session: 1}
	if path == "" {
		return h, nil
	}
	err := h.load()
	if err != nil {
		h.path = ""
		return h, fmt.Errorf("jupyter: history: %w", err)
	}
	return h, nil
}

func (h *history) load() error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	return h.locked(func() error {
		text, err := wire.ReadOwn(h.path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		lines := 0
		s := bufio.NewScanner(bytes.NewReader(text))
		s.Buffer(nil, lineLimit)
		for s.Scan() {
			lines++
			var e entry
			if json.Unmarshal(s.Bytes(), &e) != nil || e.Session <= 0 {
				continue // cut off by a crash, or not ours: the rest is still good
			}
			h.session = max(h.session, e.Session+1)
			if e.Input != "" {
				h.entries = append(h.entries, e)
			}
		}
		if err := s.Err(); err != nil {
			return err
		}
		h.trim()
		if lines > 2*h.size {
			if err := h.rewrite(); err != nil {
				return err
			}
		}
		return h.append(entry{Session: h.session})
	})
}

// rewrite replaces the file by what is kept.
func (h *history) rewrite() error {
	var b bytes.Buffer
	for _, e := range h.entries {
		if err := json.NewEncoder(&b).Encode(e); err != nil {
			return err
		}
	}
	return wire.ReplaceFile(h.path, b.Bytes())
}

func (h *history) append(e entry) error {
	f, err := wire.OpenOwn(h.path, os.O_APPEND|os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if torn(f) {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// torn says whether the file's last line has no end, after a crash.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// locked runs f while no other kernel touches the file.
func (h *history) locked(f func() error) error {
	lock, err := wire.OpenOwn(h.path+".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f()
}

func (h *history) trim() {
	if n := len(h.entries) - h.size; n > 0 {
		h.entries = slices.Delete(h.entries, 0, n)
	}
}

// add keeps a cell. It is in memory even if the file cannot be written.
func (h *history) add(line int, input string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := entry{h.session, line, input}
	h.entries = append(h.entries, e)
	if len(h.entries) > 2*h.size {
		h.trim()
	}
	if h.path == "" {
		return nil
	}
	return h.locked(func() error { return h.append(e) })
}

// A query is the content of a history_request.
type query struct {
	Output  bool   `json:"output"`
	Access  string `json:"hist_access_type"` // range, tail or search
	Session int    `json:"session"`          // range: 0 is this one, -1 the one before
	Start   int    `json:"start"`            // range: first line; below 0 counts from the end
	Stop    *int   `json:"stop"`             // range: line after the last; none is the end
	N       *int   `json:"n"`                // tail and search: at most the last n
	Pattern string `json:"pattern"`          // search: a glob for the whole cell
	Unique  bool   `json:"unique"`           // search: equal cells only once, the last
}

// find answers a query, oldest first.
func (h *history) find(q query) ([]entry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries := h.entries[max(0, len(h.entries)-h.size):]
	switch q.Access {
	case "range":
		return h.lines(entries, q), nil
	case "tail":
		return slices.Clone(last(entries, q.N)), nil
	case "search":
		q.Pattern = cmp.Or(q.Pattern, "*")
		return last(search(entries, q.Pattern, q.Unique), q.N), nil
	}
	return nil, fail("BadRequest", "jupyter: history_request: hist_access_type: got %q, want range, tail or search", q.Access)
}

func (h *history) lines(entries []entry, q query) []entry {
	session := q.Session
	if session <= 0 {
		session += h.session
	}
	end := 1
	for _, e := range entries {
		if e.Session == session {
			end = max(end, e.Line+1)
		}
	}
	start, stop := q.Start, end
	if q.Stop != nil {
		stop = *q.Stop
		if stop < 0 {
			stop += end
		}
	}
	if start < 0 {
		start += end
	}
	var found []entry
	for _, e := range entries {
		if e.Session == session && e.Line >= start && e.Line < stop {
			found = append(found, e)
		}
	}
	return found
}

func last(entries []entry, n *int) []entry {
	if n == nil {
		return entries
	}
	return entries[len(entries)-max(0, min(*n, len(entries))):]
}

// alike makes / a character like any other to package path, and \, which escapes nothing in a
// pattern of SQLite, by which IPython searches its history.
var alike = strings.NewReplacer("/", "\x00", `\`, `\\`)

// matches says whether a whole text is as a pattern, in which * is any text, ? any character,
// [a-z] one of a set and [^a-z] one not of it.
func matches(pattern, text string) bool {
	is, err := path.Match(alike.Replace(pattern), strings.ReplaceAll(text, "/", "\x00"))
	return is && err == nil
}

func search(entries []entry, pattern string, unique bool) []entry {
	var found []entry
	seen := map[string]bool{}
	for _, e := range slices.Backward(entries) {
		if !matches(pattern, e.Input) || unique && seen[e.Input] {
			continue
		}
		seen[e.Input] = true
		found = append(found, e)
	}
	slices.Reverse(found)
	return found
}
