package jupyter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

type object = map[string]any

// TestReplies has a line for each sentence of the specification that says what
// a request is answered with.
func TestReplies(t *testing.T) {
	c, k := kernel(t, map[string]cell{"fail": failing})
	executed(t, c, "a")
	at := k.Connection
	tests := []struct {
		name    string
		channel jupyter.Channel
		request string
		content any
		want    object // what the reply's content has, among other things
	}{
		{"kernel_info", jupyter.Shell, "kernel_info_request", nil,
			object{"status": "ok", "protocol_version": "5.4", "implementation": "mock", "debugger": false}},
		{"kernel_info on control", jupyter.Control, "kernel_info_request", object{}, object{"status": "ok"}},
		{"kernel_info names the language", jupyter.Shell, "kernel_info_request", object{},
			object{"language_info": object{"name": "go", "file_extension": ".go", "mimetype": "", "version": ""}}},
		{"connect tells the ports", jupyter.Shell, "connect_request", object{},
			object{"shell_port": at.ShellPort, "iopub_port": at.IOPubPort, "stdin_port": at.StdinPort, "hb_port": at.HBPort, "control_port": at.ControlPort}},
		{"complete", jupyter.Shell, "complete_request", object{"code": "fmt Pr", "cursor_pos": 6},
			object{"status": "ok", "matches": []string{"Printf", "Println"}, "cursor_start": 4, "cursor_end": 6, "metadata": object{}}},
		{"complete counts code points", jupyter.Shell, "complete_request", object{"code": "é𝐙 Pr", "cursor_pos": 5},
			object{"cursor_start": 3, "cursor_end": 5}},
		{"complete with the cursor outside", jupyter.Shell, "complete_request", object{"code": "é𝐙", "cursor_pos": 99}, object{"cursor_end": 2}},
		{"complete with a cursor below zero", jupyter.Shell, "complete_request", object{"code": "é𝐙", "cursor_pos": -9}, object{"cursor_end": 0}},
		{"complete without code", jupyter.Shell, "complete_request", object{"cursor_pos": 2}, object{"status": "error", "ename": "BadRequest"}},
		{"inspect", jupyter.Shell, "inspect_request", object{"code": "x", "cursor_pos": 1, "detail_level": 1},
			object{"status": "ok", "found": true, "data": object{"text/plain": "x", "x/detail": 1}, "metadata": object{}}},
		{"inspect that finds nothing", jupyter.Shell, "inspect_request", object{"code": "x", "cursor_pos": 0, "detail_level": 0},
			object{"status": "ok", "found": false}},
		{"inspect that panics", jupyter.Shell, "inspect_request", object{"code": "panic", "cursor_pos": 0}, object{"status": "error", "ename": "KernelPanic"}},
		{"is_complete complete", jupyter.Shell, "is_complete_request", object{"code": "complete"}, object{"status": "complete"}},
		{"is_complete incomplete", jupyter.Shell, "is_complete_request", object{"code": "incomplete"}, object{"status": "incomplete", "indent": "\t"}},
		{"is_complete invalid", jupyter.Shell, "is_complete_request", object{"code": "invalid"}, object{"status": "invalid"}},
		{"is_complete of another word", jupyter.Shell, "is_complete_request", object{"code": "perhaps"}, object{"status": "unknown"}},
		{"history tail", jupyter.Shell, "history_request", object{"hist_access_type": "tail", "n": 1, "raw": true, "output": false},
			object{"status": "ok", "history": []any{[]any{1, 1, "a"}}}},
		{"history with output", jupyter.Shell, "history_request", object{"hist_access_type": "range", "session": 0, "start": 1, "stop": 2, "output": true},
			object{"history": []any{[]any{1, 1, []any{"a", nil}}}}},
		{"history of an unknown kind", jupyter.Shell, "history_request", object{"hist_access_type": "all"}, object{"status": "error", "history": []any{}}},
		{"comm_info", jupyter.Shell, "comm_info_request", object{}, object{"status": "ok", "comms": object{}}},
		{"interrupt with nothing to interrupt", jupyter.Control, "interrupt_request", object{}, object{"status": "ok"}},
		{"debug is refused", jupyter.Control, "debug_request", object{"seq": 7, "command": "attach", "type": "request"},
			object{"status": "error", "success": false, "request_seq": 7, "command": "attach", "type": "response"}},
		{"unknown request", jupyter.Shell, "brew_coffee_request", object{}, object{"status": "error", "ename": "UnknownRequest", "traceback": []any{
			"UnknownRequest: jupyter: brew_coffee_request: this kernel does not know the request; it speaks protocol 5.4"}}},
		{"unknown request on control", jupyter.Control, "brew_tea_request", object{}, object{"status": "error"}},
		{"content that is not an object", jupyter.Shell, "complete_request", []int{1}, object{"status": "error", "ename": "BadRequest"}},
		{"content of the wrong type", jupyter.Shell, "execute_request", object{"code": 7}, object{"status": "error", "ename": "BadRequest"}},
		{"execute without code", jupyter.Shell, "execute_request", object{}, object{"status": "error", "ename": "BadRequest"}},
		{"execute on control", jupyter.Control, "execute_request", object{"code": "fail", "silent": true}, object{"status": "error", "ename": "Broken", "evalue": "it is", "traceback": []any{"line 1", "line 2"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answered(t, c, tt.channel, tt.request, tt.content)
			if got, want := a.Reply.Header.Type, strings.TrimSuffix(tt.request, "request")+"reply"; got != want {
				t.Errorf("reply is %s, want %s", got, want)
			}
			if got := a.Types(); got[0] != "busy" || got[len(got)-1] != "idle" {
				t.Errorf("iopub has %v, want busy first and idle last", got)
			}
			text, _ := json.Marshal(tt.want)
			want := object{}
			json.Unmarshal(text, &want)
			content := frontend.Content(a.Reply)
			for name := range want {
				if got := content[name]; !reflect.DeepEqual(got, want[name]) {
					t.Errorf("%s is %#v, want %#v", name, got, want[name])
				}
			}
		})
	}
	if faults := c.Faults(); len(faults) > 0 {
		t.Errorf("the client could not read: %v", faults)
	}
}

// TestHeaders looks at what all messages have in common.
func TestHeaders(t *testing.T) {
	c, _ := kernel(t, nil)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "x"})
	a, err := c.Wait(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range append(a.IOPub, a.Reply) {
		h := m.Header
		if seen[h.ID] {
			t.Errorf("%s has an id that was used before", h.Type)
		}
		seen[h.ID] = true
		if h.Version != "5.4" || h.Session == "" || h.Session == c.Session || h.Username == "" {
			t.Errorf("%s has header %+v, want version 5.4 and a session of the kernel's own", h.Type, h)
		}
		if _, err := time.Parse(time.RFC3339Nano, h.Date); err != nil {
			t.Errorf("%s has date %q: %v", h.Type, h.Date, err)
		}
		var parent jupyter.Header
		json.Unmarshal(m.Parent, &parent)
		if parent.ID != id || parent.Session != c.Session || parent.Username != "tester" || parent.Type != "execute_request" {
			t.Errorf("%s has parent %s, want the request's header", h.Type, m.Parent)
		}
	}
	var metadata struct{ Started time.Time }
	if err := json.Unmarshal(a.Reply.Metadata, &metadata); err != nil || metadata.Started.IsZero() {
		t.Errorf("reply has metadata %s, want started", a.Reply.Metadata)
	}
}

