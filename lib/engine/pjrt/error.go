package pjrt

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Error is what the plugin answered. errors.Is compares codes, so
// errors.Is(err, ErrOutOfMemory) holds for every RESOURCE_EXHAUSTED. Where the CPU plugin
// has no memory for what a program returns it says INTERNAL: newError makes that one, too.
type Error struct {
	Code    int    // absl status code, 1 to 16
	Name    string // the code's name, such as INVALID_ARGUMENT
	Op      string // the operation: compile, execute, upload
	Message string // the plugin's words, without its own source location trace
}

// Errors that somebody decides on. Compare with errors.Is.
var (
	// ErrOutOfMemory: the device has no memory left, or not in one piece.
	ErrOutOfMemory = &Error{Code: 8, Name: "RESOURCE_EXHAUSTED"}
	// ErrUnimplemented: this plugin cannot do that; others may.
	ErrUnimplemented = &Error{Code: 12, Name: "UNIMPLEMENTED"}
	// ErrInvalidArgument: the plugin refused what it was given.
	ErrInvalidArgument = &Error{Code: 3, Name: "INVALID_ARGUMENT"}
	// ErrClosed: the client or program was closed before.
	ErrClosed = errors.New("already closed")
)

const internal = 13

// LaunchedError is the error of an Execute in mode Wait whose program started
// and then failed on the device: its donated inputs are gone and its outputs
// were freed. Any other error of Execute leaves all inputs as they were.
type LaunchedError struct{ Err error }

func (e *LaunchedError) Error() string {
	return e.Err.Error() + " (the program had started: donated inputs are gone)"
}
func (e *LaunchedError) Unwrap() error { return e.Err }

var codeNames = strings.Fields(`OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
	RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED`)

func newError(code int, op, message string) *Error {
	if code == internal && strings.Contains(message, "Out of memory allocating ") {
		code = ErrOutOfMemory.Code
	}
	name := fmt.Sprintf("code %d", code)
	if code >= 0 && code < len(codeNames) {
		name = codeNames[code]
	}
	// The trace names files of XLA: of no use to who reads the message.
	message, _, _ = strings.Cut(message, "=== Source Location Trace: ===")
	return &Error{code, name, op, strings.TrimSpace(message)}
}

func (e *Error) Error() string {
	s := "pjrt"
	for _, part := range []string{e.Op, e.Name, e.Message} {
		if part != "" {
			s += ": " + part
		}
	}
	return s
}

// Is compares codes, so that the sentinels of this package match.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// call runs one function of the plugin. args points to an argument struct whose
// size field is set.
func (p *Plugin) call(s slot, args unsafe.Pointer) error {
	if p.functions[s] == 0 {
		return newError(ErrUnimplemented.Code, s.String(), fmt.Sprintf("a plugin of version 0.%d does not have it", p.Minor))
	}
	return p.callFor(s, s, args)
}

// callFor is call of one of the required functions, whose error is that of operation op.
func (p *Plugin) callFor(op, s slot, args unsafe.Pointer) error {
	e, _, _ := purego.SyscallN(p.functions[s], uintptr(args))
	return p.errorOf(e, op)
}

// errorOf turns a PJRT_Error into a Go error and destroys it.
func (p *Plugin) errorOf(e uintptr, s slot) error {
	if e == 0 {
		return nil
	}
	m := struct {
		head
		handle, message, n uintptr
	}{head: head{40, 0}, handle: e}
	purego.SyscallN(p.functions[errorMessage], uintptr(unsafe.Pointer(&m)))
	c := struct {
		head
		handle uintptr
		code   int32
	}{head: head{28, 0}, handle: e}
	if r, _, _ := purego.SyscallN(p.functions[errorGetCode], uintptr(unsafe.Pointer(&c))); r != 0 {
		c.code = 2 // UNKNOWN
	}
	err := newError(int(c.code), s.String(), text(m.message, m.n))
	d := newHandleArgs(e)
	purego.SyscallN(p.functions[errorDestroy], uintptr(unsafe.Pointer(&d)))
	return err
}

// call1 is call for the functions that take one handle and give nothing back.
func (p *Plugin) call1(s slot, handle uintptr) error {
	a := newHandleArgs(handle)
	return p.call(s, unsafe.Pointer(&a))
}

// get is call for the functions that take one handle and fill words after it.
// Words that the plugin does not know stay -1 if unset is.
func (p *Plugin) get(s slot, handle uintptr, unset int64) (words [24]uintptr, err error) {
	a := struct {
		head
		handle uintptr
		words  [24]uintptr
	}{head: head{24 + 24*8, 0}, handle: handle}
	for i := range a.words {
		a.words[i] = uintptr(unset)
	}
	err = p.call(s, unsafe.Pointer(&a))
	return a.words, err
}
