package notebook

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
)

// A debugging plays a front end's debugger.
type debugging struct {
	t      *testing.T
	n      *Notebook
	serial int
	events chan map[string]any
}

func (d *debugging) ask(command string, arguments map[string]any) map[string]any {
	d.t.Helper()
	d.serial++
	r := d.n.Debug(d.t.Context(), map[string]any{"seq": d.serial, "type": "request", "command": command, "arguments": arguments}, func(e map[string]any) { d.events <- e })
	if r["success"] != true || r["request_seq"] != d.serial || r["command"] != command {
		d.t.Fatalf("%s %v: got %v, want success", command, arguments, r)
	}
	body, _ := r["body"].(map[string]any)
	return body
}

// await returns the body of the next event of a kind.
func (d *debugging) await(event string) map[string]any {
	d.t.Helper()
	for {
		select {
		case e := <-d.events:
			if e["event"] == event {
				body, _ := e["body"].(map[string]any)
				return body
			}
		case <-time.After(60 * time.Second):
			d.t.Fatalf("no event %s", event)
		}
	}
}

// locals are the variables of the topmost frame, and where it is.
func (d *debugging) locals(thread any) (place string, values map[string]string) {
	d.t.Helper()
	frames := d.ask("stackTrace", map[string]any{"threadId": thread})["stackFrames"].([]any)
	top := frames[0].(map[string]any)
	place = fmt.Sprint(top["source"].(map[string]any)["path"], ":", top["line"])
	values = map[string]string{}
	for _, s := range d.ask("scopes", map[string]any{"frameId": top["id"]})["scopes"].([]any) {
		for _, v := range d.ask("variables", map[string]any{"variablesReference": s.(map[string]any)["variablesReference"]})["variables"].([]any) {
			v := v.(map[string]any)
			values[fmt.Sprint(v["name"])] = fmt.Sprint(v["value"])
		}
	}
	return place, values
}

// TestDebugger debugs a cell as JupyterLab does, with Delve.
func TestDebugger(t *testing.T) {
	dlv, err := exec.LookPath("dlv")
	if err != nil {
		t.Skip("needs Delve: go install github.com/go-delve/delve/cmd/dlv@v1.26.0")
	}
	n := newNotebook(t)
	n.Delve = dlv
	d := &debugging{t: t, n: n, events: make(chan map[string]any, 100)}
	r := &runner{t: t, n: n}
	const first = "func twice(x int) int {\n\ty := 2 * x\n\treturn y\n}\nkept := 7"
	const second = "sum := 0\nfor i := range 3 {\n\tsum += twice(i)\n}\nsum"
	r.must(first)
	if info := d.ask("debugInfo", nil); info["isStarted"] != false || info["hashMethod"] != "Murmur2" {
		t.Errorf("got %v, want a debugger that is off", info)
	}
	d.ask("initialize", nil)
	d.ask("attach", nil)
	d.await("initialized")
	if all := fmt.Sprint(d.ask("inspectVariables", nil)["variables"]); !strings.Contains(all, "name:kept") || !strings.Contains(all, "value:7") {
		t.Errorf("between cells: got variables %s, want kept", all)
	}
	if got := fmt.Sprint(d.ask("richInspectVariables", map[string]any{"variableName": "kept"})["data"]); got != "map[text/plain:7]" {
		t.Errorf("got %s, want the value", got)
	}
	files := map[string]string{}
	for code, lines := range map[string][]int{first: {3}, second: {3}} {
		files[code] = d.ask("dumpCell", map[string]any{"code": code})["sourcePath"].(string)
		var all []any
		for _, line := range lines {
			all = append(all, map[string]any{"line": line})
		}
		d.ask("setBreakpoints", map[string]any{"source": map[string]any{"path": files[code]}, "breakpoints": all})
	}
	d.ask("configurationDone", nil)
	done := make(chan *recorder, 1)
	go func() { done <- r.must(second) }()

	thread := d.await("stopped")["threadId"]
	if place, values := d.locals(thread); place != files[second]+":3" || values["sum"] != "0" || values["i"] != "0" {
		t.Errorf("got %s, %v, want line 3 with sum and i 0", place, values)
	}
	d.ask("continue", map[string]any{"threadId": thread})
	d.await("continued") // JupyterLab shows "Paused" until then
	thread = d.await("stopped")["threadId"]
	if place, values := d.locals(thread); place != files[first]+":3" || values["y"] != "0" || values["x"] != "0" {
		t.Errorf("got %s, %v, want line 3 of the earlier cell with y 0", place, values)
	}
	d.ask("stepOut", map[string]any{"threadId": thread})
	d.await("continued")
	thread = d.await("stopped")["threadId"]
	d.ask("next", map[string]any{"threadId": thread})
	thread = d.await("stopped")["threadId"]
	if place, _ := d.locals(thread); !strings.HasPrefix(place, files[second]+":") {
		t.Errorf("a step: got %s, want a line of the cell", place)
	}
	if got := d.ask("source", map[string]any{"source": map[string]any{"path": files[first]}})["content"]; got != first {
		t.Errorf("got source %q, want the cell's", got)
	}
	d.ask("disconnect", map[string]any{})
	d.await("continued")
	select {
	case out := <-done:
		if out.result() != "6" {
			t.Errorf("got %q, want 6", out.result())
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the cell does not end when the debugger is off")
	}
	if r.must(second).result() != "6" {
		t.Error("without debugger: got another result")
	}
	if info := d.ask("debugInfo", nil); info["isStarted"] != false || len(info["breakpoints"].([]any)) != 2 || len(info["stoppedThreads"].([]any)) != 0 {
		t.Errorf("got %v, want it off, with two breakpoints for the next time", info)
	}

	// Stop while it is held.
	d.ask("attach", nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan *jupyter.Error, 1)
	go func() { ended <- n.Execute(ctx, request(second, 50), &recorder{}).Err }()
	d.await("stopped")
	stop()
	select {
	case err := <-ended:
		if err == nil || err.Name != nameInterrupt {
			t.Errorf("Stop at a breakpoint: got %v, want %s", err, nameInterrupt)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("Stop does not end a cell that is held at a breakpoint")
	}
	d.await("continued")
	if r := n.Debug(t.Context(), map[string]any{"seq": 1, "command": "next"}, nil); r["success"] != false || !strings.Contains(fmt.Sprint(r["message"]), "no cell is stopped") {
		t.Errorf("a step between cells: got %v, want that no cell is stopped", r)
	}
}
