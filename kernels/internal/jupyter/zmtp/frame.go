package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bits of a frame's first byte.
const (
	more    = 1 << 0 // another frame of the same message follows
	long    = 1 << 1 // the size has 8 bytes, not 1
	command = 1 << 2 // a command of the protocol, not a message
)

// frameCost is what a frame counts towards a message's limit besides its
// bytes, so that a million empty frames are not free.
const frameCost = 64

// chunk is how much memory a frame gets before its bytes have arrived: a
// header may claim any size.
const chunk = 1 << 20

// ErrFlags reports a frame whose flags ZMTP 3.0 does not know.
var ErrFlags = errors.New("zmtp: frame with reserved flags set")

// A SizeError reports a message larger than the socket's limit.
type SizeError struct {
	Size  uint64 // bytes, at least
	Limit uint64 // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("zmtp: message of at least %d bytes: limit is %d", e.Size, e.Limit)
}

// readMessage reads one message or one command, of limit bytes at most. After
// an error the stream is out of step and must be closed.
func readMessage(r *bufio.Reader, limit uint64) (frames [][]byte, isCommand bool, err error) {
	var total uint64
	for {
		flags, err := r.ReadByte()
		if err != nil {
			if err == io.EOF && len(frames) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, false, err
		}
		if flags&^(more|long|command) != 0 || flags&command != 0 && (flags&more != 0 || len(frames) > 0) {
			return nil, false, fmt.Errorf("%w: %#02x", ErrFlags, flags)
		}
		size, err := readSize(r, flags)
		if err != nil {
			return nil, false, err
		}
		if size > limit || total+size+frameCost > limit {
			return nil, false, &SizeError{Size: size, Limit: limit}
		}
		total += size + frameCost
		body, err := readBody(r, size)
		if err != nil {
			return nil, false, err
		}
		frames = append(frames, body)
		if flags&more == 0 {
			return frames, flags&command != 0, nil
		}
	}
}

func readSize(r *bufio.Reader, flags byte) (uint64, error) {
	var b [8]byte
	n := b[7:]
	if flags&long != 0 {
		n = b[:]
	}
	if _, err := io.ReadFull(r, n); err != nil {
		return 0, unexpected(err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

func readBody(r *bufio.Reader, size uint64) ([]byte, error) {
	body := make([]byte, min(size, chunk))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, unexpected(err)
	}
	for have := uint64(len(body)); have < size; have = uint64(len(body)) {
		grown := make([]byte, min(size, 2*have))
		copy(grown, body)
		body = grown
		if _, err := io.ReadFull(r, body[have:]); err != nil {
			return nil, unexpected(err)
		}
	}
	return body, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendMessage appends the wire form of a message to bufs: a header and a
// body for each frame. The bodies are shared, not copied.
func appendMessage(bufs, frames [][]byte) [][]byte {
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = more
		}
		bufs = append(bufs, frameHeader(flags, len(f)))
		if len(f) > 0 {
			bufs = append(bufs, f)
		}
	}
	return bufs
}

// appendCommand appends the wire form of a command: its name, then its data.
func appendCommand(bufs [][]byte, name string, data []byte) [][]byte {
	body := append(append([]byte{byte(len(name))}, name...), data...)
	return append(bufs, frameHeader(command, len(body)), body)
}

// parseCommand takes a command's frame apart.
func parseCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 {
		return "", nil, errors.New("zmtp: command without a name")
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}

func frameHeader(flags byte, size int) []byte {
	if size > 255 {
		return binary.BigEndian.AppendUint64([]byte{flags | long}, uint64(size))
	}
	return []byte{flags, byte(size)}
}
