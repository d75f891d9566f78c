// Package wire is the protocol between a cell and the device session: frames,
// messages and errors. Both ends import it, so they cannot drift.
//
// A connection is one Unix stream socket. Each side sends frames:
//
//	uint32  length of the body in bytes, at most MaxBody
//	uint8   kind, see Kind
//	uint8   file descriptors that travel with the frame, 0 or 1 (SCM_RIGHTS)
//	uint16  zero
//	uint32  id: a reply carries the id of its request; 0 means "no reply"
//	bytes   body
//
// All numbers are little-endian. Strings and lists are a uint32 count and the
// elements. The rules:
//
//   - The first frame of a client is Hello, which names the protocol version;
//     the session answers Welcome, or Error when the versions differ.
//   - The client numbers its own handles, so nothing waits for an answer that
//     need not: Upload, Execute, Copy and Free have no reply. What goes wrong
//     in one of them poisons the handles it would have made; the error comes
//     back at the next Download of such a handle and at the next Sync.
//   - Frames of one connection take effect in the order they were sent. Ask
//     frames that stop, cancel or report may overtake what is queued.
//   - A frame that cannot be decoded ends the connection with an Error frame.
//     It never ends the session.
//
// A connection from another machine is carried by a [Link]. Its Hello says that it
// is Remote; it has no windows.
//
// Hot messages (Program, Upload, Execute, Download, Free, Copy) are binary, the
// cold ones are JSON of the structs in ask.go. See [Reader] and [Writer] for
// the ends of a connection, and [Error] for what crosses it when work fails.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Protocol is the version that Hello names. It changes when a frame changes, or what one
// may say: 2 has jobs that look why their numbers are not finite, 3 has Save, 4 has Lock, and
// Bind with what the names were and which others go.
const Protocol = 4

// MaxBody bounds a frame's body, in bytes. Bulk data travels in shared windows, so
// only a connection without them (SSH) comes near it.
const MaxBody = maxGiB << 30

const maxGiB = 2

// HeaderSize is the size of a frame's header in bytes.
const HeaderSize = 12

// Kind says what a frame's body holds.
type Kind uint8

// The kinds. A client sends Hello to Ask; the session sends the rest.
const (
	Hello    Kind = iota + 1 // HelloBody, JSON
	Program                  // ProgramBody → Reply with ProgramReply, or NeedText
	Window                   // WindowBody with one file descriptor: shared memory
	Upload                   // UploadBody
	Execute                  // ExecuteBody
	Download                 // DownloadBody → Reply with the bytes, or empty when they are in the window
	Copy                     // CopyBody: to another device
	Free                     // handles: list of uint64
	Sync                     // empty → Reply when all that was sent before has ended on the device; with handles (list of uint64): when these arrays are computed, or what went wrong with one
	Ask                      // AskBody, JSON → Reply with AnswerBody, JSON

	Welcome  // WelcomeBody, JSON
	Reply    // body by request
	NeedText // empty: the session does not know the program's hash; send it again with its text
	Done     // DoneBody: a window is free again; no request's reply
	Failed   // ErrorBody, JSON; with id 0 it ends the connection
	kinds    // count, not a kind
)

var kindNames = [kinds]string{"", "Hello", "Program", "Window", "Upload", "Execute", "Download", "Copy", "Free", "Sync", "Ask",
	"Welcome", "Reply", "NeedText", "Done", "Failed"}

func (k Kind) String() string {
	if k > 0 && k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Header is a frame's header.
type Header struct {
	Size uint32
	Kind Kind
	FDs  uint8
	ID   uint32
}

// put writes h into b, which has HeaderSize bytes.
func (h Header) put(b []byte) {
	binary.LittleEndian.PutUint32(b, h.Size)
	b[4], b[5], b[6], b[7] = byte(h.Kind), h.FDs, 0, 0
	binary.LittleEndian.PutUint32(b[8:], h.ID)
}

// parseHeader reads a header and checks its bounds.
func parseHeader(b []byte) (Header, error) {
	h := Header{binary.LittleEndian.Uint32(b), Kind(b[4]), b[5], binary.LittleEndian.Uint32(b[8:])}
	switch {
	case h.Size > MaxBody:
		return h, tooLarge(BadFrame, "frame", int(h.Size))
	case h.Kind == 0 || h.Kind >= kinds:
		return h, Errorf(BadFrame, "wire: frame of unknown kind %d: want 1 to %d", b[4], kinds-1)
	case h.FDs > 1 || b[6] != 0 || b[7] != 0:
		return h, Errorf(BadFrame, "wire: %s frame with a torn header", h.Kind)
	}
	return h, nil
}

// tooLarge reports a frame above the limit. Both are said in bytes: one byte more
// than 2 GiB is 2 GiB in any rounding.
func tooLarge(code Code, what string, size int) *Error {
	return Errorf(code, "wire: %s of %d bytes: limit is %d (%d GiB)", what, size, MaxBody, maxGiB)
}

// DType is an element type by its number in the PJRT C API (PJRT_Buffer_Type).
type DType uint8

// Sizes of the element types in bytes, by number; 0 is not a type that crosses.
var dtypeSizes = [...]uint8{0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16}

var dtypeNames = [...]string{"?", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	"float16", "float32", "float64", "bfloat16", "complex64", "complex128"}

// Size is the size of one element in bytes, 0 for an unknown type.
func (t DType) Size() int {
	if int(t) < len(dtypeSizes) {
		return int(dtypeSizes[t])
	}
	return 0
}

func (t DType) String() string {
	if int(t) < len(dtypeNames) {
		return dtypeNames[t]
	}
	return fmt.Sprintf("DType(%d)", uint8(t))
}

// Type is the element type and dimensions of an array.
type Type struct {
	DType DType
	Dims  []int
}

// MaxRank bounds the number of dimensions.
const MaxRank = 32

// Bytes is the size of the data in bytes, row-major and dense, or an error when
// the type is unknown or the size would not fit.
func (t Type) Bytes() (int64, error) {
	n := int64(t.DType.Size())
	if n == 0 {
		return 0, Errorf(BadFrame, "wire: unknown element type %d", t.DType)
	}
	for _, d := range t.Dims {
		if d < 0 {
			return 0, Errorf(BadFrame, "wire: %s: negative dimension", t)
		}
		if d > 0 && n > math.MaxInt64/2/int64(d) {
			return 0, Errorf(BadFrame, "wire: %s: size does not fit in 63 bits", t)
		}
		n *= int64(d)
	}
	return n, nil
}

// Equal reports whether t and u are the same type.
func (t Type) Equal(u Type) bool {
	return t.DType == u.DType && slices.Equal(t.Dims, u.Dims)
}

// String prints like float32[100 784].
func (t Type) String() string { return fmt.Sprintf("%s%v", t.DType, t.Dims) }
