package notebook

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/raster"
)

// bundle makes of a program's result what front ends take: text as text, the
// rest as bytes, images in a form that is shown in every notebook.
func bundle(data map[string][]byte) jupyter.MimeBundle {
	b := jupyter.MimeBundle{Data: map[string]any{}, Metadata: map[string]any{}}
	for mime, content := range data {
		b.Data[mime] = mimeValue(mime, content)
	}
	b.Data, b.Metadata = raster.Complete(b.Data, b.Metadata)
	return b
}

func mimeValue(mime string, content any) any {
	raw, ok := content.([]byte)
	if ok && (strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+xml") || strings.HasSuffix(mime, "json")) {
		return string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	}
	return content
}

// MIMEClear is what a program sends, as if to display it, in order to remove
// what its cell has shown so far: true to wait until there is something new.
//
//	gonbui.SendData(&protocol.DisplayData{Data: map[protocol.MIMEType]any{"application/x-gaiden-clear": true}})
const MIMEClear protocol.MIMEType = "application/x-gaiden-clear"

// MIMEEnded is a form of a display with an id, as HTML: it replaces the display when the
// program has ended and has not replaced it by one without this form. A progress bar so
// does not promise more for ever, however its program ended.
const MIMEEnded protocol.MIMEType = "application/x-gaiden-ended"

// ended shows the displays that the program has left as if it still ran.
func (b *bridge) ended() {
	for _, id := range slices.Sorted(maps.Keys(b.unended)) {
		b.display(&protocol.DisplayData{DisplayID: id, Data: map[protocol.MIMEType]any{protocol.MIMETextHTML: b.unended[id]}})
	}
}

// display shows what the program wants shown. The first display under an id is
// shown, later ones replace it: also those of other cells. When the cell that
// showed it first is run again, its output is gone and it is shown again.
func (b *bridge) display(d *protocol.DisplayData) {
	out := jupyter.MimeBundle{Data: map[string]any{}, Metadata: d.Metadata}
	delete(b.unended, d.DisplayID)
	ended, more := d.Data[MIMEEnded].(string)
	if more = more && d.DisplayID != ""; more {
		if b.unended == nil {
			b.unended = map[string]string{}
		}
		b.unended[d.DisplayID] = ended
	}
	for mime, content := range d.Data {
		if mime == MIMEEnded {
			continue
		}
		out.Data[string(mime)] = mimeValue(string(mime), content)
	}
	if b.x.capture != nil {
		for _, content := range out.Data {
			if text, ok := content.(string); ok {
				io.WriteString(b.x.capture, text)
			}
		}
	}
	if d.DisplayID == "" {
		out.Data, out.Metadata = raster.Complete(out.Data, out.Metadata)
		b.x.out.Display(out)
		return
	}
	out.Data, out.Metadata = b.x.n.progress.form(d.DisplayID, out.Data, out.Metadata, more)
	out.Transient = map[string]any{"display_id": d.DisplayID}
	n, me := b.x.n, b.x.cellLabel()
	n.mu.Lock()
	by, known := n.shown[d.DisplayID]
	again := known && by != me && cellOf(by) == cellOf(me)
	if !known || again {
		n.shown[d.DisplayID] = me
	}
	n.mu.Unlock()
	if known && !again {
		b.x.out.Update(out)
	} else {
		b.x.out.Display(out)
	}
}

// cellLabel names this execution and the front end's cell, if it has a name.
func (x *execution) cellLabel() string { return fmt.Sprintf("%d %s", x.req.Count, x.req.Cell) }

// cellOf returns the front end's cell of a place; where that is not known, all
// lines differ.
func cellOf(place string) string {
	_, name, _ := strings.Cut(place, " ")
	return cmp.Or(name, place)
}

func (b *bridge) warn(text string) { b.x.out.Stream("stderr", []byte(text+"\n")) }
