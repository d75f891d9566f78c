package notebook

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/jupyter"
)

// bundle makes of a program's result what front ends take: text as text, the
// rest as bytes.
func bundle(data map[string][]byte) jupyter.MimeBundle {
	b := jupyter.MimeBundle{Data: map[string]any{}}
	for mime, content := range data {
		b.Data[mime] = mimeValue(mime, content)
	}
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

// A bridge speaks the protocol of GoNB's package gonbui with a cell's program:
// values encoded by package gob, through one named pipe in each direction.
type bridge struct {
	x    *execution
	acks chan protocol.CommValue

	once sync.Once // says only once that there are no widgets
}

func (b *bridge) channels() []cell.Channel {
	b.acks = make(chan protocol.CommValue, 16)
	return []cell.Channel{
		{Env: protocol.GONB_PIPE_ENV, Read: b.read},
		{Env: protocol.GONB_PIPE_BACK_ENV, Write: b.write},
	}
}

// read takes what the program displays, to the very end.
func (b *bridge) read(r io.Reader, catchUp func()) {
	dec := gob.NewDecoder(r)
	for {
		var d protocol.DisplayData
		err := decode(dec, &d)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return // an unexpected one is a program that was killed
		}
		if err != nil {
			b.warn(fmt.Sprintf("display: what the program sent cannot be read: %v", err))
			return
		}
		catchUp()
		b.take(&d)
	}
}

// decode reads one message; garbage may make package gob panic.
func decode(dec *gob.Decoder, d *protocol.DisplayData) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return dec.Decode(d)
}

func (b *bridge) take(d *protocol.DisplayData) {
	switch v := d.Data[protocol.MIMEJupyterInput].(type) {
	case protocol.InputRequest:
		b.x.prompt.set(v.Prompt, v.Password)
		return
	}
	switch v := d.Data[protocol.MIMECommValue].(type) {
	case protocol.CommValue:
		if v.Address == protocol.GonbuiSyncAddress {
			v.Address = protocol.GonbuiSyncAckAddress
			select {
			case b.acks <- v:
			default: // the program does not read its answers
			}
			return
		}
		b.once.Do(func() {
			b.warn("widgets need GoNB's JavaScript, which this kernel does not send; they do not work here")
		})
		return
	}
	if _, ok := d.Data[protocol.MIMECommSubscribe]; ok {
		return
	}
	if wait, ok := d.Data[MIMEClear]; ok {
		b.x.out.Clear(wait == true)
		return
	}
	b.display(d)
}

// display shows what the program wants shown. The first display under an id is
// shown, later ones replace it: also those of other cells. When the cell that
// showed it first is run again, its output is gone and it is shown anew.
func (b *bridge) display(d *protocol.DisplayData) {
	out := jupyter.MimeBundle{Data: map[string]any{}, Metadata: d.Metadata}
	for mime, content := range d.Data {
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
		b.x.out.Display(out)
		return
	}
	out.Transient = map[string]any{"display_id": d.DisplayID}
	n, me := b.x.n, b.x.place()
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

// place names this execution and the front end's cell, if it has a name.
func (x *execution) place() string { return fmt.Sprintf("%d %s", x.req.Count, x.req.Cell) }

// cellOf returns the front end's cell of a place; where that is not known, all
// places differ.
func cellOf(place string) string {
	if _, name, _ := strings.Cut(place, " "); name != "" {
		return name
	}
	return place
}

func (b *bridge) warn(text string) { b.x.out.Stream("stderr", []byte(text+"\n")) }

// write answers gonbui.Sync.
func (b *bridge) write(w io.Writer, done <-chan struct{}) {
	enc := gob.NewEncoder(w)
	for {
		select {
		case v := <-b.acks:
			if enc.Encode(&v) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// A prompt is what the program wants asked when it next reads its input.
type prompt struct {
	mu       sync.Mutex
	text     string
	password bool
}

func (p *prompt) set(text string, password bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.password = text, password
}

func (p *prompt) take() (text string, password bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, password = p.text, p.password
	p.text, p.password = "", false
	return text, password
}

// ask asks the front end for a line.
func (x *execution) ask(ctx context.Context) (string, error) {
	text, password := x.prompt.take()
	return x.out.Input(ctx, text, password)
}
