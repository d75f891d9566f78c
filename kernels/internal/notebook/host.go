package notebook

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/jupyter"
	"gaiden/lib/engine/files"
)

func (x *execution) Stdout() io.Writer { return streamWriter{x.stream("stdout")} }

func (x *execution) Stderr() io.Writer { return streamWriter{x.stream("stderr")} }

func (x *execution) Show(data map[string]any) {
	data, metadata := form(data, nil, false)
	x.out.Display(jupyter.MimeBundle{Data: data, Metadata: metadata})
}

// Live implements magic.Host.
func (x *execution) Live() func(data map[string]any, more bool) {
	place := map[string]any{"display_id": "gaiden-live-" + jupyter.NewID()}
	var mu sync.Mutex
	show := x.out.Display
	return func(data map[string]any, more bool) {
		mu.Lock()
		defer mu.Unlock()
		d := jupyter.MimeBundle{Transient: place}
		d.Data, d.Metadata = form(data, nil, more)
		show(d)
		show = x.out.Update
	}
}

// Left implements magic.Host.
func (x *execution) Left() <-chan struct{} { return x.req.Left }

// Progress implements magic.Host.
func (x *execution) Progress() []map[string]any { return x.n.progress.all() }

func (x *execution) Page(data map[string]any) {
	x.payload = append(x.payload, map[string]any{"source": "page", "data": data, "start": 0})
}

// format replaces the cell by what it is formatted, without the line that wants it.
func (x *execution) format(without int) error {
	text, err := x.n.Format(x.req.Code)
	if err != nil {
		return err
	}
	lines := strings.Split(text, "\n")
	line := strings.TrimSuffix(strings.Split(x.req.Code, "\n")[without-1], "\r")
	if i := slices.Index(lines, line); i >= 0 {
		lines = slices.Delete(lines, i, i+1)
	}
	text = strings.Trim(strings.Join(lines, "\n"), "\n")
	x.payload = append(x.payload, map[string]any{"source": "set_next_input", "text": text, "replace": true})
	return nil
}

func (x *execution) Next(text string) {
	x.payload = append(x.payload, map[string]any{"source": "set_next_input", "text": text, "replace": false})
}

func (x *execution) Go(ctx context.Context, text string) error {
	return x.goCode(ctx, parse.Source{Text: text, Shown: x.req.Code}, false)
}

// Keep implements magic.Host.
func (x *execution) Keep(ctx context.Context, text string) error {
	return x.goCode(ctx, parse.Source{ID: x.req.Count, Text: text, Shown: x.req.Code}, true)
}

type streamWriter struct{ write func([]byte) }

func (w streamWriter) Write(p []byte) (int, error) {
	w.write(p)
	return len(p), nil
}

// stream returns what passes on the bytes of a stream.
func (x *execution) stream(name string) func([]byte) {
	return func(p []byte) {
		if x.capture != nil {
			x.capture.Write(p) // an error shows when the file is closed
		}
		x.out.Stream(name, p)
	}
}

// openCapture begins to copy the cell's output to a file.
func (x *execution) openCapture(name string, more bool) error {
	f, err := files.Open(x.n.expand(name), more) // in place: somebody may read along
	if err != nil {
		return err
	}
	if x.capture != nil {
		x.capture.Close()
	}
	x.capture = f
	return nil
}
