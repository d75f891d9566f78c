package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	endWait     = 3 * time.Second // how long the end of the kernel waits for a cell
	closeLinger = 2 * time.Second // how long it waits for front ends to take what is queued
)

// fields are the content of a message.
type fields map[string]any

// A core routes requests, owns the status and the counter, and sees to it that
// every request has its busy, its reply and its idle. Five goroutines share
// the work:
//
//   - control: what must not wait, interrupt above all;
//   - lines: comm messages, in order, whatever cells wait: the cell that runs may
//     be waiting for one of them;
//   - shell: the other requests, in order; it hands over
//   - execute_requests, when the cell before has ended, to the executor and
//   - what asks the interpreter about code to the lookup goroutine.
//
// So another request is handled when every cell queued before it has started. Each
// subshell has a shell and an executor of its own.
type core struct {
	interpreter Interpreter
	server      *Server
	history     *history
	log         *slog.Logger
	info        LanguageInfo
	debugger    Debugger // nil = debug requests are refused
	session     string
	ctx         context.Context    // ends with the kernel
	end         context.CancelFunc // ends the kernel
	control     queue
	main        *shell
	lookups     queue
	lines       queue
	stopped     sync.Once // the interpreter has been shut down
	questions   questions
	comms       comms
	usage       usage

	statusMu sync.Mutex // orders status messages
	running  []request  // the cells whose busy is not yet followed by their idle

	mu        sync.Mutex
	halt      halt // the last interrupt_request
	subshells map[string]*shell
	count     int       // execution_count of the last counted cell
	kept      []*output // of the cells that run or ended lately
}

// newCore makes a core that is not yet reached by messages.
func newCore(ctx context.Context, interpreter Interpreter, server *Server, h *history, log *slog.Logger) (*core, error) {
	c := &core{
		interpreter: interpreter,
		server:      server,
		history:     h,
		log:         log,
		session:     NewID(),
		subshells:   map[string]*shell{},
	}
	if err := c.guard("info", func() { c.info = interpreter.Info() }); err != nil {
		return nil, err
	}
	if d, is := interpreter.(Debugger); is && d.CanDebug() {
		c.debugger = d
	}
	c.ctx, c.end = context.WithCancel(ctx)
	c.main = c.newShell("")
	server.Receive = c.receive
	server.Subscribed = c.welcome
	return c, nil
}

// serve answers requests until the kernel ends.
func (c *core) serve() {
	c.publish(nil, "status", fields{"execution_state": "starting"})
	go c.work(&c.control, c.answer)
	go c.work(&c.lookups, c.answer)
	go c.work(&c.lines, c.answer)
	go c.main.serve()
	<-c.ctx.Done()
	c.stop(false)
	c.control.close()
	c.lookups.close()
	c.lines.close()
	c.server.Close(closeLinger)
}

func (c *core) work(q *queue, handle func(request)) {
	for {
		r, ok := q.pop()
		if !ok {
			return
		}
		handle(r)
	}
}

// stop ends the running cells, waits for them, and tells the interpreter, once.
func (c *core) stop(restart bool) {
	c.stopped.Do(func() {
		c.abortAll()
		c.interrupt()
		for deadline := time.Now().Add(endWait); c.runs(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				c.log.Warn("jupyter: shutdown: the cell does not end", "waited", endWait)
				break
			}
		}
		c.guard("shutdown", func() { c.interpreter.Shutdown(restart) })
	})
}

// runs says whether a cell is running.
func (c *core) runs() bool {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	return len(c.running) > 0
}

// urgent are the requests that are answered at once, on whatever socket they
// come: they do not depend on cells, or are there to end them.
var urgent = map[string]bool{
	"kernel_info_request":     true,
	"connect_request":         true,
	"interrupt_request":       true,
	"shutdown_request":        true,
	"debug_request":           true,
	"create_subshell_request": true,
	"delete_subshell_request": true,
	"list_subshell_request":   true,
}

// receive sorts what comes from the sockets.
func (c *core) receive(channel Channel, m Message) {
	r := request{Message: m, channel: channel}
	name := m.Header.Type
	switch {
	case channel == Stdin:
		if name != "input_reply" || !c.questions.answer(m) {
			c.log.Warn("jupyter: message dropped", "channel", channel, "type", name, "error", "no cell waits for it")
		}
	case urgent[name]:
		c.control.push(r)
	case strings.HasPrefix(name, "comm_"):
		c.lines.push(r)
	case channel == Control && name != "execute_request":
		c.control.push(r)
	default:
		c.push(r)
	}
}

