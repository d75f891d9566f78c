package jupyter_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

func TestExecute(t *testing.T) {
	var got jupyter.ExecuteRequest
	c, _ := kernel(t, map[string]cell{
		"keep": func(_ context.Context, req jupyter.ExecuteRequest, _ jupyter.Output) jupyter.ExecuteResult {
			got = req
			return jupyter.ExecuteResult{Payload: []map[string]any{{"source": "page"}}, UserExpressions: map[string]any{"e": 1}}
		},
		"fail": failing,
		"panic": func(context.Context, jupyter.ExecuteRequest, jupyter.Output) jupyter.ExecuteResult {
			panic("on purpose")
		},
	})
	tests := []struct {
		name    string
		content object
		types   []string
		reply   object
	}{
		{"defaults", object{"code": "hello"}, []string{"busy", "execute_input", "stream", "idle"},
			object{"status": "ok", "execution_count": 1.0, "payload": []any{}, "user_expressions": object{}}},
		{"not stored: no count", object{"code": "hello", "store_history": false}, []string{"busy", "execute_input", "stream", "idle"},
			object{"status": "ok", "execution_count": 1.0}},
		{"silent: no output, no count", object{"code": "hello", "silent": true, "store_history": true}, []string{"busy", "idle"},
			object{"status": "ok", "execution_count": 1.0}},
		{"payload and expressions", object{"code": "keep", "user_expressions": object{"e": "1"}}, []string{"busy", "execute_input", "idle"},
			object{"execution_count": 2.0, "payload": []any{object{"source": "page"}}, "user_expressions": object{"e": 1.0}}},
		{"error", object{"code": "fail"}, []string{"busy", "execute_input", "error", "idle"},
			object{"status": "error", "ename": "Broken", "evalue": "it is", "traceback": []any{"line 1", "line 2"}, "execution_count": 3.0}},
		{"silent error", object{"code": "fail", "silent": true}, []string{"busy", "idle"}, object{"status": "error", "ename": "Broken"}},
		{"panic of the interpreter", object{"code": "panic"}, []string{"busy", "execute_input", "error", "idle"}, object{"status": "error", "ename": "KernelPanic"}},
		{"after a panic", object{"code": "hello"}, []string{"busy", "execute_input", "stream", "idle"}, object{"status": "ok", "execution_count": 5.0}},
		{"nulls", object{"code": "", "store_history": nil, "user_expressions": nil, "stop_on_error": nil}, []string{"busy", "execute_input", "idle"}, object{"status": "ok"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answered(t, c, jupyter.Shell, "execute_request", tt.content)
			if got := a.Types(); !slices.Equal(got, tt.types) {
				t.Errorf("iopub has %v, want %v", got, tt.types)
			}
			content := frontend.Content(a.Reply)
			for name, want := range tt.reply {
				if got := content[name]; !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %#v, want %#v", name, got, want)
				}
			}
			for _, m := range a.Messages("execute_input") {
				if input := frontend.Content(m); input["code"] != tt.content["code"] || input["execution_count"] != content["execution_count"] {
					t.Errorf("execute_input is %v, want the code and the reply's count", input)
				}
			}
			for _, m := range a.Messages("error") {
				if e := frontend.Content(m); e["ename"] != content["ename"] || e["evalue"] != content["evalue"] || !reflect.DeepEqual(e["traceback"], content["traceback"]) {
					t.Errorf("error is %v, want what the reply says", e)
				}
			}
		})
	}
	want := jupyter.ExecuteRequest{Code: "keep", StoreHistory: true, AllowStdin: true, StopOnError: true, UserExpressions: map[string]string{"e": "1"}, Count: 2}
	if got.Left = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("the interpreter got %+v, want %+v", got, want)
	}
}

