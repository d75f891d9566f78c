package toolserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/webpage"
	"gaiden/lib/timing/units"
)

// What a result may hold.
const (
	maxText   = 30_000  // bytes
	maxImages = 4       // of one cell
	maxImage  = 1 << 20 // bytes of one
	maxNote   = 200     // bytes of a note that says what was cut
	maxItems  = 400     // outputs that are remembered of one cell
)

// An output is the jupyter.Output of one cell. What it keeps is bounded.
type output struct {
	mu    sync.Mutex
	items []*item // streams and displays, in order
	gone  int     // items that were dropped from the middle
	clear bool    // before the next output
	news  chan struct{}
}

// An item is text of a stream, or something displayed.
type item struct {
	id     string // its display id
	stream transcript
	bundle map[string]any // nil for a stream
}

func newOutput() *output { return &output{news: make(chan struct{}, 1)} }

// add appends an item. o.mu is held.
func (o *output) add(i *item) *item {
	if o.clear {
		o.items, o.gone, o.clear = nil, 0, false
	}
	if o.items = append(o.items, i); len(o.items) > maxItems {
		o.items = slices.Delete(o.items, maxItems/2, maxItems/2+1)
		o.gone++
	}
	return i
}

// tell wakes the one who reports progress.
func (o *output) tell() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// Stream implements jupyter.Output. Both streams are one text.
func (o *output) Stream(_ string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last *item
	if n := len(o.items); n > 0 && !o.clear && o.items[n-1].bundle == nil {
		last = o.items[n-1]
	} else {
		last = o.add(&item{})
	}
	last.stream.Write(data)
	o.tell()
}

// Display implements jupyter.Output.
func (o *output) Display(d jupyter.MimeBundle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, _ := d.Transient["display_id"].(string)
	o.add(&item{id: id, bundle: d.Data})
	o.tell()
}

// Update implements jupyter.Output. What an earlier cell displayed is shown here.
func (o *output) Update(d jupyter.MimeBundle) {
	id, _ := d.Transient["display_id"].(string)
	o.mu.Lock()
	defer o.mu.Unlock()
	found := false
	for _, i := range o.items {
		if i.id == id && i.bundle != nil {
			i.bundle, found = d.Data, true
		}
	}
	if !found {
		o.add(&item{id: id, bundle: d.Data})
	}
	o.tell()
}

// Result implements jupyter.Output.
func (o *output) Result(d jupyter.MimeBundle) { o.Display(jupyter.MimeBundle{Data: d.Data}) }

// Clear implements jupyter.Output.
func (o *output) Clear(wait bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clear = wait; !wait {
		o.items, o.gone = nil, 0
	}
}

// Input implements jupyter.Output: nobody is there.
func (o *output) Input(context.Context, string, bool) (string, error) { return "", jupyter.ErrNoStdin }

// CommOpen implements jupyter.Output: no page shows the notebook.
func (o *output) CommOpen(jupyter.Comm) {}

// CommMsg implements jupyter.Output.
func (o *output) CommMsg(jupyter.Comm) {}

// CommClose implements jupyter.Output.
func (o *output) CommClose(jupyter.Comm) {}

// lastLine is the last line of text so far, for progress.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range slices.Backward(o.items) {
		text := ""
		if i.bundle == nil {
			text = i.stream.String()
		} else {
			text, _ = i.bundle["text/plain"].(string)
		}
		text = strings.TrimSpace(webpage.Plain(text))
		if text != "" {
			return brief(text[strings.LastIndexByte(text, '\n')+1:], 200)
		}
	}
	return ""
}

// content is the output, the text of the error and a note, as a result has it: one
// text, in which [image 1] stands where that was shown, then the images.
func (o *output) content(failure, note string) []mcp.Content {
	o.mu.Lock()
	defer o.mu.Unlock()
	var text strings.Builder
	var images []mcp.Content
	line := func(s string) {
		if s = strings.TrimRight(s, "\n"); s != "" {
			text.WriteString(s + "\n")
		}
	}
	count := 0
	for n, i := range o.items {
		if n == maxItems/2 && o.gone > 0 {
			line(fmt.Sprintf("[%s cut here: a result has at most %d]", units.Plural(o.gone, "output"), maxItems))
		}
		if i.bundle == nil {
			line(webpage.Plain(i.stream.String()))
			continue
		}
		mime, image := imageOf(i.bundle)
		if image == nil {
			line(textOf(i.bundle))
			continue
		}
		count++
		switch {
		case len(image) > maxImage:
			line(fmt.Sprintf("[image %d is left out: it has %s, a result takes %s: draw it smaller]", count, units.Bytes(float64(len(image))), units.Bytes(maxImage)))
		case len(images) == maxImages:
			line(fmt.Sprintf("[image %d is left out: a result has at most %d: show fewer in a cell]", count, maxImages))
		default:
			line(fmt.Sprintf("[image %d]", count))
			images = append(images, &mcp.ImageContent{MIMEType: mime, Data: image})
		}
	}
	line(cut(failure, maxText))
	shown := cmp.Or(cut(text.String(), maxText+len(failure)), "(no output)\n")
	if note != "" {
		shown += note + "\n"
	}
	return append([]mcp.Content{&mcp.TextContent{Text: shown}}, images...)
}

