package debugger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestMurmur2 has values of MurmurHash2's reference implementation, with JupyterLab's seed
// and without.
func TestMurmur2(t *testing.T) {
	for _, tt := range []struct {
		text string
		seed uint32
		want uint32
	}{{"", 0, 0}, {"a", 0, 0x92685f5e}, {"abc", 0, 0x13577c9b}, {"abcd", 0, 0x26873021}, {"hello world", 0, 0x44a81419}} {
		if got := murmur2([]byte(tt.text), tt.seed); got != tt.want {
			t.Errorf("%q: got %#x, want %#x", tt.text, got, tt.want)
		}
	}
}

// TestRequests: what is answered between cells.
func TestRequests(t *testing.T) {
	d := &Debugger{Temp: "/tmp/kernel", Variables: func() []Variable { return []Variable{{"x", "int", "3"}} }}
	file := d.file("x := 1")
	for _, tt := range []struct{ command, arguments, want string }{
		{"debugInfo", `{}`, `"isStarted":false`},
		{"debugInfo", `{}`, `"tmpFilePrefix":"/tmp/kernel/cells/","tmpFileSuffix":".go"`},
		{"initialize", `{}`, `"supportsConfigurationDoneRequest":true`},
		{"attach", `{}`, `"success":true`},
		{"debugInfo", `{}`, `"isStarted":true`},
		{"dumpCell", `{"code": "x := 1"}`, `"sourcePath":"` + file + `"`},
		{"dumpCell", `{}`, "got no code"},
		{"source", `{"source": {"path": "` + file + `"}}`, `"content":"x := 1"`},
		{"source", `{"source": {"path": "/etc/passwd"}}`, `is not known`},
		{"source", `{}`, `is not known`},
		{"setBreakpoints", `{"source": {"path": "` + file + `"}, "breakpoints": [{"line": 1}]}`, `"breakpoints":[{"line":1,"source":{"path":"` + file + `"},"verified":true}]`},
		{"setBreakpoints", `{}`, "got no source.path"},
		{"debugInfo", `{}`, `"breakpoints":[{"breakpoints":[{"line":1}],"source":"` + file + `"}]`},
		{"inspectVariables", `{}`, `"variables":[{"evaluateName":"x","name":"x","type":"int","value":"3","variablesReference":0}]`},
		{"richInspectVariables", `{"variableName": "x"}`, `"data":{"text/plain":"3"}`},
		{"richInspectVariables", `{"variableName": "y"}`, `there is no variable`},
		{"threads", `{}`, `"threads":[]`},
		{"modules", `{}`, `"modules":[]`},
		{"stackTrace", `{"threadId": 1}`, "stackTrace: no cell is stopped at a breakpoint"},
		{"nonsense", `{}`, "no cell is stopped"},
		{"disconnect", `{}`, `"success":true`},
		{"debugInfo", `{}`, `"isStarted":false`},
	} {
		var arguments map[string]any
		if err := json.Unmarshal([]byte(tt.arguments), &arguments); err != nil {
			t.Fatal(err)
		}
		var events []string
		r := d.Request(map[string]any{"seq": 7, "command": tt.command, "arguments": arguments}, func(e map[string]any) { events = append(events, fmt.Sprint(e["event"])) })
		text, err := json.Marshal(r)
		if err != nil || !strings.Contains(string(text), tt.want) || r["request_seq"] != 7 {
			t.Errorf("%s %s: got %s, want %s", tt.command, tt.arguments, text, tt.want)
		}
		if (strings.Join(events, " ") == "initialized") != (tt.command == "attach") {
			t.Errorf("%s: got events %v", tt.command, events)
		}
	}
	d.Request(map[string]any{"command": "attach"}, func(map[string]any) {})
	d.Cell("x := 1", 4)
	if d.Wants([]int{1, 2}) || !d.Wants([]int{2, 4}) {
		t.Error("want the program with cell 4 to be debugged, and no other")
	}
}

// TestAdapter speaks with an adapter that answers, sends an event, refuses, and goes.
func TestAdapter(t *testing.T) {
	ours, theirs := net.Pipe()
	events := make(chan map[string]any, 1)
	a := newAdapter(ours, func(m map[string]any) { events <- m })
	go func() {
		in := bufio.NewReader(theirs)
		send := func(format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			fmt.Fprintf(theirs, "Content-Length: %d\r\n\r\n%s", len(text), text)
		}
		for serial := 1; serial <= 3; serial++ {
			length := 0
			fmt.Fscanf(in, "Content-Length: %d\r\n\r\n", &length)
			if _, err := in.Discard(length); err != nil {
				return
			}
			switch serial {
			case 1:
				send(`{"type": "event", "event": "stopped", "body": {"threadId": 1}}`)
				send(`{"type": "response", "request_seq": 99, "success": true}`) // nobody waits for it
				send(`{"type": "response", "request_seq": 1, "success": true, "body": {"a": 2}}`)
			case 2:
				send(`{"type": "response", "request_seq": 2, "success": false, "message": "short", "body": {"error": {"format": "long"}}}`)
			case 3:
				theirs.Close()
			}
		}
	}()
	if body, err := a.request("one", nil); err != nil || fmt.Sprint(body) != "map[a:2]" {
		t.Errorf("got %v, %v, want the body", body, err)
	}
	if e := <-events; e["event"] != "stopped" {
		t.Errorf("got event %v", e)
	}
	if _, err := a.request("two", nil); err == nil || err.Error() != "long" {
		t.Errorf("refused: got %v, want the reason", err)
	}
	if _, err := a.request("three", nil); err != errEnded {
		t.Errorf("gone: got %v, want %v", err, errEnded)
	}
}

// TestGarbage: an adapter that sends what is no message is left.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"hello\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length: 99999999999\r\n\r\n", "Content-Length: 3\r\n\r\n[1]", "Content-Length: 2\r\n\r\nno"} {
		ours, theirs := net.Pipe()
		a := newAdapter(ours, func(map[string]any) {})
		fmt.Fprint(theirs, text)
		<-a.ended
		theirs.Close()
	}
}
