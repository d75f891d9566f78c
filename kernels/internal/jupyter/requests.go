package jupyter

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// handlers answer requests with the content of the reply, to which the core
// adds the status. An error is replied as one, with what content there is.
// execute_request is not among them: it has a goroutine of its own.
var handlers map[string]func(*core, request) (fields, error)

func init() {
	handlers = map[string]func(*core, request) (fields, error){
		"kernel_info_request":     (*core).kernelInfo,
		"connect_request":         (*core).connect,
		"complete_request":        (*core).complete,
		"inspect_request":         (*core).inspect,
		"is_complete_request":     (*core).isComplete,
		"history_request":         (*core).recall,
		"comm_info_request":       (*core).commInfo,
		"comm_open":               (*core).comm,
		"comm_msg":                (*core).comm,
		"comm_close":              (*core).comm,
		"interrupt_request":       (*core).interruptRequest,
		"shutdown_request":        (*core).shutdownRequest,
		"debug_request":           (*core).debug,
		"usage_request":           (*core).usageRequest,
		"create_subshell_request": (*core).createSubshell,
		"delete_subshell_request": (*core).deleteSubshell,
		"list_subshell_request":   (*core).listSubshells,
	}
}

// read takes a request's content apart.
func (r request) read(content any) error {
	if err := json.Unmarshal(r.Content, content); err != nil {
		return fail("BadRequest", "jupyter: %s: %v", r.Header.Type, err)
	}
	return nil
}

func (c *core) kernelInfo(request) (fields, error) {
	features := []string{"kernel subshells"}
	if c.debugger != nil {
		features = append(features, "debugger")
	}
	return fields{
		"protocol_version":       ProtocolVersion,
		"implementation":         c.info.Implementation,
		"implementation_version": c.info.ImplementationVersion,
		"language_info":          c.info.Language,
		"banner":                 c.info.Banner,
		"help_links":             orNone(c.info.HelpLinks),
		"debugger":               c.debugger != nil,
		"supported_features":     features,
	}, nil
}

func (c *core) connect(request) (fields, error) {
	at := c.server.Connection()
	return fields{
		"shell_port": at.ShellPort, "iopub_port": at.IOPubPort, "stdin_port": at.StdinPort,
		"control_port": at.ControlPort, "hb_port": at.HBPort,
	}, nil
}

// A position is where in a cell complete_request and inspect_request ask.
type position struct {
	Code   *string `json:"code"`
	Cursor *int    `json:"cursor_pos"` // in code points; left out, the end
	Detail int     `json:"detail_level"`
}

// read takes the request apart and moves the cursor into the code.
func (p *position) read(r request) error {
	if err := r.read(p); err != nil {
		return err
	}
	if p.Code == nil {
		return fail("BadRequest", "jupyter: %s: its content has no code", r.Header.Type)
	}
	end := utf8.RuneCountInString(*p.Code)
	if p.Cursor == nil {
		p.Cursor = &end
	}
	*p.Cursor = max(0, min(*p.Cursor, end))
	return nil
}

func (c *core) complete(r request) (fields, error) {
	var p position
	if err := p.read(r); err != nil {
		return nil, err
	}
	found := c.interpreter.Complete(c.ctx, *p.Code, *p.Cursor)
	if len(found.Matches) == 0 {
		found.Start, found.End = *p.Cursor, *p.Cursor
	}
	return fields{
		"matches": orNone(found.Matches), "cursor_start": found.Start, "cursor_end": found.End,
		"metadata": orNoMap(found.Metadata),
	}, nil
}

func (c *core) inspect(r request) (fields, error) {
	var p position
	if err := p.read(r); err != nil {
		return nil, err
	}
	seen := c.interpreter.Inspect(c.ctx, *p.Code, *p.Cursor, p.Detail)
	return fields{"found": seen.Found, "data": orNoMap(seen.Data), "metadata": orNoMap(seen.Metadata)}, nil
}

func (c *core) isComplete(r request) (fields, error) {
	var p position
	if err := p.read(r); err != nil {
		return nil, err
	}
	said := c.interpreter.IsComplete(*p.Code)
	switch said.Status {
	case "complete", "incomplete", "invalid":
	default:
		said.Status = "unknown"
	}
	content := fields{"status": said.Status}
	if said.Status == "incomplete" {
		content["indent"] = said.Indent
	}
	return content, nil
}

func (c *core) recall(r request) (fields, error) {
	var q query
	if err := r.read(&q); err != nil {
		return fields{"history": []any{}}, err
	}
	entries, err := c.history.find(q)
	if err != nil {
		return fields{"history": []any{}}, err
	}
	rows := make([]any, len(entries))
	for i, e := range entries {
		rows[i] = []any{e.Session, e.Line, e.Input}
		if q.Output { // outputs are not kept
			rows[i] = []any{e.Session, e.Line, []any{e.Input, nil}}
		}
	}
	return fields{"history": rows}, nil
}

func (c *core) interruptRequest(r request) (fields, error) {
	sent, _ := time.Parse(time.RFC3339, r.Header.Date) // without a date no cell is older
	c.mu.Lock()
	c.halt = halt{session: r.Header.Session, sent: sent, came: time.Now()}
	c.mu.Unlock()
	c.interrupt()
	return fields{}, nil
}

// shutdownRequest ends the running cell and tells the interpreter. The kernel
// ends when the reply is on its way: see answer.
func (c *core) shutdownRequest(r request) (fields, error) {
	var content struct {
		Restart bool `json:"restart"`
	}
	err := r.read(&content)
	c.stop(content.Restart)
	return fields{"restart": content.Restart}, err
}

// debug passes a request to the interpreter's debugger. Where there is none it refuses, in
// the words of the Debug Adapter Protocol and of ours.
func (c *core) debug(r request) (fields, error) {
	var content struct {
		Serial  int    `json:"seq"`
		Command string `json:"command"`
	}
	if err := r.read(&content); err != nil {
		return nil, err
	}
	if c.debugger == nil {
		err := fail("NotSupported", "jupyter: debug_request: this kernel has no debugger")
		return fields{
			"type": "response", "request_seq": content.Serial, "command": content.Command,
			"success": false, "message": err.Value,
		}, err
	}
	all := fields{}
	if err := r.read(&all); err != nil {
		return nil, err
	}
	return c.debugger.Debug(c.ctx, all, func(event map[string]any) { c.publish(r.RawHeader, "debug_event", event) }), nil
}
