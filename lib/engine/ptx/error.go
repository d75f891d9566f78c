package ptx

import (
	"fmt"

	"gaiden/lib/engine/hlo"
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
	panic(&Error{Kernel: b.kernel.Name, Where: hlo.Outside("gaiden/lib/engine/ptx"), Text: fmt.Sprintf(format, args...)})
}
