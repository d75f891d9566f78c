package jupyter

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	streamDelay = 50 * time.Millisecond // how long text waits for more
	streamLimit = 1 << 20               // bytes of text in one message
	floodStart  = 4 << 20               // bytes that a cell may send before it waits for slow front ends
)

// output is the Output of one request.
type output struct {
	core       *core
	ctx        context.Context // ends with the request
	request    request
	silent     bool
	allowStdin bool
	count      int          // execution_count
	sent       atomic.Int64 // bytes

	mu      sync.Mutex        // also orders what is published
	current string            // the stream last written to
	text    map[string][]byte // not yet published; for streams other than current a cut character at most
	timer   *time.Timer       // publishes text; nil when not running
	asking  bool              // a question is open
	kept    *kept             // nil when it is not a cell's
}

func (o *output) Stream(name string, data []byte) {
	if o.silent {
		return
	}
	for len(data) > 0 {
		part := data[:min(len(data), streamLimit)]
		data = data[len(part):]
		o.room(len(part))
		o.mu.Lock()
		o.write(name, part)
		o.mu.Unlock()
	}
}

// room lets a flood wait for slow front ends. What a usual cell sends must not
// wait, though one front end has stopped reading.
func (o *output) room(size int) {
	if o.sent.Add(int64(size)) > floodStart {
		o.core.server.Room(o.ctx)
	}
}

func (o *output) write(name string, data []byte) {
	if name != o.current {
		o.flush()
		o.current = name
	}
	if o.text == nil {
		o.text = map[string][]byte{}
	}
	o.text[name] = append(o.text[name], data...)
	switch {
	case len(o.text[name]) >= streamLimit:
		o.flush()
	case o.timer == nil:
		o.timer = time.AfterFunc(streamDelay, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		})
	}
}

// flush publishes the current stream's text but for a character cut at its end.
func (o *output) flush() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	text := o.text[o.current]
	whole := len(text) - cut(text)
	o.publishText(o.current, text[:whole])
	if o.text != nil {
		o.text[o.current] = append(text[:0], text[whole:]...)
	}
}

func (o *output) publishText(name string, text []byte) {
	for len(text) > 0 {
		n := min(len(text), streamLimit)
		n -= cut(text[:n])
		if n == 0 { // a cut character that will not be completed
			n = len(text)
		}
		o.shown("stream", fields{"name": name, "text": string(text[:n])})
		text = text[n:]
	}
}

// cut is the number of bytes at the end of b that begin a character and do not
// end it: 0 to 3.
func cut(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// finish publishes what is left, cut characters included. It is called once,
// when the request's work is done.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	for name, text := range o.text {
		o.publishText(name, text)
	}
	o.text = nil
	o.current = ""
}

// show publishes what is no text, after the text before it. Values that cannot
// be written as JSON are reported on stderr.
func (o *output) show(name string, content fields, metadata map[string]any, buffers [][]byte) {
	raw, err := encodeJSON(content)
	about, wrong := encodeJSON(orNoMap(metadata))
	err = cmp.Or(err, wrong)
	o.room(len(raw))
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.write("stderr", []byte("jupyter: "+name+": "+err.Error()+"\n"))
		return
	}
	o.flush()
	if o.kept != nil {
		o.kept.add(name, content, len(raw))
	}
	o.core.publishRaw(o.request.RawHeader, name, raw, about, buffers)
}

func (o *output) bundle(name string, d MimeBundle, more fields) {
	if o.silent {
		return
	}
	content := fields{"data": orNoMap(d.Data), "metadata": orNoMap(d.Metadata), "transient": orNoMap(d.Transient)}
	maps.Copy(content, more)
	o.show(name, content, nil, nil)
}

func (o *output) Display(d MimeBundle) { o.bundle("display_data", d, nil) }

func (o *output) Update(d MimeBundle) { o.bundle("update_display_data", d, nil) }

func (o *output) Result(d MimeBundle) {
	o.bundle("execute_result", d, fields{"execution_count": o.count})
}

func (o *output) Clear(wait bool) {
	if !o.silent {
		o.show("clear_output", fields{"wait": wait}, nil, nil)
	}
}

func (o *output) Input(ctx context.Context, prompt string, password bool) (string, error) {
	if !o.allowStdin {
		return "", ErrNoStdin
	}
	o.ask(true)
	defer o.ask(false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	return o.core.ask(ctx, o.request, prompt, password)
}

// ask notes whether a question is open.
func (o *output) ask(open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.asking = open
}

func (o *output) CommOpen(c Comm) {
	o.core.comms.open(c.ID, c.Target)
	o.send("comm_open", c, fields{"target_name": c.Target})
}

func (o *output) CommMsg(c Comm) { o.send("comm_msg", c, nil) }

func (o *output) CommClose(c Comm) {
	o.core.comms.close(c.ID)
	o.send("comm_close", c, nil)
}

// send publishes a comm message. Silent cells do, too: it is not output.
func (o *output) send(name string, c Comm, more fields) {
	content := fields{"comm_id": c.ID, "data": orNoMap(c.Data)}
	maps.Copy(content, more)
	o.show(name, content, c.Metadata, c.Buffers)
}
