package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Writer sends frames. Send may be called from any goroutine; frames leave in
// the order of the calls, and the system has a frame when Send returns: a process
// that ends right after it has said all it said. Who comes while the socket is
// being written waits, and the first of those who wait writes for all of them.
type Writer struct {
	conn *net.UnixConn

	mu     sync.Mutex // protects following
	buf    []byte     // frames that are not written yet
	err    error
	closed bool

	writing sync.Mutex // held while the socket is written; taken before mu
	spare   []byte     // the other buffer; protected by writing
}

// maxSpare bounds the memory that is kept for the next frames, in bytes.
const maxSpare = 4 << 20

// NewWriter returns a Writer on conn.
func NewWriter(conn *net.UnixConn) *Writer { return &Writer{conn: conn} }

// Send sends one frame. body appends the frame's body to the slice it is given;
// nil is an empty body. An error is that of the connection, or an *Error when
// the frame is too large and nothing was sent.
func (w *Writer) Send(k Kind, id uint32, body func([]byte) []byte) error {
	if err := w.queue(k, id, body); err != nil {
		return err
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.write()
}

// queue adds a frame to those that are not written yet.
func (w *Writer) queue(k Kind, id uint32, body func([]byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return net.ErrClosed
	}
	at := len(w.buf)
	w.buf = append(w.buf, make([]byte, HeaderSize)...)
	if body != nil {
		w.buf = body(w.buf)
	}
	size := len(w.buf) - at - HeaderSize
	if size > MaxBody {
		w.buf = w.buf[:at]
		return tooLarge(Invalid, k.String()+" frame", size)
	}
	Header{Size: uint32(size), Kind: k, ID: id}.put(w.buf[at:])
	return nil
}

// SendFD sends one frame with a file descriptor, after all that is queued. The
// descriptor stays the caller's.
func (w *Writer) SendFD(k Kind, id uint32, body []byte, fd int) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.write(); err != nil {
		return err
	}
	frame := make([]byte, HeaderSize, HeaderSize+len(body))
	Header{Size: uint32(len(body)), Kind: k, FDs: 1, ID: id}.put(frame)
	frame = append(frame, body...)
	n, _, err := w.conn.WriteMsgUnix(frame, syscall.UnixRights(fd), nil)
	if err == nil && n < len(frame) { // the descriptor went with the first byte
		_, err = w.conn.Write(frame[n:])
	}
	return w.keep(err)
}

// write sends the queue; the caller holds w.writing.
func (w *Writer) write() error {
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	out := w.buf
	w.buf = w.spare[:0]
	w.mu.Unlock()
	if cap(out) > maxSpare {
		w.spare = nil // do not hold on to the memory of one large frame
	} else {
		w.spare = out
	}
	if len(out) == 0 {
		return nil
	}
	_, err := w.conn.Write(out)
	return w.keep(err)
}

// keep notes an error of the connection, and tells the other end that no frame
// will follow: whoever waits there for one would wait for ever.
func (w *Writer) keep(err error) error {
	if err != nil {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		w.conn.CloseWrite()
	}
	return err
}

// Close refuses frames from now on. It does not close the connection.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// AppendFrame appends a frame without a descriptor to b.
func AppendFrame(b []byte, k Kind, id uint32, body []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, HeaderSize)...)
	Header{Size: uint32(len(body)), Kind: k, ID: id}.put(b[at:])
	return append(b, body...)
}

// Frame is one received frame. FD is nil unless a descriptor came with it, and
// the receiver's to close.
type Frame struct {
	Header
	Body []byte
	FD   *os.File
}

// Reader receives frames. It belongs to one goroutine.
type Reader struct {
	raw  syscall.RawConn
	err  error // of raw
	buf  []byte
	r, w int // buf[r:w] is unread
	oob  [128]byte
	fds  []int
	free chan []byte
	most int // memory of the largest body, in bytes

	// What receive leaves: a function for RawConn, made once.
	receive func(fd uintptr) bool
	n, oobn int
	failed  error
	once    bool // do not wait
}

// NewReader returns a Reader on conn.
func NewReader(conn *net.UnixConn) *Reader {
	r := &Reader{buf: make([]byte, 256<<10), free: make(chan []byte, 256)}
	r.raw, r.err = conn.SyscallConn()
	r.receive = r.recv
	return r
}

