package jupyter

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

type hashFunc = func() hash.Hash

// schemes are the signature schemes that can be requested: hmac- and the name
// of a hash, as Python spells it.
var schemes = map[string]hashFunc{
	"hmac-sha1":   sha1.New,
	"hmac-sha224": sha256.New224,
	"hmac-sha256": sha256.New,
	"hmac-sha384": sha512.New384,
	"hmac-sha512": sha512.New,
}

// A Connection is the content of a connection file: where a kernel listens and
// with which key messages are signed.
type Connection struct {
	Transport   string `json:"transport"` // tcp or ipc; empty means tcp
	IP          string `json:"ip"`        // an address, or for ipc the start of a path
	ShellPort   int    `json:"shell_port"`
	IOPubPort   int    `json:"iopub_port"`
	StdinPort   int    `json:"stdin_port"`
	ControlPort int    `json:"control_port"`
	HBPort      int    `json:"hb_port"`
	Key         string `json:"key"`              // empty: messages are not signed
	Scheme      string `json:"signature_scheme"` // empty means hmac-sha256
	KernelName  string `json:"kernel_name,omitempty"`
}

// A ConnectionError reports a connection file that cannot be used.
type ConnectionError struct {
	Path string // the file
	Err  error  // what is wrong with it
}

func (e *ConnectionError) Error() string {
	return fmt.Sprintf("jupyter: connection file %s: %v", e.Path, e.Err)
}

func (e *ConnectionError) Unwrap() error { return e.Err }

func (e *ConnectionError) Hint() string {
	return "a front end writes this file when it starts a kernel: start this one from JupyterLab, or with jupyter console --kernel gaiden"
}

// ReadConnection reads a connection file. Its errors are *ConnectionError.
func ReadConnection(path string) (Connection, error) {
	fail := func(err error) (Connection, error) { return Connection{}, &ConnectionError{path, err} }
	text, err := os.ReadFile(path)
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err // the path is named already
	}
	if err != nil {
		return fail(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fail(fmt.Errorf("it is not a JSON object: %w", plain(err)))
	}
	for _, name := range []string{"shell_port", "iopub_port", "stdin_port", "control_port", "hb_port", "key"} {
		if fields[name] == nil {
			return fail(fmt.Errorf("it has no %s, so it is not a Jupyter connection file", name))
		}
	}
	var c Connection
	if err := json.Unmarshal(text, &c); err != nil {
		return fail(plain(err))
	}
	if err := c.check(); err != nil {
		return fail(err)
	}
	return c, nil
}

// plain says of a value of another type what it is, without the names of Go's types.
func plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	switch {
	case wrong.Field == "":
		return errors.New("got JSON's " + wrong.Value)
	case wrong.Type.Kind() == reflect.Int:
		return fmt.Errorf("%s: got JSON's %s, want a port number", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("%s: got JSON's %s, want a %s", wrong.Field, wrong.Value, wrong.Type)
}

// check says what is wrong with the values.
func (c Connection) check() error {
	if c.Transport != "" && c.Transport != "tcp" && c.Transport != "ipc" {
		return fmt.Errorf("transport: got %q, want tcp or ipc", c.Transport)
	}
	seen := map[int]string{}
	for _, p := range []struct {
		name string
		port int
	}{
		{"shell_port", c.ShellPort}, {"iopub_port", c.IOPubPort}, {"stdin_port", c.StdinPort},
		{"control_port", c.ControlPort}, {"hb_port", c.HBPort},
	} {
		if p.port < 0 || p.port > 65535 || p.port == 0 && c.Transport == "ipc" {
			return fmt.Errorf("%s: got %d, want a port number", p.name, p.port)
		}
		if other := seen[p.port]; other != "" && p.port != 0 {
			return fmt.Errorf("%s: got %d, which is %s, too", p.name, p.port, other)
		}
		seen[p.port] = p.name
	}
	if c.Transport == "ipc" && c.IP == "" {
		return errors.New("ip: got none, want the start of a path for transport ipc")
	}
	_, err := c.Signer()
	return err
}

// Signer signs with the connection's key.
func (c Connection) Signer() (Signer, error) {
	if c.Key == "" {
		return Signer{}, nil
	}
	scheme := cmp.Or(c.Scheme, "hmac-sha256")
	h := schemes[scheme]
	if h == nil {
		return Signer{}, fmt.Errorf("signature_scheme: got %q, want one of %s", scheme, strings.Join(slices.Sorted(maps.Keys(schemes)), ", "))
	}
	return Signer{key: []byte(c.Key), hash: h}, nil
}

// Endpoint is a socket's address as ZeroMQ writes it.
func (c Connection) Endpoint(channel Channel) string {
	port := strconv.Itoa(*c.port(channel))
	if c.Transport == "ipc" {
		return "ipc://" + c.IP + "-" + port
	}
	ip := c.IP
	if ip == "*" {
		ip = ""
	}
	return "tcp://" + net.JoinHostPort(strings.Trim(ip, "[]"), port)
}

func (c *Connection) port(channel Channel) *int {
	switch channel {
	case Shell:
		return &c.ShellPort
	case Control:
		return &c.ControlPort
	case Stdin:
		return &c.StdinPort
	case IOPub:
		return &c.IOPubPort
	default:
		return &c.HBPort
	}
}

// A Channel is one of the five sockets of a kernel.
type Channel string

// The five sockets, by the names they have in the specification.
const (
	Shell     Channel = "shell"
	Control   Channel = "control"
	Stdin     Channel = "stdin"
	IOPub     Channel = "iopub"
	Heartbeat Channel = "hb"
)
