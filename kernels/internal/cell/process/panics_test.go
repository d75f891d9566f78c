package process

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestPanicFilter feeds text in pieces of every size.
func TestPanicFilter(t *testing.T) {
	const crash = "panic: oh\n\ngoroutine 1 [running]:\nmain.f(...)\n\t/tmp/x/cell[3]:5\nmain.main()\n\tcell[4]:2 +0x4c\n\ngoroutine 7 [select]:\nmain.g()\n\tcell[5]:1 +0x1\n"
	tests := []struct {
		name, text string
		failed     bool
		passed     string
		message    string // of the panic; empty = none
	}{
		{"nothing", "", false, "", ""},
		{"plain", "one\ntwo", false, "one\ntwo", ""},
		{"panic", "one\n" + crash, true, "one\n", "oh"},
		{"panic from the first byte", crash, true, "", "oh"},
		{"the word in a line", "no panic: here\n", true, "no panic: here\n", ""},
		{"half the word at the end", "x\npan", false, "x\npan", ""},
		{"printed by the program", "panic: just words\nand more\n", true, "panic: just words\nand more\n", ""},
		{"not failed", crash, false, crash, ""},
		{"no goroutine left", "fatal error: no goroutines (main called runtime.Goexit) - deadlock!\n", true, "", "fatal error: no goroutines (main called runtime.Goexit) - deadlock!"},
	}
	for _, tt := range tests {
		for size := 1; size <= len(tt.text)+1; size++ {
			var passed bytes.Buffer
			f := &panicFilter{pass: func(p []byte) { passed.Write(p) }}
			for rest := []byte(tt.text); len(rest) > 0; {
				n := min(size, len(rest))
				f.write(rest[:n])
				rest = rest[n:]
			}
			p := f.finish(tt.failed)
			if got := passed.String(); got != tt.passed {
				t.Fatalf("%s, pieces of %d: got %q passed on, want %q", tt.name, size, got, tt.passed)
			}
			if (p != nil) != (tt.message != "") || p != nil && p.Message != tt.message {
				t.Fatalf("%s, pieces of %d: got panic %v, want %q", tt.name, size, p, tt.message)
			}
			if p != nil && strings.Contains(tt.text, "goroutine 1") {
				if got, want := places(p.Frames), "[f 3 5, main 4 2]"; got != want {
					t.Fatalf("%s: got frames %s, want %s", tt.name, got, want)
				}
			}
		}
	}
}

