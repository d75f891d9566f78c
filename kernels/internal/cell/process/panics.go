package process

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gaiden/kernels/internal/cell/parse"
)

// A Panic is what the Go runtime wrote when a program died of a panic or a
// fatal error.
type Panic struct {
	Message string  // "runtime error: index out of range [4] with length 1"
	Frames  []Frame // those of the user's cells, innermost first
	Text    string  // everything, as the runtime wrote it
	Next    string  // what the error says to do that the program died of, if it does
	Failed  bool    // it did not panic by itself: a call has returned an error, and the code around the cell fails the cell with it
}

// A Frame is a place in a cell that a goroutine was in.
type Frame struct {
	Func   string // "f", "(*T).Method"; "main" for a cell's statements
	Cell   int
	Line   int
	Column int    // in bytes from 1, 0 = not known
	Fails  string // the function that it called to fail with an error: see Panic.Failed
}

// panicBegins is how the last words begin that a program can also have caught and
// printed itself.
const panicBegins = "panic: "

// beginnings are how the runtime's last words begin.
var beginnings = [][]byte{
	[]byte(panicBegins), []byte("fatal error: "), []byte("runtime: goroutine stack exceeds"),
	[]byte("runtime: out of memory"), []byte("runtime: cannot allocate"), []byte("runtime: program exceeds"), []byte("runtime: failed to create new OS thread"),
	[]byte("unexpected fault address"), []byte("SIGSEGV: "), []byte("SIGQUIT: "), []byte("SIGABRT: "),
}

// A panicFilter passes a program's standard error on, but holds it back from
// where the runtime's last words seem to begin. When the program then ends,
// they are no output but the cell's error. When it does not end, they were
// output after all.
type panicFilter struct {
	pass func([]byte)

	mu      sync.Mutex
	line    []byte // the current line, while it may still become a beginning
	inLine  bool   // the current line is not one
	held    []byte
	holding bool
	timer   *time.Timer
}

const (
	panicPatience = 2 * time.Second // that the runtime may be silent in its last words
	fatalPatience = time.Minute     // the same where no program continues: a full stack has millions of frames to count
	panicLimit    = 8 << 20         // bytes of them
)

func (f *panicFilter) write(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holding {
		f.hold(p)
		return
	}
	if len(f.line) > 0 {
		p = append(f.line, p...)
		f.line = nil
	}
	for at := 0; at < len(p); {
		if !f.inLine {
			switch begins(p[at:]) {
			case matchWhole:
				f.out(p[:at])
				f.holding = true
				f.hold(p[at:])
				return
			case matchPart:
				f.out(p[:at])
				f.line = append([]byte(nil), p[at:]...)
				return
			}
		}
		i := bytes.IndexByte(p[at:], '\n')
		f.inLine = i < 0
		if i < 0 {
			break
		}
		at += i + 1
	}
	f.out(p)
}

type match int

const (
	matchNone  match = iota
	matchPart        // all of it is how a beginning begins
	matchWhole       // it begins with a beginning
)

func begins(p []byte) match {
	result := matchNone
	for _, b := range beginnings {
		if bytes.HasPrefix(p, b) {
			return matchWhole
		}
		if bytes.HasPrefix(b, p) {
			result = matchPart
		}
	}
	return result
}

func (f *panicFilter) hold(p []byte) {
	f.held = append(f.held, p...)
	if len(f.held) > panicLimit {
		f.release()
		return
	}
	patience := fatalPatience
	if bytes.HasPrefix(f.held, []byte(panicBegins)) || !fatalLine.Match(f.held) {
		patience = panicPatience
	}
	if f.timer == nil {
		f.timer = time.AfterFunc(patience, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.release()
		})
	} else {
		f.timer.Reset(patience)
	}
}

// release hands on what was held: it was no panic.
func (f *panicFilter) release() {
	f.out(f.held)
	f.held, f.holding, f.inLine = nil, false, true
}

func (f *panicFilter) out(p []byte) {
	if f.pass != nil && len(p) > 0 {
		f.pass(p)
	}
}

