package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Link carries the bytes of a connection over lines that may break: SSH's. Each
// end keeps what it has sent until the other says that it has arrived, so that
// the next line continues where the last one stopped, and neither the client nor
// the session notices.
//
// On a line, after each end has said how many bytes it has received (uint64), go
//
//	uint32 n, n bytes      of the connection, n at most linkPiece
//	uint32 0, uint64       so many bytes have arrived here
//	uint32 0xffffffff      the connection has ended at this end
//
// Who hears of the end says the same, and so the first to say it knows that the
// other knows: the line may break just then.
type Link struct {
	inner *net.UnixConn

	mu       sync.Mutex // protects following
	changed  *sync.Cond
	out      []byte // sent from base on, and not known to have arrived
	base     uint64
	ended    bool     // inner gives no more
	heard    bool     // the other end has said that it has ended
	said     net.Conn // the last line on which this end has
	received uint64   // bytes that inner was given
	over     bool
	line     net.Conn // in use, nil if there is none
	lines    int      // that have come
	lost     time.Time

	carrying sync.Mutex // held while a line is used; taken before mu
}

const (
	linkPiece = 1 << 20
	linkKept  = 16 << 20 // bytes kept for a line that is not there, before the sender waits
	linkEnd   = ^uint32(0)
)

// NewLink begins a link for a connection. first are bytes to be sent before what
// comes from it.
func NewLink(inner *net.UnixConn, first []byte) *Link {
	l := &Link{inner: inner, out: first, lost: time.Now()}
	l.changed = sync.NewCond(&l.mu)
	go l.pump()
	return l
}

// pump keeps what inner says.
func (l *Link) pump() {
	b := make([]byte, 256<<10)
	for {
		n, err := l.inner.Read(b)
		l.mu.Lock()
		l.out = append(l.out, b[:n]...)
		l.ended = l.ended || err != nil
		l.changed.Broadcast()
		for len(l.out) > linkKept && !l.over {
			l.changed.Wait()
		}
		stop := l.ended || l.over
		l.mu.Unlock()
		if stop {
			return
		}
	}
}

// Over says whether there is nothing more to carry.
func (l *Link) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Waits is how long the link has been without a line.
func (l *Link) Waits() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil {
		return 0
	}
	return time.Since(l.lost)
}

// End gives the link up.
func (l *Link) End() {
	l.mu.Lock()
	l.over = true
	if l.line != nil {
		l.line.Close()
	}
	l.changed.Broadcast()
	l.mu.Unlock()
	l.inner.Close()
}

// Carry uses a line until it breaks or nothing is left to carry. A line that
// comes while there is another takes its place.
func (l *Link) Carry(line net.Conn) error {
	defer line.Close()
	l.mu.Lock()
	if l.line != nil {
		l.line.Close()
	}
	l.lines++
	number := l.lines
	l.mu.Unlock()
	// What the line before has brought must be counted before this one says how
	// much has arrived.
	l.carrying.Lock()
	defer l.carrying.Unlock()
	l.mu.Lock()
	if l.lines != number {
		l.mu.Unlock()
		return nil // a newer one waits
	}
	l.line = line
	here := l.received
	l.mu.Unlock()
	defer l.leave(line)
	if _, err := line.Write(binary.LittleEndian.AppendUint64(nil, here)); err != nil {
		return err
	}
	var b [8]byte
	if _, err := io.ReadFull(line, b[:]); err != nil {
		return err
	}
	there := binary.LittleEndian.Uint64(b[:])
	l.mu.Lock()
	known := there >= l.base && there-l.base <= uint64(len(l.out))
	if known {
		l.arrived(there)
	}
	l.mu.Unlock()
	if !known {
		return Errorf(BadFrame, "wire: link: the other end has %d bytes: want what was sent since byte %d", there, l.base)
	}
	sent := make(chan error, 1)
	go func() { sent <- l.say(line, there, here) }()
	err := l.hear(line)
	l.leave(line)
	if err = errors.Join(err, <-sent); l.Over() {
		return nil // whoever was first has closed the line
	}
	return err
}

// leave ends the use of a line.
func (l *Link) leave(line net.Conn) {
	line.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line == line {
		l.line, l.lost = nil, time.Now()
	}
	l.changed.Broadcast()
}

// arrived forgets what has arrived. The caller holds l.mu.
func (l *Link) arrived(upTo uint64) {
	if upTo > l.base && upTo-l.base <= uint64(len(l.out)) {
		l.out = append([]byte(nil), l.out[upTo-l.base:]...)
		l.base = upTo
		l.changed.Broadcast()
	}
}

// say sends what there is, and what has arrived, until the line is another's.
func (l *Link) say(line net.Conn, next, told uint64) error {
	var b []byte
	end := false
	for {
		l.mu.Lock()
		for l.line == line && !l.over && !l.heard && next == l.base+uint64(len(l.out)) && told == l.received && (end || !l.ended) {
			l.changed.Wait()
		}
		if l.line != line {
			l.mu.Unlock()
			return nil
		}
		b = b[:0]
		if told != l.received {
			told = l.received
			b = binary.LittleEndian.AppendUint64(putU32(b, 0), told)
		}
		if piece := l.out[next-l.base:]; len(piece) > 0 && !l.heard {
			piece = piece[:min(len(piece), linkPiece)]
			b = append(putU32(b, uint32(len(piece))), piece...)
			next += uint64(len(piece))
		} else if !end && (l.ended || l.heard || l.over) {
			b, end = putU32(b, linkEnd), true
			l.said = line
		}
		last := end && (l.heard || l.over)
		l.mu.Unlock()
		_, err := line.Write(b)
		if last {
			l.finish()
		}
		if err != nil {
			line.Close()
		}
		if last || err != nil {
			return err
		}
	}
}

// finish notes that both ends know of the end.
func (l *Link) finish() {
	l.mu.Lock()
	l.over = true
	l.changed.Broadcast()
	l.mu.Unlock()
}

// Told says whether the other end has all that there was, and was told at least
// once that no more will come. It may not have heard that: then it will ask.
func (l *Link) Told() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended && len(l.out) == 0 && l.said != nil
}

// hear gives inner what comes.
func (l *Link) hear(line net.Conn) error {
	b := make([]byte, linkPiece)
	for {
		if _, err := io.ReadFull(line, b[:4]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(b)
		switch {
		case n == linkEnd:
			l.inner.Close()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.heard = true
			l.over = l.over || l.said == line // it is the answer to ours
			l.changed.Broadcast()
			for !l.over && l.line == line { // say answers
				l.changed.Wait()
			}
			return nil
		case n == 0:
			if _, err := io.ReadFull(line, b[:8]); err != nil {
				return err
			}
			l.mu.Lock()
			l.arrived(binary.LittleEndian.Uint64(b))
			l.mu.Unlock()
			continue
		case n > linkPiece:
			return Errorf(BadFrame, "wire: link: piece of %d bytes: limit is %d", n, linkPiece)
		}
		if _, err := io.ReadFull(line, b[:n]); err != nil {
			return err
		}
		l.inner.Write(b[:n]) // an end that has gone says so by its reading side
		l.mu.Lock()
		l.received += uint64(n)
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}
