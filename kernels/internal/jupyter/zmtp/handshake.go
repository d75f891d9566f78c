package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Types of socket, as the handshake names them.
const (
	Router = "ROUTER" // talks to DEALER, REQ and ROUTER
	XPub   = "XPUB"   // talks to SUB and XSUB
)

// compatible lists, for each of our types, the types a peer may have.
var compatible = map[string][]string{
	Router: {"DEALER", "REQ", "ROUTER"},
	XPub:   {"SUB", "XSUB"},
}

// handshakeLimit bounds what a peer may say before it is known.
const handshakeLimit = 16 << 10 // bytes

// greeting is the first 64 bytes: signature, version 3.0, mechanism NULL, no
// as-server bit, filler.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9] = 0xff, 0x7f
	g[10] = 3
	copy(g[12:32], "NULL")
	return g
}

// handshake exchanges greetings and READY commands, and returns the peer's
// identity, empty if it sent none.
func handshake(conn net.Conn, r *bufio.Reader, socketType string) (identity []byte, err error) {
	if _, err := conn.Write(greeting()); err != nil {
		return nil, err
	}
	var g [64]byte
	if _, err := io.ReadFull(r, g[:11]); err != nil {
		return nil, err
	}
	if g[0] != 0xff || g[9]&1 == 0 {
		return nil, errors.New("zmtp: greeting: not a ZeroMQ peer")
	}
	if g[10] < 3 {
		return nil, fmt.Errorf("zmtp: greeting: got ZMTP version %d, want 3 or later (libzmq 4)", g[10])
	}
	if _, err := io.ReadFull(r, g[11:]); err != nil {
		return nil, err
	}
	if mechanism := strings.TrimRight(string(g[12:32]), "\x00"); mechanism != "NULL" {
		return nil, fmt.Errorf("zmtp: greeting: got security mechanism %q, want NULL", mechanism)
	}

	ready := appendProperty(nil, "Socket-Type", []byte(socketType))
	ready = appendProperty(ready, "Identity", nil)
	command := net.Buffers(appendCommand(nil, "READY", ready))
	if _, err := command.WriteTo(conn); err != nil {
		return nil, err
	}
	frames, isCommand, err := readMessage(r, handshakeLimit)
	if err != nil {
		return nil, err
	}
	if !isCommand {
		return nil, errors.New("zmtp: handshake: got a message, want READY")
	}
	name, data, err := parseCommand(frames[0])
	if err != nil {
		return nil, err
	}
	if name != "READY" {
		return nil, fmt.Errorf("zmtp: handshake: got command %q %q, want READY", name, data)
	}
	properties, err := parseProperties(data)
	if err != nil {
		return nil, err
	}
	peerType := string(properties["socket-type"])
	for _, t := range compatible[socketType] {
		if t == peerType {
			return properties["identity"], nil
		}
	}
	return nil, fmt.Errorf("zmtp: handshake: a %s socket cannot talk to the peer's type %q", socketType, peerType)
}

func appendProperty(b []byte, name string, value []byte) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// parseProperties reads READY's metadata. Names are compared without case, so
// they are returned in lower case.
func parseProperties(b []byte) (map[string][]byte, error) {
	bad := errors.New("zmtp: handshake: metadata is cut off")
	properties := map[string][]byte{}
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return nil, bad
		}
		name := strings.ToLower(string(b[1 : 1+n]))
		size := binary.BigEndian.Uint32(b[1+n:])
		b = b[1+n+4:]
		if uint64(size) > uint64(len(b)) {
			return nil, bad
		}
		properties[name] = b[:size]
		b = b[size:]
	}
	return properties, nil
}
