package triton

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Error says what is wrong with a kernel, and where its Go code says so.
type Error struct {
	Kernel string // the kernel's name
	Op     string // the method that refused, such as Dot; "" for the kernel itself
	Where  string // file:line of the call, "" where there is none
	Text   string // got …, want …
}

// Error is one line: the kernel, the line of Go, the op, and what is wrong.
func (e *Error) Error() string {
	s := "triton: kernel " + e.Kernel
	if e.Where != "" {
		s += ": " + e.Where
	}
	if e.Op != "" {
		s += ": " + e.Op
	}
	return s + ": " + e.Text
}

// refuse ends the building of a kernel. Kernel.Text turns the panic into an
// error.
func (b *Block) refuse(op, format string, args ...any) {
	panic(&Error{Kernel: b.kernel.Name, Op: op, Where: outside(), Text: fmt.Sprintf(format, args...)})
}

// outside is the nearest line of Go that calls from outside this package, as file:line; ""
// where there is none.
func outside() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "gaiden/lib/engine/triton.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
