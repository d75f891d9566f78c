package jupyter

import (
	"encoding/json"
	"sync"
)

// comms are the open comms, by id. The zero comms is ready to use.
type comms struct {
	mu      sync.Mutex
	targets map[string]string
}

func (t *comms) open(id, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.targets == nil {
		t.targets = map[string]string{}
	}
	t.targets[id] = target
}

func (t *comms) close(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.targets, id)
}

// has says whether a comm is open.
func (t *comms) has(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, open := t.targets[id]
	return open
}

// list gives the open comms of a target, or of all if it is empty.
func (t *comms) list(target string) fields {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := fields{}
	for id, to := range t.targets {
		if target == "" || to == target {
			found[id] = fields{"target_name": to}
		}
	}
	return found
}

func (c *core) commInfo(r request) (fields, error) {
	var content struct {
		Target string `json:"target_name"`
	}
	if err := r.read(&content); err != nil {
		return fields{"comms": fields{}}, err
	}
	return fields{"comms": c.comms.list(content.Target)}, nil
}

// comm hands a front end's comm message to the interpreter. A comm that nobody
// takes is closed, as the specification asks; so is one that another life of
// this kernel had, for which its front end still has messages.
func (c *core) comm(r request) (fields, error) {
	var content struct {
		ID     string         `json:"comm_id"`
		Target string         `json:"target_name"`
		Data   map[string]any `json:"data"`
	}
	if err := r.read(&content); err != nil || content.ID == "" {
		c.log.Warn("jupyter: message dropped", "type", r.Header.Type, "error", err, "comm", content.ID)
		return nil, nil
	}
	var metadata map[string]any
	json.Unmarshal(r.Metadata, &metadata) // metadata that is not an object is none
	kind := r.Header.Type
	out := &output{core: c, ctx: c.ctx, request: r}
	defer out.finish()
	handler, ok := c.interpreter.(CommHandler)
	switch {
	case kind == "comm_open" && ok:
		c.comms.open(content.ID, content.Target)
	case kind == "comm_close" && c.comms.has(content.ID):
		c.comms.close(content.ID)
	case kind == "comm_close":
		return nil, nil
	case !c.comms.has(content.ID):
		out.CommClose(Comm{ID: content.ID})
		return nil, nil
	}
	if !ok {
		return nil, nil
	}
	message := Comm{ID: content.ID, Target: content.Target, Data: content.Data, Metadata: metadata, Buffers: r.Buffers}
	if err := handler.Comm(c.ctx, kind, message, out); err != nil {
		c.log.Warn("jupyter: the interpreter refused a comm message", "type", kind, "comm", content.ID, "error", err)
		if kind == "comm_open" {
			out.CommClose(Comm{ID: content.ID})
		}
	}
	return nil, nil
}