// answer handles a request, between its busy and its idle.
func (c *core) answer(r request) {
	name, isRequest := strings.CutSuffix(r.Header.Type, "_request")
	handle := handlers[r.Header.Type]
	if r.Header.Type == "shutdown_request" {
		defer c.end() // behind the idle
	}
	c.busy(r, false)
	defer c.idle(r)
	var content fields
	var err error
	switch {
	case r.refused != nil:
		err = r.refused
	case handle != nil:
		if e := c.guard(r.Header.Type, func() { content, err = handle(c, r) }); e != nil {
			err = e
		}
	case isRequest:
		err = fail("UnknownRequest", "jupyter: %s: this kernel does not know the request; it speaks protocol %s", r.Header.Type, ProtocolVersion)
	default:
		c.log.Warn("jupyter: message without meaning", "channel", r.channel, "type", r.Header.Type)
	}
	if !isRequest {
		return
	}
	if err != nil {
		content = failure(err, content)
	} else if content["status"] == nil {
		content["status"] = "ok"
	}
	c.reply(r, name+"_reply", content, nil)
	if r.Header.Type == "kernel_info_request" && r.channel == Shell {
		c.reconnected(r)
	}
	if r.Header.Type == "shutdown_request" {
		c.publish(r.RawHeader, "shutdown_reply", content)
	}
}

// failure is the content of a reply that reports err; more is added to it.
func failure(err error, more fields) fields {
	e := &Error{Name: "RequestError", Value: err.Error(), Traceback: []string{err.Error()}}
	errors.As(err, &e)
	content := fields{"status": "error", "ename": e.Name, "evalue": e.Value, "traceback": orNone(e.Traceback)}
	maps.Copy(content, more)
	return content
}

func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orNoMap[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

func (c *core) guard(what string, call func()) (err *Error) {
	defer func() {
		if v := recover(); v != nil {
			stack := string(debug.Stack())
			c.log.Error("jupyter: the interpreter panicked", "request", what, "panic", v, "stack", stack)
			err = fail("KernelPanic", "jupyter: %s: the kernel's interpreter panicked: %v; this is a fault of the kernel, not of the cell", what, v)
			err.Traceback = append(err.Traceback, stack)
		}
	}()
	call()
	return nil
}

// reply answers the front end that sent r.
func (c *core) reply(r request, name string, content, metadata fields) {
	m := c.message(r.RawHeader, name, content, metadata)
	m.Identities = r.Identities
	if !c.server.Send(r.channel, m) {
		c.log.Warn("jupyter: reply not sent: the front end has left", "type", name)
	}
}

// publish sends a message to all front ends; parent is the raw header of the
// request it belongs to.
func (c *core) publish(parent json.RawMessage, name string, content fields) {
	m := c.message(parent, name, content, nil)
	m.Identities = [][]byte{c.topic(name, content)}
	c.server.Publish(m)
}

// publishRaw is publish for content that is JSON already, with metadata and
// buffers, which may be nil.
func (c *core) publishRaw(parent json.RawMessage, name string, content, metadata json.RawMessage, buffers [][]byte) {
	c.server.Publish(Message{
		Identities: [][]byte{c.topic(name, nil)},
		Header:     NewHeader(name, c.session, "kernel"),
		Parent:     parent,
		Metadata:   metadata,
		Content:    content,
		Buffers:    buffers,
	})
}

// topic is what front ends that filter iopub go by, as ipykernel has it.
func (c *core) topic(name string, content fields) []byte {
	if name == "stream" {
		stream, _ := content["name"].(string)
		return []byte("stream." + stream)
	}
	return []byte("kernel." + c.session + "." + name)
}

func (c *core) message(parent json.RawMessage, name string, content, metadata fields) Message {
	m := Message{Header: NewHeader(name, c.session, "kernel"), Parent: parent}
	var err error
	if m.Content, err = encodeJSON(orNoMap(content)); err != nil {
		c.log.Error("jupyter: content cannot be written as JSON", "type", name, "error", err)
		m.Content, _ = encodeJSON(failure(err, nil))
	}
	m.Metadata, _ = encodeJSON(orNoMap(metadata)) // our own, always encodable
	return m
}

// busy begins a request. A cell stays the running one until its idle.
func (c *core) busy(r request, cell bool) {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	if cell {
		c.running = append(c.running, r)
	}
	c.publish(r.RawHeader, "status", fields{"execution_state": "busy"})
}

// idle ends a request. Front ends show the last status they saw, whatever it
// belongs to, so if a cell still runs its busy is said again.
func (c *core) idle(r request) {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	c.publish(r.RawHeader, "status", fields{"execution_state": "idle"})
	c.running = slices.DeleteFunc(c.running, func(cell request) bool { return cell.Header.ID == r.Header.ID })
	if n := len(c.running); n > 0 {
		c.publish(c.running[n-1].RawHeader, "status", fields{"execution_state": "busy"})
	}
}

// welcome greets a new subscriber, so that it knows that it misses nothing from
// here on (JEP 65).
func (c *core) welcome(topic string, send func(Message)) {
	send(c.message(nil, "iopub_welcome", fields{"subscription": topic}, nil))
}
