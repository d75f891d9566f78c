// Package frontend is a Jupyter front end for tests and benchmarks: it sends
// requests to any kernel and gathers what comes back until the kernel is idle.
//
// It uses real sockets, those of go-zeromq/zmq4, so that our kernel meets another
// implementation of ZeroMQ than its own.
//
//	client, err := frontend.Dial(ctx, connection)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	answer, err := client.Execute(ctx, `fmt.Println("hello")`)
//	if err != nil {
//		return err // no answer: the kernel hangs or has ended
//	}
//	fmt.Print(answer.Stream("stdout"))
//
// Every wait ends with its context. The package refuses to judge: a reply with
// status error is an answer like any other.
package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"

	"gaiden/kernels/internal/jupyter"
)

// DialWait is how long Dial waits for the kernel's sockets when ctx has no end
// of its own.
const DialWait = 20 * time.Second

// A Client is one front end. Its methods may be called from any goroutine.
type Client struct {
	// Session is the client's id: its routing identity and the session of its
	// messages.
	Session string

	signer  jupyter.Signer
	sockets map[jupyter.Channel]zmq4.Socket
	ctx     context.Context
	cancel  context.CancelFunc
	sending sync.Mutex

	mu      sync.Mutex
	input   func(prompt string, password bool) string // see OnInput
	changed chan struct{}                             // closed and replaced when anything arrives
	answers map[string]*Answer
	idle    map[string]bool
	all     []jupyter.Message // of iopub
	faults  []error           // messages that could not be decoded
}

// An Answer is what came back for one request.
type Answer struct {
	Reply jupyter.Message   // its zero value if the message wants none
	IOPub []jupyter.Message // from busy to idle, both included
}

// Dial connects to a kernel, which may still be starting, and waits until it has
// its subscription: no message is missed from then on.
func Dial(ctx context.Context, connection jupyter.Connection) (*Client, error) {
	signer, err := connection.Signer()
	if err != nil {
		return nil, fmt.Errorf("frontend: dial: %w", err)
	}
	c := &Client{
		Session: jupyter.NewID(),
		signer:  signer,
		sockets: map[jupyter.Channel]zmq4.Socket{},
		changed: make(chan struct{}),
		answers: map[string]*Answer{},
		idle:    map[string]bool{},
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	id := zmq4.WithID(zmq4.SocketIdentity(c.Session))
	retry := zmq4.WithDialerRetry(50 * time.Millisecond)
	forever := zmq4.WithDialerMaxRetries(int(DialWait / (50 * time.Millisecond)))
	for _, channel := range []jupyter.Channel{jupyter.Stdin, jupyter.Control, jupyter.Shell, jupyter.IOPub, jupyter.Heartbeat} {
		var s zmq4.Socket
		switch channel {
		case jupyter.IOPub:
			s = zmq4.NewSub(c.ctx, retry, forever)
			s.SetOption(zmq4.OptionSubscribe, "")
		case jupyter.Heartbeat:
			s = zmq4.NewReq(c.ctx, retry, forever)
		default:
			s = zmq4.NewDealer(c.ctx, id, retry, forever)
		}
		c.sockets[channel] = s
		if err := s.Dial(connection.Endpoint(channel)); err != nil {
			c.Close()
			return nil, fmt.Errorf("frontend: dial: %s: %w", channel, err)
		}
		if channel != jupyter.Heartbeat {
			go c.receive(channel, s)
		}
	}
	if err := c.subscribed(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// subscribed waits for iopub: a kernel of protocol 5.4 says welcome; of another
// it asks until the status of the answer is seen.
func (c *Client) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, DialWait)
	defer cancel()
	for {
		short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := c.Request(short, jupyter.Control, "kernel_info_request", nil)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("frontend: dial: the kernel does not answer: %w", err)
		}
	}
}

// Close disconnects.
func (c *Client) Close() {
	c.cancel()
	for _, s := range c.sockets {
		s.Close()
	}
}

// Send sends a request and returns its id, by which Wait finds the answer.
func (c *Client) Send(channel jupyter.Channel, name string, content any) (id string, err error) {
	return c.SendWith(channel, name, content, nil, nil)
}

// SendWith is Send with metadata and buffers.
func (c *Client) SendWith(channel jupyter.Channel, name string, content, metadata any, buffers [][]byte) (id string, err error) {
	m := jupyter.Message{Header: jupyter.NewHeader(name, c.Session, "tester"), Buffers: buffers}
	if content != nil {
		if m.Content, err = json.Marshal(content); err != nil {
			return "", err
		}
	}
	if metadata != nil {
		if m.Metadata, err = json.Marshal(metadata); err != nil {
			return "", err
		}
	}
	frames, err := c.signer.Encode(m)
	if err != nil {
		return "", err
	}
	return m.Header.ID, c.SendFrames(channel, frames)
}

