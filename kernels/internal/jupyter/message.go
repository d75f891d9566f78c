package jupyter

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ProtocolVersion is the version of the messaging protocol that the kernel
// speaks.
const ProtocolVersion = "5.4"

// delimiter ends the routing identities of a message.
const delimiter = "<IDS|MSG>"

// dateLayout is ISO 8601 with microseconds, as Jupyter's own clients write it.
const dateLayout = "2006-01-02T15:04:05.000000Z07:00"

// A Header says what a message is and who sent it.
type Header struct {
	ID       string `json:"msg_id"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Type     string `json:"msg_type"`
	Version  string `json:"version"`
	Subshell string `json:"subshell_id,omitempty"` // of a request on shell; empty = the kernel's own shell
}

// A Message is one message of the protocol. The JSON parts are kept as text:
// a parent header has to go back exactly as it came.
type Message struct {
	Identities [][]byte        // routing identities; the topic on iopub
	Header     Header          // the header, taken apart
	RawHeader  json.RawMessage // the header as it was received
	Parent     json.RawMessage // the header of the request this belongs to; {} if none
	Metadata   json.RawMessage // {} if none
	Content    json.RawMessage
	Buffers    [][]byte // binary attachments, in comm messages
}

// ParentID is the id of the request that the message belongs to, empty if none.
func (m Message) ParentID() string {
	var h Header
	if json.Unmarshal(m.Parent, &h) != nil {
		return ""
	}
	return h.ID
}

// A FrameError reports frames that are not a message we may act on. The kernel
// drops them and logs the error.
type FrameError struct {
	Reason string // signature, delimiter, frames or header
	Detail string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("jupyter: message dropped: %s: %s", e.Reason, e.Detail)
}

// Decode takes a message's frames apart after checking its signature. Its
// errors are *FrameError. The message shares memory with the frames.
func (s Signer) Decode(frames [][]byte) (Message, error) {
	d := slices.IndexFunc(frames, func(f []byte) bool { return string(f) == delimiter })
	if d < 0 {
		return Message{}, &FrameError{"delimiter", fmt.Sprintf("none of the %d frames is %s", len(frames), delimiter)}
	}
	parts := frames[d+1:]
	if len(parts) < 5 {
		return Message{}, &FrameError{"frames", fmt.Sprintf("got %d after the delimiter, want 5 or more: signature, header, parent, metadata, content", len(parts))}
	}
	if !s.verify(parts[0], parts[1:5]) {
		return Message{}, &FrameError{"signature", "it does not match the key of the connection file"}
	}
	m := Message{
		Identities: frames[:d:d],
		RawHeader:  parts[1],
		Parent:     parts[2],
		Metadata:   parts[3],
		Content:    parts[4],
		Buffers:    parts[5:],
	}
	if err := json.Unmarshal(m.RawHeader, &m.Header); err != nil {
		return Message{}, &FrameError{"header", err.Error()}
	}
	if m.Header.ID == "" || m.Header.Type == "" {
		return Message{}, &FrameError{"header", "it needs msg_id and msg_type"}
	}
	return m, nil
}

// Encode is the reverse of Decode. Empty JSON parts become {}.
func (s Signer) Encode(m Message) ([][]byte, error) {
	header := m.RawHeader
	if header == nil {
		var err error
		if header, err = encodeJSON(m.Header); err != nil {
			return nil, err
		}
	}
	parts := [][]byte{header, orEmpty(m.Parent), orEmpty(m.Metadata), orEmpty(m.Content)}
	frames := make([][]byte, 0, len(m.Identities)+6+len(m.Buffers))
	frames = append(frames, m.Identities...)
	frames = append(frames, []byte(delimiter), s.sign(parts))
	frames = append(frames, parts...)
	return append(frames, m.Buffers...), nil
}

func orEmpty(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}

// A Signer signs messages and checks signatures. The zero Signer does neither,
// as the protocol wants it for an empty key.
type Signer struct {
	key  []byte
	hash hashFunc
}

func (s Signer) sign(parts [][]byte) []byte {
	if len(s.key) == 0 {
		return []byte{}
	}
	mac := hmac.New(s.hash, s.key)
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}

func (s Signer) verify(signature []byte, parts [][]byte) bool {
	return len(s.key) == 0 || hmac.Equal(bytes.ToLower(signature), s.sign(parts))
}

// NewHeader makes the header of a message that is sent now.
func NewHeader(messageType, session, username string) Header {
	return Header{
		ID:       NewID(),
		Session:  session,
		Username: username,
		Date:     time.Now().UTC().Format(dateLayout),
		Type:     messageType,
		Version:  ProtocolVersion,
	}
}

// NewID makes a random UUID (RFC 9562, version 4).
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // it cannot fail since Go 1.24
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// encodeJSON is json.Marshal without the escapes for HTML, which would make
// output longer and harder to read in a trace.
func encodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
