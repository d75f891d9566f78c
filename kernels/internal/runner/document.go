package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gaiden/kernels/internal/jupyter"
)

// A Document is a notebook file.
type Document struct {
	top   map[string]any
	cells []map[string]any
}

// A FormatError reports a file that is no notebook that can be run.
type FormatError struct {
	Got, Want string
	Next      string // what to do; may be empty
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("runner: notebook: got %s, want %s", e.Got, e.Want)
}

func (e *FormatError) Hint() string { return e.Next }

// Read reads a notebook file. The error is a *FormatError.
func Read(data []byte) (*Document, error) {
	d := &Document{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // numbers in metadata stay as they were written
	if err := dec.Decode(&d.top); err != nil {
		return nil, &FormatError{Got: "a file that is no JSON object (" + err.Error() + ")", Want: "a notebook (.ipynb)"}
	}
	if d.top["nbformat"] == nil {
		return nil, &FormatError{Got: "JSON that has no nbformat", Want: "a notebook"}
	}
	if version := fmt.Sprint(d.top["nbformat"]); version != "4" {
		return nil, &FormatError{Got: "nbformat " + version, Want: "4", Next: "open it in JupyterLab and save it, which brings it to format 4"}
	}
	list, ok := d.top["cells"].([]any)
	if !ok {
		return nil, &FormatError{Got: "no list of cells", Want: "a notebook of format 4"}
	}
	for i, c := range list {
		cell, ok := c.(map[string]any)
		if !ok {
			return nil, &FormatError{Got: fmt.Sprintf("a cell %d that is not an object", i+1), Want: "a notebook of format 4"}
		}
		d.cells = append(d.cells, cell)
	}
	if language := d.language(); language != "" && !strings.EqualFold(language, "go") {
		return nil, &FormatError{Got: "a notebook in " + language, Want: "one in Go", Next: "jupyter execute runs notebooks of other kernels"}
	}
	return d, nil
}

// language returns the language that the notebook says it is in, "" if it does not.
func (d *Document) language() string {
	spec, _ := d.metadata()["kernelspec"].(map[string]any)
	if l, _ := spec["language"].(string); l != "" {
		return l
	}
	info, _ := d.metadata()["language_info"].(map[string]any)
	l, _ := info["name"].(string)
	return l
}

// setLanguage notes what the notebook was run in, as Jupyter does: pages choose
// the colours of the code by it.
func (d *Document) setLanguage(l jupyter.Language) {
	data, err := json.Marshal(l)
	info := map[string]any{}
	if err == nil && json.Unmarshal(data, &info) == nil {
		d.metadata()["language_info"] = info
	}
}

func (d *Document) metadata() map[string]any {
	m, ok := d.top["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		d.top["metadata"] = m
	}
	return m
}

// Bytes returns the file, laid out as Jupyter does.
func (d *Document) Bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(d.top); err != nil {
		return nil, fmt.Errorf("runner: notebook: %w", err)
	}
	return b.Bytes(), nil
}

// Edit replaces the text of each code cell by what f returns for it; number counts
// from 1. It reports whether anything has changed.
func (d *Document) Edit(f func(number int, code string) string) (changed bool) {
	number := 0
	for _, c := range d.cells {
		if c["cell_type"] != "code" {
			continue
		}
		number++
		old := text(c["source"])
		if edited := f(number, old); edited != old {
			c["source"], changed = lines(edited), true
		}
	}
	return changed
}

// The tags of papermill: the cell that has the defaults, and the one that replaces some.
const (
	parameters = "parameters"
	injected   = "injected-parameters"
)

// Parameters returns the cell that has the defaults of parameters: the first with the
// tag parameters.
func (d *Document) Parameters() (code string, found bool) {
	for _, c := range d.cells {
		if c["cell_type"] == "code" && tagged(c, parameters) {
			return text(c["source"]), true
		}
	}
	return "", false
}

// Inject puts a cell below that of the defaults, as papermill does: in place of the one
// that an earlier Inject has left.
func (d *Document) Inject(code string) {
	d.cells = slices.DeleteFunc(d.cells, func(c map[string]any) bool { return tagged(c, injected) })
	at := 1 + slices.IndexFunc(d.cells, func(c map[string]any) bool { return c["cell_type"] == "code" && tagged(c, parameters) })
	cell := map[string]any{"cell_type": "code", "metadata": map[string]any{"tags": []any{injected}}, "source": lines(code), "outputs": []any{}, "execution_count": nil}
	if minor, _ := d.top["nbformat_minor"].(json.Number); minor.String() >= "5" {
		cell["id"] = injected
	}
	d.cells = slices.Insert(d.cells, at, cell)
	list := []any{}
	for _, c := range d.cells {
		list = append(list, c)
	}
	d.top["cells"] = list
}

// text joins what the format has as a text or a list of lines.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, line := range v {
			s, _ := line.(string)
			b.WriteString(s)
		}
		return b.String()
	}
	return ""
}

// lines is the inverse of text: a list of lines, each with its end.
func lines(s string) []any {
	out := []any{}
	for line := range strings.Lines(s) {
		out = append(out, line)
	}
	return out
}

// setTimes notes when a cell ran, as JupyterLab and nbclient do.
func setTimes(cell map[string]any, began, ended time.Time) {
	metadata, ok := cell["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		cell["metadata"] = metadata
	}
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
	metadata["execution"] = map[string]any{
		"iopub.status.busy": at(began), "iopub.execute_input": at(began), "iopub.status.idle": at(ended), "shell.execute_reply": at(ended)}
}

// dropTimes removes what an earlier run noted.
func dropTimes(cell map[string]any) {
	if metadata, ok := cell["metadata"].(map[string]any); ok {
		delete(metadata, "execution")
	}
}

// tagged reports whether a cell has a tag.
func tagged(cell map[string]any, tag string) bool {
	metadata, _ := cell["metadata"].(map[string]any)
	tags, _ := metadata["tags"].([]any)
	return slices.Contains(tags, any(tag))
}