// SendFrames sends anything at all.
func (c *Client) SendFrames(channel jupyter.Channel, frames [][]byte) error {
	c.sending.Lock() // zmq4's writers may mix the frames of two messages
	defer c.sending.Unlock()
	return c.sockets[channel].SendMulti(zmq4.NewMsgFrom(frames...))
}

// Request sends a request and waits for its reply and its idle.
func (c *Client) Request(ctx context.Context, channel jupyter.Channel, name string, content any) (Answer, error) {
	id, err := c.Send(channel, name, content)
	if err != nil {
		return Answer{}, err
	}
	return c.Wait(ctx, id)
}

// Execute runs a cell with the protocol's defaults.
func (c *Client) Execute(ctx context.Context, code string) (Answer, error) {
	return c.Request(ctx, jupyter.Shell, "execute_request", map[string]any{
		"code": code, "silent": false, "store_history": true, "user_expressions": map[string]any{},
		"allow_stdin": c.onInput() != nil, "stop_on_error": true,
	})
}

// Wait waits for the reply and the idle of a request that was sent.
func (c *Client) Wait(ctx context.Context, id string) (Answer, error) {
	return c.wait(ctx, id, true)
}

// WaitIdle waits for the idle of a message that has no reply.
func (c *Client) WaitIdle(ctx context.Context, id string) (Answer, error) {
	return c.wait(ctx, id, false)
}

func (c *Client) wait(ctx context.Context, id string, reply bool) (Answer, error) {
	var got Answer
	err := c.Until(ctx, func() bool {
		a := c.answers[id]
		if a == nil {
			return false
		}
		got = Answer{a.Reply, append([]jupyter.Message(nil), a.IOPub...)}
		return c.idle[id] && (!reply || a.Reply.Header.ID != "")
	})
	if err != nil {
		return got, fmt.Errorf("frontend: no full answer (reply %q, %d messages on iopub): %w",
			got.Reply.Header.Type, len(got.IOPub), err)
	}
	return got, nil
}

// Until waits until done, which is called again for every message and must not
// call the client, or until ctx ends.
func (c *Client) Until(ctx context.Context, done func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := done(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Seen waits until a message of that type belongs to the request.
func (c *Client) Seen(ctx context.Context, id, name string) error {
	return c.Until(ctx, func() bool {
		a := c.answers[id]
		return a != nil && len(a.Messages(name)) > 0
	})
}

// IOPub is everything that has come on iopub, in order.
func (c *Client) IOPub() []jupyter.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]jupyter.Message(nil), c.all...)
}

// Faults are the errors of messages that came and were no Jupyter messages.
func (c *Client) Faults() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.faults...)
}

// Beat sends data to the heartbeat and returns what comes back. After an error
// the heartbeat cannot be used again.
func (c *Client) Beat(ctx context.Context, data []byte) ([]byte, error) {
	type echo struct {
		data []byte
		err  error
	}
	echoed := make(chan echo, 1)
	hb := c.sockets[jupyter.Heartbeat]
	go func() {
		if err := hb.Send(zmq4.NewMsg(data)); err != nil {
			echoed <- echo{nil, err}
			return
		}
		m, err := hb.Recv()
		echoed <- echo{m.Bytes(), err}
	}()
	select {
	case e := <-echoed:
		return e.data, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Client) receive(channel jupyter.Channel, s zmq4.Socket) {
	for {
		raw, err := s.Recv()
		if c.ctx.Err() != nil {
			return
		}
		if err != nil {
			c.fault(fmt.Errorf("%s: %w", channel, err))
			return
		}
		m, err := c.signer.Decode(raw.Frames)
		if err != nil {
			c.fault(fmt.Errorf("%s: %w", channel, err))
			continue
		}
		if channel == jupyter.Stdin {
			c.question(m)
			continue
		}
		c.dispatch(channel, m)
	}
}

func (c *Client) fault(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, err)
}

func (c *Client) dispatch(channel jupyter.Channel, m jupyter.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		close(c.changed)
		c.changed = make(chan struct{})
	}()
	id := m.ParentID()
	a := c.answers[id]
	if a == nil {
		a = &Answer{}
		c.answers[id] = a
	}
	if channel != jupyter.IOPub {
		a.Reply = m
		return
	}
	c.all = append(c.all, m)
	a.IOPub = append(a.IOPub, m)
	if State(m) == "idle" {
		c.idle[id] = true
	}
}

// OnInput sets what answers input_requests from now on; nil leaves them unanswered.
func (c *Client) OnInput(answer func(prompt string, password bool) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.input = answer
}

func (c *Client) onInput() func(prompt string, password bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.input
}

func (c *Client) question(m jupyter.Message) {
	var content struct {
		Prompt   string `json:"prompt"`
		Password bool   `json:"password"`
	}
	answer := c.onInput()
	if answer == nil || m.Header.Type != "input_request" || json.Unmarshal(m.Content, &content) != nil {
		return
	}
	go func() {
		line := answer(content.Prompt, content.Password)
		c.Send(jupyter.Stdin, "input_reply", map[string]any{"value": line, "status": "ok"})
	}()
}
