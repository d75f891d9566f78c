package frontend

import (
	"encoding/json"
	"strings"

	"gaiden/kernels/internal/jupyter"
)

// Content is a message's content as a map, empty if it is no object.
func Content(m jupyter.Message) map[string]any {
	content := map[string]any{}
	json.Unmarshal(m.Content, &content) // what is no object shows as empty
	return content
}

// State is the execution_state of a status message, else empty.
func State(m jupyter.Message) string {
	if m.Header.Type != "status" {
		return ""
	}
	state, _ := Content(m)["execution_state"].(string)
	return state
}

// Status is the reply's status: ok, error or aborted.
func (a Answer) Status() string {
	status, _ := Content(a.Reply)["status"].(string)
	return status
}

// Messages are the messages of one type.
func (a Answer) Messages(name string) []jupyter.Message {
	var found []jupyter.Message
	for _, m := range a.IOPub {
		if m.Header.Type == name {
			found = append(found, m)
		}
	}
	return found
}

// Types lists the types of the messages on iopub, in order, status messages as
// their state.
func (a Answer) Types() []string {
	var types []string
	for _, m := range a.IOPub {
		if state := State(m); state != "" {
			types = append(types, state)
			continue
		}
		types = append(types, m.Header.Type)
	}
	return types
}

// Stream is all text of stdout or stderr.
func (a Answer) Stream(name string) string {
	var text strings.Builder
	for _, m := range a.Messages("stream") {
		var content struct{ Name, Text string }
		if json.Unmarshal(m.Content, &content) == nil && content.Name == name {
			text.WriteString(content.Text)
		}
	}
	return text.String()
}

// Shown are the values of one MIME type in messages of one type, display_data
// for one, in order; those that lack it are empty.
func (a Answer) Shown(name, mime string) []string {
	var shown []string
	for _, m := range a.Messages(name) {
		data, _ := Content(m)["data"].(map[string]any)
		text, _ := data[mime].(string)
		shown = append(shown, text)
	}
	return shown
}
