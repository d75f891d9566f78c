package jupyter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"gaiden/kernels/internal/jupyter/zmtp"
)

// messageLimit is the size of the largest message that is accepted.
const messageLimit = 1 << 30 // bytes

// A Server is the five sockets of a kernel. It signs what goes out, drops and
// logs what has no right signature, and knows nothing of what messages mean.
type Server struct {
	// Receive is called with each good message of shell, control and stdin, in
	// order for one front end, at the same time for several. Until it returns,
	// that front end is not read from on that socket.
	Receive func(Channel, Message)

	// Subscribed is called when a front end subscribes on iopub; welcome sends
	// a message to that front end alone.
	Subscribed func(topic string, welcome func(Message))

	// Log gets a record of every message dropped; nil discards them.
	Log *slog.Logger

	connection Connection
	signer     Signer
	signatures signatures // of what was received, on all channels
	sockets    map[Channel]*zmtp.Socket
}

// A ListenError reports a socket that cannot be bound.
type ListenError struct {
	Channel Channel
	Err     *zmtp.ListenError
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("jupyter: %s socket: %v", e.Channel, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

func (e *ListenError) Hint() string {
	if e.Err.Taken() {
		return "restart the kernel: the front end then chooses other ports"
	}
	return "check transport and ip of the connection file"
}

// Listen binds the five sockets. A port of 0 takes a free one: see Connection.
func (s *Server) Listen(c Connection) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("jupyter: connection: %w", err)
	}
	s.connection = c
	s.signer, _ = c.Signer() // checked above
	s.sockets = map[Channel]*zmtp.Socket{}
	for _, channel := range []Channel{Shell, Control, Stdin, IOPub, Heartbeat} {
		socket := &zmtp.Socket{Type: zmtp.Router, Limit: messageLimit, Log: s.Log}
		switch channel {
		case IOPub:
			socket.Type = zmtp.XPub
			socket.Subscribed = s.subscribed
		case Heartbeat:
			socket.Receive = func(p *zmtp.Peer, frames [][]byte) { p.Send(frames) }
		default:
			socket.Receive = func(p *zmtp.Peer, frames [][]byte) { s.receive(channel, p, frames) }
		}
		if err := listen(socket, c.Endpoint(channel)); err != nil {
			s.Close(0)
			return &ListenError{channel, err}
		}
		s.sockets[channel] = socket
		if c.Transport != "ipc" {
			endpoint := socket.Endpoint()
			port, _ := strconv.Atoi(endpoint[strings.LastIndexByte(endpoint, ':')+1:])
			*s.connection.port(channel) = port
		}
	}
	return nil
}

// patience is how long a port that is taken is waited for: while a killed kernel is
// restarted, somebody else can get one of its ports. That was seen once in a test; who
// it was is not known.
const patience = 3 * time.Second

func listen(socket *zmtp.Socket, endpoint string) *zmtp.ListenError {
	var listen *zmtp.ListenError
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := socket.Listen(endpoint)
		if err == nil {
			return nil
		}
		if errors.As(err, &listen); !listen.Taken() || time.Now().After(end) {
			return listen
		}
	}
}

// Connection is what the server listens on, ports of 0 replaced.
func (s *Server) Connection() Connection { return s.connection }

func (s *Server) receive(channel Channel, p *zmtp.Peer, frames [][]byte) {
	m, err := s.signer.Decode(frames)
	if err == nil && len(s.signer.key) > 0 && !s.signatures.add(frames[len(m.Identities)+1]) { // behind the delimiter
		err = &FrameError{"signature", "it is that of an earlier message"}
	}
	if err != nil {
		s.log("message dropped", "channel", channel, "error", err)
		return
	}
	m.Identities = append([][]byte{p.Identity}, m.Identities...)
	s.Receive(channel, m)
}

func (s *Server) subscribed(p *zmtp.Peer, topic string) {
	if s.Subscribed == nil {
		return
	}
	s.Subscribed(topic, func(m Message) {
		m.Identities = [][]byte{[]byte(topic)}
		if frames := s.encode(m); frames != nil {
			p.Send(frames)
		}
	})
}

// Send queues a message for the front end that its first identity names, and
// reports whether there is one. It never waits.
func (s *Server) Send(channel Channel, m Message) bool {
	frames := s.encode(m)
	return frames != nil && s.sockets[channel].Send(frames[0], frames[1:])
}

// Has says whether the front end that the first identity names is connected.
func (s *Server) Has(channel Channel, identities [][]byte) bool {
	return len(identities) > 0 && s.sockets[channel].Has(identities[0])
}

// Publish queues a message on iopub for every front end. It never waits. The
// order of calls is the order in which every front end gets the messages.
func (s *Server) Publish(m Message) {
	if frames := s.encode(m); frames != nil {
		s.sockets[IOPub].Publish(frames)
	}
}

// Room waits until what has been published is nearly sent, or ctx ends.
func (s *Server) Room(ctx context.Context) { s.sockets[IOPub].Room(ctx) }

func (s *Server) encode(m Message) [][]byte {
	frames, err := s.signer.Encode(m)
	if err != nil {
		s.log("message cannot be encoded", "type", m.Header.Type, "error", err)
		return nil
	}
	return frames
}

// Close sends what is queued, for up to linger a socket, and unbinds.
func (s *Server) Close(linger time.Duration) {
	for _, socket := range s.sockets {
		socket.Close(linger)
	}
}

func (s *Server) log(message string, args ...any) {
	if s.Log != nil {
		s.Log.Warn("jupyter: "+message, args...)
	}
}