// finish is called when all has been read. With failed, the program did not
// end well, and what is held is its panic.
func (f *panicFilter) finish(failed bool) *Panic {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.out(f.line)
	f.line = nil
	if !f.holding {
		return nil
	}
	if failed {
		if p := parsePanic(string(f.held)); p != nil {
			return p
		}
	}
	f.release()
	return nil
}

var (
	goroutineLine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[.*\]:$`)
	frameLine     = regexp.MustCompile(`^\t(.*):(\d+)(?: \+0x[0-9a-f]+)?(?: fp=\S+ sp=\S+ pc=\S+)?$`)
	fatalLine     = regexp.MustCompile(`(?m)^fatal error: .*\n`)
	againLines    = regexp.MustCompile(`(?s)^(.*) \[recovered(?:, repanicked\]|\]\n\tpanic: hint: (.*))$`) // by gaidenstack.Hint
	addressLine   = regexp.MustCompile(`(?m)^(?:runtime: sp=.*|\[signal .* pc=.*\])\n?`)
)

// parsePanic reads the runtime's last words; nil means that they are not.
func parsePanic(text string) *Panic {
	at := goroutineLine.FindStringIndex(text)
	if at == nil {
		if !strings.HasPrefix(text, "fatal error: ") {
			return nil
		}
		at = []int{len(text), len(text)} // no goroutine is left to be shown
	}
	var made []string // where the error was made
	p := &Panic{Text: text, Message: message(text[:at[0]])}
	if m := againLines.FindStringSubmatch(p.Message); m != nil {
		hint, lines, _ := strings.Cut(m[2], "\n\tat: ")
		p.Message, p.Next = m[1], strings.ReplaceAll(hint, "\n\t", "\n    ")
		made = strings.Split(lines, "\n\tat: ")
	}
	p.Frames = frames(text[at[1]:])
	p.Failed = len(p.Frames) > 0 && p.Frames[0].Fails != ""
	if before, next, found := strings.Cut(p.Message, "\n\thint: "); p.Failed && found { // gaidenstack.Failure
		p.Message, p.Next = before, strings.ReplaceAll(next, "\n\t", "\n    ")
	}
	p.Frames = append(madeIn(made, p.Frames), p.Frames...)
	if p.Failed && !strings.Contains(p.Message, "\n\tpanic: ") {
		p.Message = strings.ReplaceAll(p.Message, "\n\t", "\n") // the runtime indents it
	}
	if len(p.Frames) == 0 && !strings.HasPrefix(text, panicBegins) {
		// What the runtime could not do was not asked of it by this goroutine alone.
		for _, at := range goroutineLine.FindAllStringIndex(text, 100) {
			if p.Frames = frames(text[at[1]:]); len(p.Frames) > 0 {
				break
			}
		}
	}
	return p
}

// message is what stands above the goroutines, without addresses and without the
// runtime's own calls, the word that says most first.
func message(text string) string {
	text, _, _ = strings.Cut(text, "\n\nruntime stack:\n")
	text = strings.TrimSpace(addressLine.ReplaceAllString(text+"\n", ""))
	if at := fatalLine.FindStringIndex(text + "\n"); at != nil && strings.HasPrefix(text, "runtime: ") {
		text = text[at[0]:] + "\n" + strings.TrimSpace(text[:at[0]])
	}
	return strings.TrimPrefix(text, panicBegins)
}

// frames are those of cells in the first goroutine of a trace.
func frames(trace string) (list []Frame) {
	trace, _, _ = strings.Cut(trace, "\n\n")
	lines := strings.Split(trace, "\n")
	above := "" // the function of the frame above, if it fails cells
	for i := 1; i < len(lines); i++ {
		m := frameLine.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		id, ok := parse.CellOfFile(m[1])
		if ok {
			line, _ := strconv.Atoi(m[2])
			list = append(list, Frame{Func: funcName(lines[i-1]), Cell: id, Line: line, Fails: above})
		}
		above = failing(lines[i-1], m[1])
	}
	return list
}

// madeIn are the lines at which an error was made, as gaidenstack tells them, but for
// those that the frames of its panic show as well.
func madeIn(lines []string, shown []Frame) (list []Frame) {
	for _, made := range lines {
		function, at, _ := strings.Cut(made, "\t")
		m := frameLine.FindStringSubmatch("\t" + at)
		if m == nil {
			continue
		}
		if id, ok := parse.CellOfFile(m[1]); ok {
			line, _ := strconv.Atoi(m[2])
			f := Frame{Func: funcName(function), Cell: id, Line: line}
			if !slices.ContainsFunc(shown, func(s Frame) bool { return s.Cell == f.Cell && s.Line == f.Line }) {
				list = append(list, f)
			}
		}
	}
	return list
}

// failing returns the name of a function that fails cells: one of those that package
// keep writes around them, or package gaidenshow's. It is empty for others.
func failing(function, file string) string {
	name := funcName(function)
	name, _, _ = strings.Cut(name, "[") // it is generic
	if shows, ok := strings.CutPrefix(name, "cell/gaidenshow."); ok {
		return shows
	}
	if filepath.Base(file) != parse.GlueName {
		return ""
	}
	return name
}

// hints say what to do about what the runtime says, where it is no mistake that
// the line shows by itself.
var hints = []struct{ says, hint string }{
	{"stack overflow", "a function calls itself without an end: look for the case in which it should stop (a depth of millions that is meant needs debug.SetMaxStack(1 << 30) first)"},
	{"out of memory", memoryHint},
	{"cannot allocate memory", memoryHint},
	{"all goroutines are asleep", "everything waits for something that nobody is left to do: a channel without another end, a WaitGroup or a Mutex that is not released"},
	{"concurrent map", "goroutines use one map at the same time: guard it by a sync.Mutex, or give each its own"},
	{"thread exhaustion", "too many goroutines hold a thread each: start fewer of them at a time"},
	{"newosproc", "the system gives this user no more threads: start fewer goroutines that wait in system calls, or raise ulimit -u"},
}

const memoryHint = "the machine has not that much memory to give: ask for less, or do the work in parts"

// Hint says what the user can do next, "" where there is no more to say.
func (p *Panic) Hint() string {
	if p.Next != "" {
		return p.Next
	}
	if strings.HasPrefix(p.Text, panicBegins) {
		return "" // the words are the program's
	}
	for _, h := range hints {
		if strings.Contains(p.Message, h.says) {
			return h.hint
		}
	}
	return ""
}

// funcName returns "f" for "main.f(0xc000, ...)" and "created by main.f in goroutine 1".
func funcName(s string) string {
	s = strings.TrimPrefix(s, "created by ")
	s, _, _ = strings.Cut(s, " in goroutine ")
	if strings.HasSuffix(s, ")") {
		if i := strings.LastIndexByte(s, '('); i > 0 {
			s = s[:i]
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(s, "main."), "cell.") // a test is of package cell
}

// Traceback returns the panic's frames with the lines they stand in; lineOf
// returns the text of a cell's line, or "" when nobody knows it any more.
func (p *Panic) Traceback(lineOf func(cell, line int) string) string {
	var b strings.Builder
	const limit = 20
	for i, shown := 0, 0; i < len(p.Frames); shown++ {
		if shown == limit {
			fmt.Fprintf(&b, "and %d more\n", len(p.Frames)-i)
			break
		}
		f, again := p.Frames[i], 0
		for i++; i < len(p.Frames) && p.Frames[i] == f; i++ {
			again++
		}
		if f.Cell != 0 { // a magic's code has no number
			fmt.Fprintf(&b, "cell %d, ", f.Cell)
		}
		fmt.Fprintf(&b, "line %d, in %s", f.Line, f.Func)
		if again > 0 {
			b.WriteString(", again and again")
		}
		b.WriteString("\n")
		if text := lineOf(f.Cell, f.Line); text != "" {
			b.WriteString(parse.Excerpt(f.Line, f.Column, text) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
