package ptx

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Error says what is wrong with a kernel, and where its Go code says so.
type Error struct {
	Kernel string // the kernel's name
	Where  string // file:line of the call, "" where there is none
	Text   string // got …, want …
}

// Error is one line: the kernel, the line of Go, and what is wrong.
func (e *Error) Error() string {
	s := "ptx: kernel " + e.Kernel
	if e.Where != "" {
		s += ": " + e.Where
	}
	return s + ": " + e.Text
}

// refuse ends the building of a kernel. Kernel.Text turns the panic into an
// error.
func (b *Block) refuse(format string, args ...any) {
	panic(&Error{Kernel: b.kernel.Name, Where: caller(), Text: fmt.Sprintf(format, args...)})
}

// caller is the nearest line outside this package.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "gaiden/lib/engine/ptx.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
