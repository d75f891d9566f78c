package jupyter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// to sends a request of shell to a subshell and returns its id.
func to(t *testing.T, c *frontend.Client, sign func(jupyter.Message) ([][]byte, error), id, subshell, name string, content any) string {
	t.Helper()
	header, err := json.Marshal(object{"msg_id": id, "msg_type": name, "session": c.Session, "username": "tester", "version": "5.4", "date": "", "subshell_id": subshell})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := sign(jupyter.Message{RawHeader: header, Content: body})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendFrames(jupyter.Shell, frames); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestSubshells goes through JEP 91: cells of a subshell run while another cell
// does, in their own order, and every request is answered.
func TestSubshells(t *testing.T) {
	c, k := kernel(t, map[string]cell{"endless": endless, "fail": failing})
	signer, err := k.Connection.Signer()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	send := func(subshell, name string, content any) string {
		n++
		return to(t, c, signer.Encode, fmt.Sprint("sub-", n), subshell, name, content)
	}
	status := func(what, id, want string) frontend.Answer {
		t.Helper()
		a, err := c.Wait(within(t), id)
		if err != nil || a.Status() != want {
			t.Fatalf("%s: got %q, %v; want %s", what, a.Status(), err, want)
		}
		return a
	}
	create := func() string {
		t.Helper()
		id, _ := frontend.Content(answered(t, c, jupyter.Control, "create_subshell_request", object{}).Reply)["subshell_id"].(string)
		if id == "" {
			t.Fatal("create_subshell_reply has no subshell_id")
		}
		return id
	}
	list := func() int {
		ids, _ := frontend.Content(answered(t, c, jupyter.Control, "list_subshell_request", object{}).Reply)["subshell_id"].([]any)
		return len(ids)
	}
	if list() != 0 {
		t.Errorf("got %d subshells in the beginning, want none", list())
	}
	one, two := create(), create()
	if one == two || list() != 2 {
		t.Errorf("got subshells %q and %q, %d of them; want two", one, two, list())
	}

	busy := sent(t, c, jupyter.Shell, "execute_request", object{"code": "endless"})
	if err := c.Seen(within(t), busy, "execute_input"); err != nil {
		t.Fatal(err)
	}
	a := status("beside a cell", send(one, "execute_request", object{"code": "beside"}), "ok")
	if got := a.Stream("stdout"); got != "beside" {
		t.Errorf("got %q from a subshell, want beside", got)
	}
	var parent object
	json.Unmarshal(a.Reply.Parent, &parent)
	if parent["subshell_id"] != one {
		t.Errorf("the reply's parent is %v, want the request's header with its subshell", parent)
	}
	status("another request", send(two, "kernel_info_request", object{}), "ok")
	status("complete", send(two, "complete_request", object{"code": "x", "cursor_pos": 1}), "ok")
	status("nowhere", send("nowhere", "execute_request", object{"code": "x"}), "error")
	status("nowhere, other request", send("nowhere", "history_request", object{}), "error")

	// An error aborts what waits in its own shell.
	first := send(one, "execute_request", object{"code": "fail"})
	second := send(one, "execute_request", object{"code": "x"})
	status("fails", first, "error")
	status("behind it", second, "aborted")
	status("another subshell", send(two, "execute_request", object{"code": "x"}), "ok")

	// Stop stops them all.
	also := send(two, "execute_request", object{"code": "endless"})
	if err := c.Seen(within(t), also, "execute_input"); err != nil {
		t.Fatal(err)
	}
	answered(t, c, jupyter.Control, "interrupt_request", object{})
	stopped := status("stopped", busy, "error")
	if got := frontend.Content(stopped.Reply)["execution_count"]; got != 1.0 {
		t.Errorf("the first cell's reply has number %v, though cells of subshells came after it; want 1", got)
	}
	status("stopped in a subshell", also, "error")

	// A subshell that is deleted answers what it has.
	runs := send(two, "execute_request", object{"code": "endless"})
	waits := send(two, "execute_request", object{"code": "x"})
	asks := send(two, "history_request", object{"hist_access_type": "tail", "n": 1})
	if err := c.Seen(within(t), runs, "execute_input"); err != nil {
		t.Fatal(err)
	}
	// Control has no order with shell. What came by shell before this has arrived.
	status("behind what waits", send(one, "kernel_info_request", object{}), "ok")
	answered(t, c, jupyter.Control, "delete_subshell_request", object{"subshell_id": two})
	status("deleted while it runs", runs, "error")
	status("deleted while it waits", waits, "aborted")
	if _, err := c.Wait(within(t), asks); err != nil {
		t.Errorf("a request that waited in a subshell got no answer: %v", err)
	}
	status("deleted", send(two, "execute_request", object{"code": "x"}), "error")
	a = answered(t, c, jupyter.Control, "delete_subshell_request", object{"subshell_id": two})
	if a.Status() != "error" || list() != 1 {
		t.Errorf("deleted twice: got %q with %d left, want an error and one", a.Status(), list())
	}
	if got := executed(t, c, "x").Status(); got != "ok" {
		t.Errorf("the kernel's own shell got %q afterwards, want ok", got)
	}
}

// TestSubshellsShutdown: a kernel with cells in subshells ends as any other.
func TestSubshellsShutdown(t *testing.T) {
	ended := make(chan bool, 3)
	c, k := kernel(t, map[string]cell{"endless": func(ctx context.Context, r jupyter.ExecuteRequest, o jupyter.Output) jupyter.ExecuteResult {
		defer func() { ended <- true }()
		return endless(ctx, r, o)
	}})
	signer, _ := k.Connection.Signer()
	for i := range 3 {
		id, _ := frontend.Content(answered(t, c, jupyter.Control, "create_subshell_request", object{}).Reply)["subshell_id"].(string)
		r := to(t, c, signer.Encode, fmt.Sprint("end-", i), id, "execute_request", object{"code": "endless"})
		if err := c.Seen(within(t), r, "execute_input"); err != nil {
			t.Fatal(err)
		}
	}
	answered(t, c, jupyter.Control, "shutdown_request", object{"restart": false})
	for range 3 {
		select {
		case <-ended:
		case <-within(t).Done():
			t.Fatal("a subshell's cell goes on after the kernel's end")
		}
	}
}

// A page that was loaded again has another session: its cell ends what only shows something.
func TestLeft(t *testing.T) {
	began := make(chan (<-chan struct{}), 2)
	viewer := func(ctx context.Context, req jupyter.ExecuteRequest, _ jupyter.Output) jupyter.ExecuteResult {
		began <- req.Left
		select {
		case <-req.Left:
		case <-ctx.Done():
		}
		return jupyter.ExecuteResult{}
	}
	first, k := kernel(t, map[string]cell{"viewer": viewer})
	again := jupytertest.Connect(t, k.Connection)
	execute := func(c *frontend.Client, code string) string {
		t.Helper()
		id, err := c.Send(jupyter.Shell, "execute_request", object{"code": code})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	wait := func(c *frontend.Client, id string) {
		t.Helper()
		if a, err := c.Wait(within(t), id); err != nil || a.Status() != "ok" {
			t.Fatalf("got %q, %v", a.Status(), err)
		}
	}
	shown := execute(first, "viewer")
	<-began
	other := execute(again, "a")
	wait(first, shown)
	wait(again, other)
}