// places are the functions, cells and lines of frames, and what has failed there.
func places(frames []Frame) string {
	var list []string
	for _, f := range frames {
		list = append(list, strings.TrimSpace(fmt.Sprint(f.Func, " ", f.Cell, " ", f.Line, " ", f.Fails)))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// TestFatalErrors reads the words of Go 1.26's runtime, shortened: what is left is
// the error, the user's frames, and what to do.
func TestFatalErrors(t *testing.T) {
	const stack = "runtime stack:\nruntime.throw({0x4f234b?, 0x27dc?})\n\t$GOROOT/src/runtime/panic.go:1229 +0x48 fp=0x7f sp=0x7f pc=0x47b9c8\n\n"
	const main = "goroutine 1 gp=0x27d3c7c741e0 m=0 mp=0x5cab40 [running]:\nruntime.makeslice(0x0?, 0x70?, 0x0?)\n\t$GOROOT/src/runtime/slice.go:117 +0x49 fp=0x27 sp=0x27 pc=0x47\n" +
		"main.main()\n\tcell[1]:2 +0x59 fp=0x27d3c7ce0f48 sp=0x27d3c7ce0f00 pc=0x4c2cd9\nruntime.main()\n\t$GOROOT/src/runtime/proc.go:290 +0x2d5 fp=0x27 sp=0x27 pc=0x44\n\n"
	const other = "goroutine 2 gp=0x27d3c7c74780 m=nil [force gc (idle)]:\nruntime.gopark(0x0?)\n\t$GOROOT/src/runtime/proc.go:462 +0xce fp=0x27 sp=0x27 pc=0x47\n"
	tests := []struct{ name, text, message, frames, hint string }{
		{"address space", "fatal error: runtime: out of memory\n\n" + stack + main + other, "fatal error: runtime: out of memory", "[main 1 2]", "ask for less"},
		{"memory", "runtime: out of memory: cannot allocate 4194304-byte block (1054408704 in use)\nfatal error: out of memory\n\n" + stack + main,
			"fatal error: out of memory\nruntime: out of memory: cannot allocate 4194304-byte block (1054408704 in use)", "[main 1 2]", "ask for less"},
		{"in the collector", "fatal error: runtime: cannot allocate memory\n\n" + stack + strings.ReplaceAll(other, "goroutine 2", "goroutine 9") + "\n" + main, "fatal error: runtime: cannot allocate memory", "[main 1 2]", "ask for less"},
		{"stack", "runtime: goroutine stack exceeds 1000000000-byte limit\nruntime: sp=0xfe5fd60390 stack=[0xfe5fd60000, 0xfe7fd60000]\nfatal error: stack overflow\n\n" + stack + main,
			"fatal error: stack overflow\nruntime: goroutine stack exceeds 1000000000-byte limit", "[main 1 2]", "calls itself"},
		{"threads", "runtime: program exceeds 10000-thread limit\nfatal error: thread exhaustion\n\n" + stack + main, "fatal error: thread exhaustion\nruntime: program exceeds 10000-thread limit", "[main 1 2]", "fewer"},
		{"nil", "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4c2cd1]\n\n" + main,
			"runtime error: invalid memory address or nil pointer dereference", "[main 1 2]", ""},
		{"the program's words", "panic: out of memory\n\n" + main, "out of memory", "[main 1 2]", ""},
		{"caught and thrown again", "panic: second [recovered, repanicked]\n\n" + main, "second", "[main 1 2]", ""},
		{"the program's own again", "panic: first [recovered]\n\tpanic: second [recovered, repanicked]\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4c2cd1]\n\n" + main,
			"first [recovered]\n\tpanic: second", "[main 1 2]", ""},
		{"an error's hint", "panic: fit: net\n\tis wrong [recovered]\n\tpanic: hint: call net.Reset()\n\tor not\n\n" + main, "fit: net\n\tis wrong", "[main 1 2]", "call net.Reset()\n    or not"},
		{"an error that a call has returned", "panic: no\n\thope [recovered, repanicked]\n\ngoroutine 1 [running]:\nmain.must[...](...)\n\t/tmp/x/gaiden.go:1\n" + strings.TrimPrefix(main, "goroutine 1 gp=0x27d3c7c741e0 m=0 mp=0x5cab40 [running]:\nruntime.makeslice(0x0?, 0x70?, 0x0?)\n\t$GOROOT/src/runtime/slice.go:117 +0x49 fp=0x27 sp=0x27 pc=0x47\n"), "no\nhope", "[main 1 2 must]", ""},
		{"an error of the last line", "panic: no [recovered, repanicked]\n\ngoroutine 1 [running]:\ncell/gaidenshow.ShowError({0x1?, 0x2?, 0x3?})\n\t/tmp/x/show.go:30 +0x1\nmain.main()\n\tcell[1]:2 +0x59\n", "no", "[main 1 2 ShowError]", ""},
		{"a library's goroutine", "panic: oh\n\n" + other + "\n" + main, "oh", "[]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			passed := 0
			f := &panicFilter{pass: func(p []byte) { passed += len(p) }}
			f.write([]byte(tt.text))
			p := f.finish(true)
			if p == nil || passed > 0 {
				t.Fatalf("got panic %v and %d bytes passed on, want all of it held", p, passed)
			}
			if p.Message != tt.message {
				t.Errorf("got message %q, want %q", p.Message, tt.message)
			}
			if got := places(p.Frames); got != tt.frames {
				t.Errorf("got frames %s, want %s", got, tt.frames)
			}
			if got := p.Hint(); !strings.Contains(got, tt.hint) || (tt.hint == "") != (got == "") {
				t.Errorf("got hint %q, want %q in it", got, tt.hint)
			}
			if p.Text != tt.text {
				t.Errorf("got %q for %%tb, want all of the text", p.Text)
			}
		})
	}
}

func TestFuncName(t *testing.T) {
	tests := []struct{ line, want string }{
		{"main.f(...)", "f"},
		{"main.main()", "main"},
		{"main.(*T).M(0xc000012345, {0x1, 0x2})", "(*T).M"},
		{"main.main.func1()", "main.func1"},
		{"main.Map[...](0x1)", "Map[...]"},
		{"created by main.main in goroutine 1", "main"},
		{"example.com/x.F(0x1)", "example.com/x.F"},
	}
	for _, tt := range tests {
		if got := funcName(tt.line); got != tt.want {
			t.Errorf("funcName(%q): got %q, want %q", tt.line, got, tt.want)
		}
	}
}

// TestTraceback holds that the code of a magic, which has no cell's number, is not
// given one, and that a recursion is told once.
func TestTraceback(t *testing.T) {
	f := Frame{Cell: 3, Line: 5, Func: "f"}
	p := Panic{Frames: []Frame{f, {Line: 2, Func: "main.func1"}, f, f, f}}
	want := "cell 3, line 5, in f\n    5 | f()\nline 2, in main.func1\ncell 3, line 5, in f, again and again\n    5 | f()"
	got := p.Traceback(func(c, _ int) string {
		if c == 3 {
			return "f()"
		}
		return ""
	})
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzPanic(f *testing.F) {
	f.Add("panic: x\n\ngoroutine 1 [running]:\nmain.f(...)\n\tcell[3]:5\n")
	f.Add("fatal error: \n\tcell[99999999999999999999]:5")
	f.Fuzz(func(t *testing.T, text string) {
		if p := parsePanic(text); p != nil {
			p.Traceback(func(int, int) string { return "" })
		}
	})
}

func TestReadResult(t *testing.T) {
	tests := []struct {
		text  string
		want  string
		fails bool
	}{
		{"", "map[]", false},
		{"text/plain 2\nhi", "map[text/plain:hi]", false},
		{"text/plain 0\ntext/html 3\n<b>", "map[text/html:<b> text/plain:]", false},
		{"text/plain 3\nhi", "map[]", true},
		{"text/plain -1\nhi", "map[]", true},
		{"text/plain 99999999999\nhi", "map[]", true},
		{"no header", "map[]", true},
	}
	for _, tt := range tests {
		got, err := ReadResult(strings.NewReader(tt.text))
		if s := fmt.Sprintf("%s", got); s != tt.want || (err != nil) != tt.fails {
			t.Errorf("%q: got %s, error %v; want %s, error %t", tt.text, s, err, tt.want, tt.fails)
		}
	}
}

func FuzzReadResult(f *testing.F) {
	f.Add([]byte("text/plain 2\nhitext/html 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _ := ReadResult(bytes.NewReader(data))
		for mime, content := range got {
			if len(content) > len(data) {
				t.Errorf("got %d bytes of %s from %d", len(content), mime, len(data))
			}
		}
	})
}