func TestCellID(t *testing.T) {
	ids := make(chan string, 2)
	c, _ := kernel(t, map[string]cell{"id": func(_ context.Context, req jupyter.ExecuteRequest, _ jupyter.Output) jupyter.ExecuteResult {
		ids <- req.Cell
		return jupyter.ExecuteResult{}
	}})
	for _, metadata := range []object{{"cellId": "abc"}, {"cellId": 7}} {
		id, _ := c.SendWith(jupyter.Shell, "execute_request", object{"code": "id"}, metadata, nil)
		if _, err := c.Wait(within(t), id); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := <-ids, <-ids; a != "abc" || b != "" {
		t.Errorf("cells have ids %q and %q, want abc and none", a, b)
	}
}

// TestInterrupt stops a cell by message and by signal; each must be at once.
func TestInterrupt(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"wait": endless})
	for name, interrupt := range map[string]func(){
		"message on control": func() { answered(t, c, jupyter.Control, "interrupt_request", object{}) },
		"message on shell":   func() { answered(t, c, jupyter.Shell, "interrupt_request", object{}) },
		"SIGINT":             func() { syscall.Kill(syscall.Getpid(), syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"})
			queued := sent(t, c, jupyter.Shell, "execute_request", object{"code": "queued"})
			if err := c.Seen(ctx, id, "execute_input"); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			interrupt()
			a, err := c.Wait(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			t.Logf("idle after %v", took) // on a quiet machine 1 ms more than the grace for queued cells
			if took > 10*time.Second {    // a machine may stall; the cell would go on for ever
				t.Errorf("the cell was idle after %v, want it at once", took)
			}
			if got := frontend.Content(a.Reply)["ename"]; got != "Interrupted" {
				t.Errorf("reply has ename %v, want Interrupted", got)
			}
			if a, err := c.Wait(ctx, queued); err != nil || a.Status() != "aborted" {
				t.Errorf("the queued cell has status %q, %v, want aborted", a.Status(), err)
			}
		})
	}
}

// TestInterruptOvertakes: Stop comes by another socket than the cell, and may be
// there first; the cell was sent before it all the same. What others sent, or was
// sent later, is not meant.
func TestInterruptOvertakes(t *testing.T) {
	c, k := kernel(t, map[string]cell{
		"wait": endless,
		"look": func(ctx context.Context, _ jupyter.ExecuteRequest, _ jupyter.Output) jupyter.ExecuteResult {
			if ctx.Err() != nil {
				return endless(ctx, jupyter.ExecuteRequest{}, nil)
			}
			return jupyter.ExecuteResult{}
		},
	})
	signer, _ := k.Connection.Signer()
	second := func(n time.Duration) string { return time.Now().Add(n * time.Second).UTC().Format(time.RFC3339Nano) }
	for _, tt := range []struct{ name, session, date, code, want string }{
		{"sent before", c.Session, second(-1), "wait", "error"},
		{"sent later", c.Session, second(30), "look", "ok"},
		{"another front end", "another", second(-1), "look", "ok"},
		{"no date", c.Session, "", "look", "ok"},
	} {
		answered(t, c, jupyter.Control, "interrupt_request", object{})
		h := jupyter.NewHeader("execute_request", tt.session, "tester")
		h.Date = tt.date
		frames, err := signer.Encode(jupyter.Message{Header: h, Content: []byte(`{"code":"` + tt.code + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendFrames(jupyter.Shell, frames); err != nil {
			t.Fatal(err)
		}
		if a, err := c.Wait(within(t), h.ID); err != nil || a.Status() != tt.want {
			t.Errorf("%s: the cell has status %q, %v, want %s", tt.name, a.Status(), err, tt.want)
		}
	}
}

// TestStatusWhileRunning asks while a cell runs. The last status before the
// cell's idle must be busy, as front ends show the last one.
func TestStatusWhileRunning(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"wait": endless})
	ctx := within(t)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"})
	if err := c.Seen(ctx, id, "execute_input"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel_info_request", "complete_request", "inspect_request", "is_complete_request", "history_request", "comm_info_request", "unknown_request"} {
		a := answered(t, c, jupyter.Shell, name, object{"code": "x", "cursor_pos": 1, "hist_access_type": "tail"})
		idle := a.IOPub[len(a.IOPub)-1]
		after := func(all []jupyter.Message) string {
			for i, m := range all {
				if m.Header.ID == idle.Header.ID && i+1 < len(all) {
					return frontend.State(all[i+1]) + " of " + all[i+1].ParentID()
				}
			}
			return "nothing yet"
		}
		deadline := time.Now().Add(time.Minute)
		for after(c.IOPub()) == "nothing yet" && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if got, want := after(c.IOPub()), "busy of "+id; got != want {
			t.Errorf("after the idle of %s comes %s, want %s", name, got, want)
		}
	}
	answered(t, c, jupyter.Control, "interrupt_request", nil)
	if _, err := c.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	var last string
	for _, m := range c.IOPub() {
		if s := frontend.State(m); s != "" {
			last = s
		}
	}
	if last != "idle" {
		t.Errorf("the last status is %s, want idle", last)
	}
}

func TestStopOnError(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"fail": failing})
	for _, tt := range []struct {
		name string
		stop any
		want string // status of the cells that are queued
	}{
		{"by default", nil, "aborted"},
		{"true", true, "aborted"},
		{"false", false, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := object{"code": "fail", "stop_on_error": tt.stop}
			ids := []string{sent(t, c, jupyter.Shell, "execute_request", bad)}
			for range 3 {
				ids = append(ids, sent(t, c, jupyter.Shell, "execute_request", object{"code": "good"}))
			}
			info := sent(t, c, jupyter.Shell, "is_complete_request", object{"code": "complete"})
			for i, id := range append(ids, info) {
				a, err := c.Wait(within(t), id)
				if err != nil {
					t.Fatal(err)
				}
				want := tt.want
				switch {
				case i == 0:
					want = "error"
				case id == info:
					want = "complete"
				case want == "aborted" && !slices.Equal(slices.Compact(a.Types()), []string{"busy", "idle"}): // busy again after is_complete's idle
					t.Errorf("request %d: iopub has %v, want busy and idle", i, a.Types())
				}
				if a.Status() != want {
					t.Errorf("request %d: status is %q, want %q", i, a.Status(), want)
				}
			}
			if got := executed(t, c, "next").Status(); got != "ok" {
				t.Errorf("the cell after all that is %q, want ok", got)
			}
		})
	}
}