// TestDates: a request's date, which is its sender's clock, means nothing to the
// kernel; the parent header repeats it as it is.
func TestDates(t *testing.T) {
	c, k := kernel(t, nil)
	signer, err := k.Connection.Signer()
	if err != nil {
		t.Fatal(err)
	}
	for i, date := range []string{`"1901-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999Z"`, `"2026-11-21T25:61:61+99:00"`, `"yesterday"`, `""`, `null`} {
		id := fmt.Sprint("date-", i)
		header := fmt.Sprintf(`{"msg_id":%q,"msg_type":"execute_request","session":%q,"username":"tester","version":"5.4","date":%s}`, id, c.Session, date)
		frames, err := signer.Encode(jupyter.Message{RawHeader: []byte(header), Content: []byte(`{"code":"x"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendFrames(jupyter.Shell, frames); err != nil {
			t.Fatal(err)
		}
		a, err := c.Wait(within(t), id)
		if err != nil || a.Status() != "ok" {
			t.Errorf("date %s: got %q, %v; want ok", date, a.Status(), err)
		}
	}
}

// TestWelcome looks for the greeting of JEP 65: it is first.
func TestWelcome(t *testing.T) {
	c, _ := kernel(t, nil)
	m := c.IOPub()[0]
	if m.Header.Type != "iopub_welcome" {
		t.Fatalf("the first message is %s, want iopub_welcome", m.Header.Type)
	}
	if got := frontend.Content(m)["subscription"]; got != "" || m.ParentID() != "" {
		t.Errorf("welcome has subscription %v and parent %s, want an empty string and no parent", got, m.Parent)
	}
}

func TestHeartbeat(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"wait": endless})
	sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"})
	for _, data := range [][]byte{[]byte("ping"), make([]byte, 70_000)} {
		if got, err := c.Beat(within(t), data); err != nil || !slices.Equal(got, data) {
			t.Errorf("beat returns %d bytes, %v, want the %d sent", len(got), err, len(data))
		}
	}
}

// comms is a mock that takes comms.
type comms struct {
	mock
	got chan string
}

func (m *comms) Comm(_ context.Context, kind string, c jupyter.Comm, out jupyter.Output) error {
	if c.Target == "unwanted" {
		return context.Canceled
	}
	m.got <- kind + " " + c.ID
	if kind == "comm_msg" {
		out.CommMsg(jupyter.Comm{ID: c.ID, Data: c.Data, Metadata: map[string]any{"m": 1}, Buffers: c.Buffers})
	}
	return nil
}

func TestComms(t *testing.T) {
	m := &comms{got: make(chan string, 10)}
	m.cells = map[string]cell{
		"wait": endless,
		"open": func(_ context.Context, _ jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
			out.CommOpen(jupyter.Comm{ID: "k1", Target: "widget", Data: map[string]any{"v": 1}, Buffers: [][]byte{{1}, {}}})
			return jupyter.ExecuteResult{}
		}}
	k := jupytertest.Start(t, m, jupyter.Options{})
	c := jupytertest.Connect(t, k.Connection)

	opened := executed(t, c, "open").Messages("comm_open")
	if len(opened) != 1 || frontend.Content(opened[0])["target_name"] != "widget" || len(opened[0].Buffers) != 2 {
		t.Errorf("the kernel opened %v, want one comm to widget with 2 buffers", opened)
	}
	sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"}) // comms work while a cell runs
	for _, step := range []struct{ kind, id, target string }{
		{"comm_open", "f1", "slider"}, {"comm_msg", "f1", ""}, {"comm_open", "f2", "unwanted"}, {"comm_close", "f1", ""}, {"comm_msg", "", ""}, {"comm_msg", "gone", ""},
	} {
		id, err := c.SendWith(jupyter.Shell, step.kind, object{"comm_id": step.id, "target_name": step.target, "data": object{"x": 2}}, nil, [][]byte{[]byte("raw")})
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.WaitIdle(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		info := frontend.Content(answered(t, c, jupyter.Shell, "comm_info_request", object{"target_name": "slider"}).Reply)["comms"]
		switch step.kind + step.target {
		case "comm_openslider":
			if want := any(object{"f1": object{"target_name": "slider"}}); !reflect.DeepEqual(info, want) {
				t.Errorf("comm_info has %v, want %v", info, want)
			}
		case "comm_openunwanted":
			if got := a.Types(); !slices.Contains(got, "comm_close") {
				t.Errorf("opening a comm nobody takes gives %v, want a comm_close", got)
			}
		case "comm_msg":
			switch step.id {
			case "":
				continue
			case "gone":
				if got := a.Types(); !slices.Contains(got, "comm_close") {
					t.Errorf("a message for a comm that is not open gives %v, want a comm_close", got)
				}
				continue
			}
			back := a.Messages("comm_msg")
			if len(back) != 1 || string(back[0].Metadata) != `{"m":1}` || string(slices.Concat(back[0].Buffers...)) != "raw" {
				t.Errorf("comm_msg returns %v, want one with metadata and buffer", back)
			}
		}
	}
	close(m.got)
	var got []string
	for s := range m.got {
		got = append(got, s)
	}
	if want := []string{"comm_open f1", "comm_msg f1", "comm_close f1"}; !slices.Equal(got, want) {
		t.Errorf("the interpreter got %q, want %q", got, want)
	}
}

// TestCommsUnhandled has an interpreter that takes no comms at all.
func TestCommsUnhandled(t *testing.T) {
	c, _ := kernel(t, nil)
	id := sent(t, c, jupyter.Shell, "comm_open", object{"comm_id": "f1", "target_name": "slider", "data": object{}})
	a, err := c.WaitIdle(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.Types(), []string{"busy", "comm_close", "idle"}; !slices.Equal(got, want) {
		t.Errorf("comm_open gives %v, want %v", got, want)
	}
}

// The panel of jupyter-resource-usage reads these, by the names that ipykernel gives them.
func TestUsage(t *testing.T) {
	c, _ := kernel(t, nil)
	for range 2 { // shares are of the time between two requests
		got := answered(t, c, jupyter.Control, "usage_request", object{}).Reply.Content
		var u struct {
			Status, Hostname string
			PID              int                                         `json:"pid"`
			CPU              *float64                                    `json:"kernel_cpu"`
			Memory           float64                                     `json:"kernel_memory"`
			Cores            int                                         `json:"cpu_count"`
			Host             struct{ Total, Available, Percent float64 } `json:"host_virtual_memory"`
		}
		if err := json.Unmarshal(got, &u); err != nil || u.Status != "ok" || u.Hostname == "" || u.PID != os.Getpid() || u.CPU == nil || *u.CPU < 0 || len(strconv.FormatFloat(*u.CPU, 'f', -1, 64)) > len("9999.9") || u.Memory < 1<<20 || u.Cores < 1 ||
			u.Host.Total < u.Host.Available || u.Host.Available <= 0 || u.Host.Percent <= 0 || u.Host.Percent > 100 {
			t.Errorf("got %s: %v", got, err)
		}
	}
}