// imageOf returns the image of something displayed, nil if it has none that a
// client can show.
func imageOf(bundle map[string]any) (mime string, data []byte) {
	for _, mime := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		switch v := bundle[mime].(type) {
		case []byte:
			return mime, v
		case string:
			if data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v), "")); err == nil && len(data) > 0 {
				return mime, data
			}
		}
	}
	return "", nil
}

// textOf is the text of something displayed.
func textOf(bundle map[string]any) string {
	for _, mime := range []string{"text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml"} {
		if s, _ := bundle[mime].(string); strings.TrimSpace(s) != "" {
			return webpage.Plain(s)
		}
	}
	if v, is := bundle["application/json"]; is {
		if text, err := json.Marshal(v); err == nil {
			return string(text)
		}
	}
	return ""
}

// cut takes the middle out of a text that is longer than limit, at ends of lines
// where there are some, and says so there.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:limit*2/3], text[len(text)-limit/3:]
	if at := strings.LastIndexByte(head, '\n'); at > len(head)/2 {
		head = head[:at+1]
	}
	if at := strings.IndexByte(tail, '\n'); at >= 0 && at < len(tail)/2 {
		tail = tail[at+1:]
	}
	more := ""
	if strings.Contains(text[len(head):len(text)-len(tail)], cutHere) {
		more = "more than "
	}
	return valid(head) + cutNote(more, len(text)-len(head)-len(tail)) + valid(tail)
}

const cutHere = " cut here: a result"

func cutNote(more string, n int) string {
	return fmt.Sprintf("\n[%s%s"+cutHere+" has at most %s: print less, or write it to a file and show parts of that]\n", more, units.Plural(n, "byte"), units.Count(maxText))
}

// valid is a text without the parts of characters that a cut has left.
func valid(s string) string { return strings.ToValidUTF8(s, "") }

// brief is the beginning of a text.
func brief(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}

// A transcript is text as a terminal would have it, of which it keeps the
// beginning and the end: a carriage return begins the line again.
type transcript struct {
	head, tail []byte
	gone       int  // bytes between them
	back       bool // the last byte was a carriage return
}

// Write adds to the text.
func (t *transcript) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if t.back {
			t.back = false
			if p[0] != '\n' {
				t.restart()
			}
		}
		line, rest, found := bytes.Cut(p, []byte{'\r'})
		t.put(line)
		t.back, p = found, rest
	}
	return n, nil
}

// restart drops the line that was started.
func (t *transcript) restart() {
	to := &t.tail
	if len(t.tail) == 0 && t.gone == 0 {
		to = &t.head
	}
	*to = (*to)[:bytes.LastIndexByte(*to, '\n')+1]
}

func (t *transcript) put(p []byte) {
	if room := maxText*2/3 - len(t.head); room > 0 && len(t.tail) == 0 && t.gone == 0 {
		n := min(room, len(p))
		t.head, p = append(t.head, p[:n]...), p[n:]
	}
	const most = maxText / 3
	if len(p) > 2*most {
		t.gone += len(p) - 2*most
		p = p[len(p)-2*most:]
	}
	t.tail = append(t.tail, p...)
	if over := len(t.tail) - most; over > most {
		t.gone += over
		t.tail = append(t.tail[:0], t.tail[over:]...)
	}
}

func (t *transcript) String() string {
	if t.gone == 0 {
		return strings.ToValidUTF8(string(t.head)+string(t.tail), "\uFFFD")
	}
	over := max(0, len(t.tail)-(maxText/3-maxNote))
	return valid(string(t.head)) + cutNote("", t.gone+over) + valid(string(t.tail[over:]))
}