// TestManyQueued sends 1,000 cells at once; they run in order.
func TestManyQueued(t *testing.T) {
	c, _ := kernel(t, nil)
	const n = 1000
	ids := make([]string, n)
	for i := range ids {
		ids[i] = sent(t, c, jupyter.Shell, "execute_request", object{"code": fmt.Sprint("cell ", i)})
	}
	ctx := within(t)
	for i, id := range ids {
		a, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatalf("cell %d: %v", i, err)
		}
		if got, want := a.Types(), []string{"busy", "execute_input", "stream", "idle"}; !slices.Equal(got, want) {
			t.Fatalf("cell %d: iopub has %v, want %v", i, got, want)
		}
		if got, want := frontend.Content(a.Reply)["execution_count"], float64(i+1); got != want {
			t.Fatalf("cell %d: count is %v, want %v", i, got, want)
		}
		if got, want := a.Stream("stdout"), fmt.Sprint("cell ", i); got != want {
			t.Fatalf("cell %d: printed %q, want %q", i, got, want)
		}
	}
}

// TestTwoFrontEnds runs cells from two clients at once: replies go to who asked,
// and both see all of iopub in the same order.
func TestTwoFrontEnds(t *testing.T) {
	a, k := kernel(t, map[string]cell{"ask": func(ctx context.Context, _ jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
		line, err := out.Input(ctx, "?", false)
		out.Stream("stdout", []byte(fmt.Sprint(line, err)))
		return jupyter.ExecuteResult{}
	}})
	b := jupytertest.Connect(t, k.Connection)
	a.OnInput(func(string, bool) string { return "from a" })
	b.OnInput(func(string, bool) string { return "from b" })
	const n = 100
	clients := map[string]*frontend.Client{"a": a, "b": b}
	ids := map[string][]string{}
	for range n {
		for name, c := range clients {
			ids[name] = append(ids[name], sent(t, c, jupyter.Shell, "execute_request", object{"code": "ask"}))
		}
	}
	ctx := within(t)
	for name, c := range clients {
		for _, id := range ids[name] {
			got, err := c.Wait(ctx, id)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text, want := got.Stream("stdout"), "from "+name+"<nil>"; text != want {
				t.Fatalf("%s: the cell printed %q, want %q", name, text, want)
			}
		}
	}
	order := func(c *frontend.Client) string {
		var ids []string
		for _, m := range c.IOPub() {
			if m.Header.Type == "stream" {
				ids = append(ids, m.Header.ID)
			}
		}
		return strings.Join(ids, " ")
	}
	for deadline := time.Now().Add(time.Minute); len(order(a)) != len(order(b)) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if order(a) != order(b) {
		t.Error("two front ends see the streams in different order")
	}
}
