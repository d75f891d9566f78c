package wire

import "fmt"

// Code classes an error so that errors.Is works across the socket.
type Code string

// The codes. Each is also a target for errors.Is:
//
//	if errors.Is(err, wire.OutOfMemory) { … }
const (
	BadFrame     Code = "bad frame"      // a frame that cannot be decoded
	BadVersion   Code = "bad version"    // the two ends speak different protocols
	Denied       Code = "denied"         // another user, or not allowed
	NotFound     Code = "not found"      // no array, program or space of that name
	Invalid      Code = "invalid"        // a request that cannot be obeyed: shapes, counts, names
	Gone         Code = "gone"           // a handle that was freed, donated or belongs to another generation
	CompileError Code = "compile error"  // XLA refused the program
	ExecuteError Code = "execute error"  // the program failed on the device
	OutOfMemory  Code = "out of memory"  // of the device
	Busy         Code = "busy"           // somebody else changes it now
	Cancelled    Code = "cancelled"      // dropped on request before it ran
	Lost         Code = "session lost"   // the worker or the session ended
	Unsupported  Code = "unsupported"    // the plugin cannot do it
	Unavailable  Code = "unavailable"    // no session, no plugin, no device
	Internal     Code = "internal error" // a fault of ours
)

func (c Code) Error() string { return string(c) }

// Error is a failure as it crosses the socket: a class, one line for people,
// and the next step apart.
type Error struct {
	Code    Code
	Text    string // what, got, want
	Next    string // what the reader can do; may be empty
	Program string // the program that failed, if one did
	Purpose string `json:",omitempty"` // what a lock is for that is in the way: a verb
}

func (e *Error) Error() string {
	if e.Program != "" {
		return fmt.Sprintf("program %s: %s", e.Program, e.Text)
	}
	return e.Text
}

// Hint says what the reader of a notebook can do next, or "".
func (e *Error) Hint() string { return e.Next }

// Is reports whether target is e's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Errorf makes an Error of class code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// WithHint returns e with the next step set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Next = fmt.Sprintf(format, args...)
	return e
}

// OtherProtocol reports ends that speak different protocols. Each looks, because an
// end of another version may not.
func OtherProtocol(session int, version string, you int, yours string) *Error {
	return Errorf(BadVersion, "session speaks protocol %d (gaiden %s), you speak %d (%s): run gaiden session stop", session, version, you, yours).
		WithHint("that saves its arrays; the next cell starts a session of its own version, which has them")
}
