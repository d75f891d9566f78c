package runner

import (
	"bytes"
	"context"
	"encoding/base64"
	"regexp"
	"strings"
	"sync"

	"gaiden/kernels/internal/jupyter"
)

// displays finds outputs by their display id, in all cells.
type displays map[string][]*output

// An output is one output of a cell, before it is written.
type output struct {
	kind   string // as the format's output_type
	name   string // of a stream
	stream []byte
	bundle jupyter.MimeBundle
	count  int
	err    *jupyter.Error
}

// outputs is the jupyter.Output of one cell.
type outputs struct {
	displays displays // shared by all cells; protected by mu, for one cell runs at a time
	count    int

	mu    sync.Mutex
	all   []*output
	clear bool // before the next output
}

// add appends an output. o.mu is held.
func (o *outputs) add(out *output) {
	if o.clear {
		o.all, o.clear = nil, false
	}
	o.all = append(o.all, out)
}

// Stream implements jupyter.Output.
func (o *outputs) Stream(name string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.all)
	if n == 0 || o.clear || o.all[n-1].kind != "stream" || o.all[n-1].name != name {
		o.add(&output{kind: "stream", name: name})
		n = len(o.all)
	}
	o.all[n-1].stream = append(o.all[n-1].stream, data...)
}

// Display implements jupyter.Output.
func (o *outputs) Display(d jupyter.MimeBundle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &output{kind: "display_data", bundle: d}
	o.add(out)
	if id, _ := d.Transient["display_id"].(string); id != "" {
		o.displays[id] = append(o.displays[id], out)
	}
}

// Update implements jupyter.Output.
func (o *outputs) Update(d jupyter.MimeBundle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, _ := d.Transient["display_id"].(string)
	for _, out := range o.displays[id] {
		out.bundle = d
	}
}

// Result implements jupyter.Output.
func (o *outputs) Result(d jupyter.MimeBundle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(&output{kind: "execute_result", bundle: d, count: o.count})
}

// Clear implements jupyter.Output.
func (o *outputs) Clear(wait bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear = wait
	if !wait {
		o.all = nil
	}
}

// Input implements jupyter.Output: nobody is there.
func (o *outputs) Input(context.Context, string, bool) (string, error) {
	return "", jupyter.ErrNoStdin
}

// CommOpen implements jupyter.Output: a file has no other end.
func (o *outputs) CommOpen(jupyter.Comm) {}

// CommMsg implements jupyter.Output.
func (o *outputs) CommMsg(jupyter.Comm) {}

// CommClose implements jupyter.Output.
func (o *outputs) CommClose(jupyter.Comm) {}

// fail adds the cell's error.
func (o *outputs) fail(err *jupyter.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(&output{kind: "error", err: err})
}

// overwritten matches what a carriage return goes back over, as a progress bar's does for
// each step: JupyterLab and nbclient do not save it either.
var overwritten = regexp.MustCompile(`.*\r+([^\r\n])`)

// written returns the outputs as the format has them.
func (o *outputs) written() []any {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := []any{}
	for _, out := range o.all {
		list = append(list, out.written())
	}
	return list
}

func (out *output) written() map[string]any {
	w := map[string]any{"output_type": out.kind}
	switch out.kind {
	case "stream":
		w["name"] = out.name
		w["text"] = lines(string(bytes.ToValidUTF8(overwritten.ReplaceAll(out.stream, []byte("$1")), []byte("\uFFFD"))))
	case "error":
		trace := []any{}
		for _, line := range out.err.Traceback {
			trace = append(trace, line)
		}
		w["ename"], w["evalue"], w["traceback"] = out.err.Name, out.err.Value, trace
	default:
		data := map[string]any{}
		for mime, value := range out.bundle.Data {
			data[mime] = encoded(mime, value)
		}
		w["data"], w["metadata"] = data, out.bundle.Metadata
		if out.bundle.Metadata == nil {
			w["metadata"] = map[string]any{}
		}
		if out.kind == "execute_result" {
			w["execution_count"] = out.count
		}
	}
	return w
}

// encoded returns a value as the format has it: text as lines, bytes in base64,
// JSON as it is.
func encoded(mime string, value any) any {
	switch v := value.(type) {
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case string:
		if mime == "application/json" || strings.HasSuffix(mime, "+json") || strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" {
			return v
		}
		return lines(v)
	}
	return value
}
