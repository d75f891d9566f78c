package toolserver

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/jupyter"
)

func request(code string) jupyter.ExecuteRequest { return jupyter.ExecuteRequest{Code: code} }

func TestTranscript(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"lines", []string{"a\n", "b"}, "a\nb"},
		{"a line that is written over", []string{"a\nb 10 %\rb 20 %", "\rb done\n"}, "a\nb done\n"},
		{"the end of a line of Windows, cut", []string{"a\r", "\nb\r\n"}, "a\nb\n"},
		{"a character that is cut", []string{"\xc3", "\xa9"}, "é"},
		{"bytes that are no text", []string{"a\xffb"}, "a\uFFFDb"},
	}
	for _, tt := range tests {
		var tr transcript
		for _, w := range tt.writes {
			tr.Write([]byte(w))
		}
		if got := tr.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestLongOutput: what is kept is bounded, and has beginning and end.
func TestLongOutput(t *testing.T) {
	for name, piece := range map[string]string{"lines": strings.Repeat("0123456789abcde\n", 1000), "one line": strings.Repeat("x", 100_000), "a bar": strings.Repeat("\r"+strings.Repeat("=", 70), 1000)} {
		o := newOutput()
		o.Stream("stdout", []byte("first\n"))
		for range 300 {
			o.Stream("stderr", []byte(piece))
		}
		o.Stream("stdout", []byte("\nlast\n"))
		if n := len(o.items[0].stream.head) + len(o.items[0].stream.tail); n > 2*maxText {
			t.Errorf("%s: %d bytes are kept, want at most %d", name, n, 2*maxText)
		}
		said := textIn(&mcp.CallToolResult{Content: o.content("", "the end")})
		if !strings.HasPrefix(said, "first\n") || !strings.HasSuffix(said, "\nlast\nthe end\n") || len(said) > maxText+300 || strings.Contains(said, "cut here") == (name == "a bar") {
			t.Errorf("%s: got %d bytes, %q … %q", name, len(said), said[:min(100, len(said))], said[max(0, len(said)-100):])
		}
	}
	for n, want := range map[int]string{1_000_000: "[970,", 25_000: ""} { // the number is that of all bytes
		o := newOutput()
		for range n / 50 {
			o.Stream("stdout", []byte(strings.Repeat("x", 50)))
		}
		said := textIn(&mcp.CallToolResult{Content: o.content("", "")})
		if strings.Count(said, "cut here") != len(want)/5 || !strings.Contains(said, want) || want == "" && len(said) != n+1 {
			t.Errorf("%d bytes: got %d, %q", n, len(said), strings.Trim(said, "x"))
		}
	}
	o := newOutput()
	for range 3 * maxItems {
		o.Display(jupyter.MimeBundle{Data: map[string]any{"text/plain": "shown"}})
	}
	said := textIn(&mcp.CallToolResult{Content: o.content("", "")})
	if strings.Count(said, "shown\n") != maxItems || !strings.Contains(said, "[800 outputs cut here: a result has at most 400]") {
		t.Errorf("many displays: got %q", brief(said, 300))
	}
}

func TestDisplays(t *testing.T) {
	o := newOutput()
	id := map[string]any{"display_id": "bar"}
	o.Display(jupyter.MimeBundle{Data: map[string]any{"text/plain": "10 %"}, Transient: id})
	o.Display(jupyter.MimeBundle{Data: map[string]any{"text/html": "<b>bold</b>"}})
	o.Update(jupyter.MimeBundle{Data: map[string]any{"text/plain": "\x1b[31mdone\x1b[0m"}, Transient: id})
	o.Update(jupyter.MimeBundle{Data: map[string]any{"text/plain": "of an earlier cell"}, Transient: map[string]any{"display_id": "other"}})
	o.Result(jupyter.MimeBundle{Data: map[string]any{"application/json": map[string]any{"a": 1}}})
	o.Display(jupyter.MimeBundle{Data: map[string]any{"image/png": make([]byte, maxImage+1)}})
	if got, want := textIn(&mcp.CallToolResult{Content: o.content("", "")}), "done\n<b>bold</b>\nof an earlier cell\n{\"a\":1}\n[image 1 is left out: it has 1.05 MB, a result takes 1.05 MB: draw it smaller]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range 5 {
		o.Display(jupyter.MimeBundle{Data: map[string]any{"image/png": []byte("a"), "text/plain": "<image>"}})
	}
	content := o.content("", "")
	if said := textIn(&mcp.CallToolResult{Content: content}); len(content) != 1+maxImages || !strings.HasSuffix(said, "[image 5]\n[image 6 is left out: a result has at most 4: show fewer in a cell]\n") {
		t.Errorf("five images: got %d contents, %q", len(content), said)
	}
	o.Clear(true)
	if o.lastLine() == "" {
		t.Error("what is cleared when there is new output has gone before")
	}
	o.Stream("stdout", []byte("new"))
	if got := textIn(&mcp.CallToolResult{Content: o.content("", "")}); got != "new\n" {
		t.Errorf("after clearing: got %q", got)
	}
}
