package complete

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"gaiden/kernels/internal/cell/parse"
)

// TestServe plays jupyterlab-lsp: marks are where the document has the place, in UTF-16, and of
// its last text only.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, theirs := io.Pipe()
		ours, out := io.Pipe()
		client, ended := &lspConn{w: theirs}, make(chan error, 1)
		checks := 0
		go func() {
			ended <- Serve(t.Context(), in, out, func(_ context.Context, cells []string) (all []parse.Diagnostic, err error) {
				checks++
				for i, cell := range cells {
					if before, _, is := strings.Cut(cell, "bad"); is {
						line := strings.Count(before, "\n")
						all = append(all, parse.Diagnostic{Cell: i + 1, Line: line + 1, Column: len(before) - strings.LastIndex(before, "\n"), Message: "undefined: bad", Hint: "did you mean good?"})
					}
				}
				return all, nil
			})
			out.Close()
		}()
		answers := bufio.NewReader(ours)
		read := func() lspMessage {
			t.Helper()
			m, err := readMessage(answers)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		client.write(lspMessage{ID: json.RawMessage("1"), Method: "initialize", Params: json.RawMessage("{}")})
		if m := read(); !strings.Contains(string(m.Result), `"textDocumentSync"`) {
			t.Errorf("got %s, want whole texts", m.Result)
		}
		client.write(lspMessage{ID: json.RawMessage("2"), Method: "textDocument/hover"})
		if m := read(); m.Error == nil || m.Error.Code != -32601 {
			t.Errorf("got %+v, want no such method", m)
		}
		client.notify("initialized", nil)
		text := func(s string) map[string]any { return map[string]any{"uri": "file:///a", "text": s} }
		client.notify("textDocument/didOpen", map[string]any{"textDocument": text("x := bad")})
		client.notify("textDocument/didChange", map[string]any{"textDocument": text(""), "contentChanges": []any{map[string]any{"text": "x := 1\n\n\ny := 2\ns := \"ä😀\" + bad.c\n\n\nbad"}}})
		m := read()
		var got struct {
			URI         string
			Diagnostics []struct {
				Range   struct{ Start, End struct{ Line, Character int } }
				Message string
			}
		}
		if err := json.Unmarshal(m.Params, &got); err != nil || m.Method != "textDocument/publishDiagnostics" || got.URI != "file:///a" || checks != 1 {
			t.Fatalf("got %s %s after %d checks, %v", m.Method, m.Params, checks, err)
		}
		if s := fmt.Sprint(got.Diagnostics); s != "[{{{4 13} {4 16}} undefined: bad\ndid you mean good?} {{{7 0} {7 3}} undefined: bad\ndid you mean good?}]" {
			t.Errorf("got %s", s)
		}
		client.notify("textDocument/didClose", map[string]any{"textDocument": text("")})
		if m := read(); !strings.Contains(string(m.Params), `"diagnostics":[]`) {
			t.Errorf("closed: got %s, want no marks", m.Params)
		}
		client.write(lspMessage{ID: json.RawMessage("3"), Method: "shutdown"})
		read()
		client.notify("exit", nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
