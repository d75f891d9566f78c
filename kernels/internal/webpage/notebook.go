package webpage

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A notebook is what a page takes from a notebook file.
type notebook struct {
	Format   json.Number `json:"nbformat"`
	Cells    []cell      `json:"cells"`
	Metadata struct {
		Kernel struct {
			Name lines `json:"display_name"`
		} `json:"kernelspec"`
		Language struct{ Version lines } `json:"language_info"`
		Gaiden   struct{ Version lines } `json:"gaiden"`
	} `json:"metadata"`
}

type cell struct {
	Type        string           `json:"cell_type"`
	Source      lines            `json:"source"`
	Count       *json.Number     `json:"execution_count"`
	Outputs     []output         `json:"outputs"`
	Attachments map[string]forms `json:"attachments"`
	Metadata    struct {
		Execution map[string]any `json:"execution"`
	} `json:"metadata"`
}

type output struct {
	Type      string  `json:"output_type"`
	Stream    lines   `json:"name"`
	Text      lines   `json:"text"`
	Name      lines   `json:"ename"`
	Value     lines   `json:"evalue"`
	Traceback []lines `json:"traceback"`
	Data      forms   `json:"data"`
	Metadata  struct {
		PNG imageFacts `json:"image/png"`
	} `json:"metadata"`
}

// imageFacts are what the kernel says of an image.
type imageFacts struct {
	Width, Height float64
	Alt           string
}

// UnmarshalJSON implements json.Unmarshaler: what has another type is as if it were not there.
func (f *imageFacts) UnmarshalJSON(data []byte) error {
	var all map[string]any
	if json.Unmarshal(data, &all) == nil {
		f.Width, _ = all["width"].(float64)
		f.Height, _ = all["height"].(float64)
		f.Alt, _ = all["alt"].(string)
	}
	return nil
}

// forms are the forms of one output by their media type.
type forms map[string]lines

// lines is a text, or a list of lines; of anything else it is the JSON.
type lines string

// UnmarshalJSON implements json.Unmarshaler.
func (l *lines) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*l = lines(s)
		return nil
	}
	var list []string
	if json.Unmarshal(data, &list) == nil {
		*l = lines(strings.Join(list, ""))
		return nil
	}
	*l = lines(data)
	return nil
}

func read(data []byte) (*notebook, error) {
	nb := &notebook{}
	if err := json.Unmarshal(data, nb); err != nil {
		return nil, fmt.Errorf("webpage: no notebook that can be read: %w", err)
	}
	if nb.Format != "4" {
		return nil, fmt.Errorf("webpage: got a notebook of format %q, want 4: open it in JupyterLab and save it", nb.Format)
	}
	return nb, nil
}

// kernel says what ran the notebook.
func (nb *notebook) kernel() string {
	m := nb.Metadata
	name := cmp.Or(string(m.Kernel.Name), "unknown")
	if m.Gaiden.Version != "" {
		name += " " + string(m.Gaiden.Version) + ", Go"
	}
	return name + " " + strings.TrimPrefix(string(m.Language.Version), "go")
}

var gpu = regexp.MustCompile(`^GPU( \d+)?: `)

// machine says on what the notebook ran, with which versions and when, if its first
// %info does: the lines above that of the plugin.
func (nb *notebook) machine() (machine, versions, when string) {
	i := slices.IndexFunc(nb.Cells, func(c cell) bool {
		return strings.TrimSpace(string(c.Source)) == "%info" && len(c.Outputs) > 0
	})
	if i < 0 {
		return "", "", ""
	}
	above, _, found := strings.Cut(string(nb.Cells[i].Outputs[0].Text), "\nplugin ")
	said := strings.Split(above, "\n")
	if !found || len(said) < 3 {
		return "", "", ""
	}
	last := len(said) - 1
	name, when, _ := strings.Cut(said[0], ", ")
	versions = strings.Join(strings.Fields(name), " ") + ", " + said[last]
	machine = said[1]
	count := map[string]int{}
	for _, line := range said[2:last] {
		count[gpu.ReplaceAllString(line, "")]++
	}
	for _, line := range said[2:last] {
		one := gpu.ReplaceAllString(line, "")
		switch n := count[one]; {
		case n > 1:
			machine += fmt.Sprintf("; %d × %s", n, one)
		case n == 1:
			machine += "; " + line
		}
		delete(count, one)
	}
	return machine, versions, when
}

// when returns when a cell began and ended, if the notebook says so.
func (c *cell) when() (from, to time.Time, ok bool) {
	at := func(key string) time.Time {
		s, _ := c.Metadata.Execution[key].(string)
		t, _ := time.Parse(time.RFC3339, s)
		return t
	}
	from, to = at("iopub.execute_input"), at("shell.execute_reply")
	return from, to, !from.IsZero() && !to.Before(from)
}

// attachment returns an attachment as an address, "" if there is none. Its name is
// as it stands in an address, where a blank may be %20.
func attachment(all map[string]forms, name string) string {
	found, ok := all[name]
	if !ok {
		if plain, err := url.PathUnescape(name); err == nil {
			found = all[plain]
		}
	}
	for _, mime := range slices.Sorted(maps.Keys(found)) {
		if data := strings.Join(strings.Fields(string(found[mime])), ""); base64Text.MatchString(data) {
			return "data:" + mime + ";base64," + data
		} else if mime == "image/svg+xml" { // JupyterLab attaches text as it is
			return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString([]byte(found[mime]))
		}
	}
	return ""
}
