package jupyter

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// A page whose connection was cut sends a kernel_info_request when it is connected again.
// Jupyter Server has then sent it what came meanwhile, but has lost what it had written to
// the broken connection: output, even replies. It does not know what, and neither does the
// kernel. So the kernel shows all that the page's cells have shown again, in place of it.
const (
	resendLimit = 512 << 10       // bytes of one cell's output that are kept for it
	resendTotal = 8 << 20         // bytes of all, of the newest cells
	resendTime  = 2 * time.Minute // how long they are kept after the cell's end; servers notice a dead connection after 90 s
	resendRace  = time.Second     // a cell that ended so lately was running when the server chose how to connect
)

// kept is what a cell has shown, as a front end has it that misses nothing.
type kept struct {
	parts []part
	size  int
	clear bool      // before the next part
	never string    // why it cannot be shown again; empty = it can
	last  time.Time // when something was sent
	reply func()    // sends the reply again; nil while the cell runs
	ended time.Time
}

// A part is the content of a message; text of a stream grows.
type part struct {
	name    string // of the message
	stream  string
	text    []byte
	content fields // nil for a stream
	id      string // display_id
	size    int
}

const (
	tooLong = "it is more than 512 KiB"
	tooOld  = "later cells have printed more than 8 MiB"
)

// add notes a message that was published, whose content has size bytes.
func (k *kept) add(name string, content fields, size int) {
	k.last = time.Now()
	p := part{name: name, content: content, size: size}
	if transient, is := content["transient"].(map[string]any); is {
		p.id, _ = transient["display_id"].(string)
	}
	switch name {
	case "comm_open", "comm_msg", "comm_close":
		k.never = "the cell has controls, which would be reset"
	case "clear_output":
		if k.clear = content["wait"] == true; !k.clear {
			k.empty()
		}
		return
	case "update_display_data":
		if k.update(p) {
			return
		}
	default:
		if k.clear {
			k.empty()
		}
	}
	if k.never != "" {
		return
	}
	if name == "stream" {
		p.stream, p.text, p.content = content["name"].(string), []byte(content["text"].(string)), nil
	}
	if n := len(k.parts); n > 0 && name == "stream" && k.parts[n-1].stream == p.stream {
		k.parts[n-1].text = append(k.parts[n-1].text, p.text...)
		k.parts[n-1].size += size
	} else {
		k.parts = append(k.parts, p)
	}
	k.grow(size)
}

// empty removes what was shown.
func (k *kept) empty() {
	k.parts, k.size, k.clear = nil, 0, false
	if k.never == tooLong {
		k.never = ""
	}
}

func (k *kept) grow(size int) {
	if k.size += size; k.size > resendLimit {
		k.parts, k.size, k.never = nil, 0, tooLong
	}
}

// update replaces what is displayed under the id of p, and says whether anything is.
func (k *kept) update(p part) (found bool) {
	for i, was := range k.parts {
		if p.id == "" || was.id != p.id {
			continue
		}
		found = true
		k.parts[i].size = p.size
		k.parts[i].content = maps.Clone(was.content)
		k.parts[i].content["data"], k.parts[i].content["metadata"] = p.content["data"], p.content["metadata"]
		defer k.grow(p.size - was.size)
	}
	return found
}

// keep lists the cell with those that can be shown again.
func (c *core) keep(o *output) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(slices.DeleteFunc(c.kept, (*output).old), o)
	total := 0
	for _, o := range slices.Backward(c.kept) {
		o.mu.Lock()
		if total += o.kept.size; total > resendTotal && len(o.kept.parts) > 0 {
			o.kept.parts, o.kept.size, o.kept.never = nil, 0, tooOld
		}
		o.mu.Unlock()
	}
}

// old says whether the cell ended long ago.
func (o *output) old() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.reply != nil && time.Since(o.kept.ended) > resendTime
}

// ended notes that the cell has ended, and replies by reply.
func (o *output) ended(reply func()) {
	o.mu.Lock()
	o.kept.reply, o.kept.ended = reply, time.Now()
	o.mu.Unlock()
	reply()
}

// reconnected answers a page that is connected again, by a kernel_info_request on shell.
func (c *core) reconnected(r request) {
	c.mu.Lock()
	cells := slices.Clone(c.kept)
	c.mu.Unlock()
	for _, o := range cells {
		if o.request.Header.Session == r.Header.Session && !o.old() {
			o.resend(r)
		}
	}
}

// resend shows the cell's output again, and how it ended. While no cell runs, Jupyter
// Server asks for the page first, by a socket of its own: by this a page that is connected
// again differs from a client that asks after its cells have ended.
func (o *output) resend(r request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.kept
	own := bytes.Equal(r.Identities[0], o.request.Identities[0])
	if k.reply != nil && own && time.Since(k.ended) > resendRace {
		return
	}
	o.flush()
	never := k.never
	if o.asking {
		never = "the cell waits for an answer"
	}
	publish := func(name string, content fields) { o.core.publish(o.request.RawHeader, name, content) }
	switch {
	case never != "" && time.Since(k.last) < resendTime:
		publish("stream", fields{"name": "stderr", "text": "jupyter: the connection to this page was cut: the last output above may be incomplete. It cannot be sent again: " + never + ".\n"})
	case never == "" && len(k.parts) > 0:
		publish("clear_output", fields{"wait": true})
		for _, p := range k.parts {
			if p.content == nil {
				p.content = fields{"name": p.stream, "text": string(p.text)}
			}
			publish(p.name, p.content)
		}
		if k.clear {
			publish("clear_output", fields{"wait": true})
		}
	}
	if k.reply != nil {
		k.reply()
		publish("status", fields{"execution_state": "idle"}) // that of r says busy again if a cell runs
	}
}

// fail publishes the cell's error.
func (o *output) fail(content fields) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shown("error", content)
}

// shown publishes a stream or an error of the cell and notes it.
func (o *output) shown(name string, content fields) {
	if o.kept != nil {
		text, _ := content["text"].(string)
		o.kept.add(name, content, len(text))
	}
	o.core.publish(o.request.RawHeader, name, content)
}