// Recycle gives the body of a frame back for use in a later one. It may be
// called from any goroutine, or not at all.
func (r *Reader) Recycle(body []byte) {
	if cap(body) > 16<<10 || cap(body) == 0 {
		return
	}
	select {
	case r.free <- body[:0]:
	default:
	}
}

// Most is the memory that the largest body has taken, in bytes, if it was more
// than a few MB: also of one that never came whole.
func (r *Reader) Most() int { return r.most }

// Ready says whether a part of a frame has come.
func (r *Reader) Ready() bool {
	if r.r == r.w {
		r.once = true
		err := r.fill()
		r.once = false
		return r.w > r.r || err != nil && err != syscall.EAGAIN
	}
	return true
}

// Next returns the next frame. io.EOF means that the other end has closed
// between two frames, io.ErrUnexpectedEOF that it has inside one.
func (r *Reader) Next() (Frame, error) {
	for r.w-r.r < HeaderSize {
		if err := r.fill(); err != nil {
			if err == io.EOF && r.w > r.r {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
	}
	h, err := parseHeader(r.buf[r.r:])
	if err != nil {
		return Frame{}, err
	}
	r.r += HeaderSize
	f := Frame{Header: h}
	if f.Body, err = r.body(int(h.Size)); err != nil {
		return Frame{}, err
	}
	if h.FDs == 1 {
		if len(r.fds) == 0 {
			return Frame{}, Errorf(BadFrame, "wire: %s frame without the file descriptor it announces", h.Kind)
		}
		f.FD = os.NewFile(uintptr(r.fds[0]), "window")
		r.fds = r.fds[1:]
	}
	return f, nil
}

// body returns the next n bytes. Memory for a large body is four times what has
// arrived at most, so that a length alone cannot take any; and it grows in few
// steps, because what was too small stays until the next garbage collection.
func (r *Reader) body(n int) ([]byte, error) {
	var b []byte
	select {
	case b = <-r.free:
	default:
	}
	if cap(b) < n {
		b = make([]byte, 0, min(n, bodyStep))
	}
	for len(b) < n {
		if r.r == r.w {
			if err := r.fill(); err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return nil, err
			}
		}
		m := min(n-len(b), r.w-r.r)
		if len(b)+m > cap(b) {
			b = append(make([]byte, 0, min(n, 4*cap(b))), b...)
			r.most = max(r.most, cap(b))
		}
		b = append(b, r.buf[r.r:r.r+m]...)
		r.r += m
	}
	return b, nil
}

// bodyStep is what a body has at first, in bytes: more than one filling of the
// buffer, so that a fourfold step has room for the next.
const bodyStep = 1 << 20

// fill reads at least one byte more into buf.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if r.r > 0 {
		copy(r.buf, r.buf[r.r:r.w])
		r.r, r.w = 0, r.w-r.r
	}
	r.n, r.oobn, r.failed = 0, 0, nil
	err := r.raw.Read(r.receive)
	if err == nil && r.failed != nil { // else it has waited in vain: for a deadline, or for the end
		err = r.failed
	}
	if r.oobn > 0 {
		if e := r.takeFDs(r.oob[:r.oobn]); e != nil && err == nil {
			err = e
		}
	}
	if r.n == 0 && err == nil {
		return io.EOF
	}
	r.w += r.n
	return err
}

// recv is one try to read; false makes the runtime wait until there is
// something.
func (r *Reader) recv(fd uintptr) bool {
	r.failed = syscall.EINTR
	for r.failed == syscall.EINTR {
		r.n, r.oobn, _, _, r.failed = syscall.Recvmsg(int(fd), r.buf[r.w:], r.oob[:], syscall.MSG_CMSG_CLOEXEC)
	}
	r.n, r.oobn = max(0, r.n), max(0, r.oobn)
	return r.failed != syscall.EAGAIN || r.once
}

func (r *Reader) takeFDs(oob []byte) error {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range msgs {
		fds, err := syscall.ParseUnixRights(&msgs[i])
		if err != nil {
			return err
		}
		r.fds = append(r.fds, fds...)
	}
	if len(r.fds) > 16 {
		return Errorf(BadFrame, "wire: %d file descriptors without a frame", len(r.fds))
	}
	return nil
}

// Close closes descriptors that came without a frame of theirs. It does not
// close the connection.
func (r *Reader) Close() error {
	var err error
	for _, fd := range r.fds {
		err = errors.Join(err, syscall.Close(fd))
	}
	r.fds = nil
	return err
}
