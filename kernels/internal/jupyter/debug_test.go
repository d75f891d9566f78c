package jupyter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// debugged is a mock whose cells can be debugged, or not here.
type debugged struct {
	mock
	can bool
}

func (m *debugged) CanDebug() bool { return m.can }

func (m *debugged) Debug(_ context.Context, request map[string]any, event func(map[string]any)) map[string]any {
	if request["command"] == "panic" {
		panic("on purpose")
	}
	event(map[string]any{"type": "event", "event": "initialized"})
	return map[string]any{"type": "response", "request_seq": request["seq"], "command": request["command"], "success": true}
}

// TestDebug: requests reach the debugger, also while a cell runs, and its events all front ends.
func TestDebug(t *testing.T) {
	for _, can := range []bool{true, false} {
		m := &debugged{can: can}
		m.cells = map[string]cell{"wait": endless}
		k := jupytertest.Start(t, m, jupyter.Options{})
		c := jupytertest.Connect(t, k.Connection)
		info, err := c.Request(within(t), jupyter.Control, "kernel_info_request", object{})
		if err != nil {
			t.Fatal(err)
		}
		content := frontend.Content(info.Reply)
		if content["debugger"] != can || strings.Contains(fmt.Sprint(content["supported_features"]), "debugger") != can {
			t.Errorf("got debugger %v, features %v, want %t", content["debugger"], content["supported_features"], can)
		}
		sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"})
		a, err := c.Request(within(t), jupyter.Control, "debug_request", object{"seq": 7, "type": "request", "command": "attach", "arguments": object{}})
		if err != nil {
			t.Fatal(err)
		}
		if reply := frontend.Content(a.Reply); reply["success"] != can || reply["request_seq"] != 7.0 || (a.Status() == "ok") != can || (len(a.Messages("debug_event")) == 1) != can {
			t.Errorf("can debug %t: got %v, %v", can, reply, a.Types())
		}
		if a, err := c.Request(within(t), jupyter.Control, "debug_request", object{"seq": 8, "type": "request", "command": "panic"}); err != nil || a.Status() != "error" {
			t.Errorf("a debugger that panics: got %v, %v, want an error", a.Status(), err)
		}
	}
}
