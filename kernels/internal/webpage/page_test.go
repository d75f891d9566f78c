package webpage

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// file returns a notebook file of some cells.
func file(t *testing.T, cells ...map[string]any) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": cells,
		"metadata": map[string]any{"kernelspec": map[string]any{"display_name": "Go (Gaiden)"}, "language_info": map[string]any{"version": "1.26"}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func code(source string, outputs ...any) map[string]any {
	return map[string]any{"cell_type": "code", "source": source, "execution_count": 1, "outputs": outputs,
		"metadata": map[string]any{"execution": map[string]any{"iopub.execute_input": "2026-11-21T09:00:00.5Z", "shell.execute_reply": "2026-11-21T09:00:02.75Z"}}}
}

func display(mime, data string) map[string]any {
	return map[string]any{"output_type": "display_data", "data": map[string]any{mime: data}}
}

// TestPage: scripts/test html has the cases that need a parser of HTML.
func TestPage(t *testing.T) {
	failed := map[string]any{"output_type": "error", "ename": "Panic", "evalue": "\x1b[31mboom <b>\x1b[0m\nmore", "traceback": []string{"Panic: boom <b>", "at line 1"}}
	later := map[string]any{"cell_type": "code", "source": []string{"never", "\n", "ran"}, "execution_count": nil, "outputs": []any{}}
	tests := []struct {
		name  string
		cells []map[string]any
		want  []string
		never []string
	}{
		{"nothing", nil, []string{"<title>name</title>", "<h1>name</h1>\n<header>", "0 of 0 have run", "<summary>Code</summary>", "script-src 'sha256-" + scriptHash + "'", "<script>" + script + "</script>"}, []string{"executed", "Contents</summary>"}},
		{"facts", []map[string]any{{"cell_type": "markdown", "source": "# A & B\n\ntext"}, code("x := fit.Config{Seed: 7}")},
			[]string{"<title>A &amp; B</title>", "<h1 id=\"A-&amp;-B\">A &amp; B</h1></section>\n<header>", "</nav>\n<section class=\"text\">\n<p>text</p>", "<dt>executed</dt><dd>2026-11-21 09:00 UTC, 2.2 s in cells", "Go (Gaiden) 1.26", "<dt>seed</dt><dd>7</dd>", "cell 1 · 2.2 s"}, nil},
		{"what it ran on", []map[string]any{code("%info", map[string]any{"output_type": "stream", "name": "stdout", "text": "gaiden      0.1.0, 2026-11-21 09:00 UTC\nA CPU, 2 cores\nGPU 0: A <GPU>, 80 GiB\nGPU 1: A <GPU>, 80 GiB\ngo1.26, gomlx v0.28\nplugin      /p.so\n"})},
			[]string{"<dt>machine</dt><dd>A CPU, 2 cores; 2 × A &lt;GPU&gt;, 80 GiB</dd>", "<dt>versions</dt><dd>gaiden 0.1.0, go1.26, gomlx v0.28</dd>"}, nil},
		{"when it ran, of %info", []map[string]any{{"cell_type": "code", "source": "%info", "execution_count": 1, "outputs": []any{map[string]any{"output_type": "stream", "name": "stdout", "text": "gaiden      0.1.0, 2026-11-21 09:00 UTC\nA CPU\ngo1.26\nplugin      /p.so\n"}}}},
			[]string{"<dt>executed</dt><dd>2026-11-21 09:00 UTC</dd>"}, nil},
		{"another %info", []map[string]any{code("%info", map[string]any{"output_type": "stream", "name": "stdout", "text": "something else"})}, nil, []string{"<dt>machine"}},
		{"stopped", []map[string]any{code("a"), code("b", failed), later},
			[]string{"This run stopped at <a href=\"#cell-2\">cell 2</a>:</b> Panic: boom &lt;b&gt;.", "Panic: boom &lt;b&gt;\nat line 1", "The cells below it have not run.", "cell 3 · not run", "2 of 3 have run"}, []string{"boom <b>", "\x1b"}},
		{"stopped at the last cell", []map[string]any{code("a"), code("b", failed)}, []string{"This run stopped at <a href=\"#cell-2\">cell 2</a>:</b> Panic: boom &lt;b&gt;.</p>"}, nil},
		{"an error, and cells that ran after a restart", []map[string]any{code("a"), code("b", failed), code("c"), later}, []string{"<b>An error in <a href=\"#cell-2\">cell 2</a>:</b> Panic: boom &lt;b&gt;. The cells below it may have run earlier or later.</p>"}, []string{"This run stopped"}},
		{"same names in two outputs", []map[string]any{code("a", display("text/html", `<svg><mask id="m"></mask><path mask="url(#m)"/></svg>`)), code("b", display("text/html", `<i id="m">x</i><i id="m">y</i>`))},
			[]string{`<mask id="o1-0-m">`, `mask="url(#o1-0-m)"`, `<i id="o2-0-m">x</i><i>y</i>`}, nil},
		{"richest form", []map[string]any{code("a", map[string]any{"output_type": "display_data", "data": map[string]any{"text/plain": "plain", "image/png": "aGk=\n", "application/x": "{}"}})},
			[]string{`<img src="data:image/png;base64,aGk=" alt="image, output of cell 1"/>`}, []string{"plain</pre>"}},
		{"a picture with its size and what it shows", []map[string]any{code("a", map[string]any{"output_type": "display_data", "data": map[string]any{"image/png": "aGk="},
			"metadata": map[string]any{"image/png": map[string]any{"width": 640, "height": 360, "alt": "Plot: error <rate>; train: from 1 to 2"}}})},
			[]string{`<figure class="output"><img src="data:image/png;base64,aGk=" width="640" alt="Plot: error &lt;rate&gt;; train: from 1 to 2"/><figcaption>Error &lt;rate&gt;</figcaption></figure>`}, nil},
		{"a picture with facts of no use", []map[string]any{code("a", map[string]any{"output_type": "display_data", "data": map[string]any{"image/png": "aGk="},
			"metadata": map[string]any{"image/png": map[string]any{"width": "640", "height": nil, "alt": ";"}}})}, []string{`<img src="data:image/png;base64,aGk=" alt="image, output of cell 1"/>`}, []string{"<figure"}},
		{"colours of code", []map[string]any{code("%info\nvar s = \"<b>\" // why\nx := `two\n%lines`")},
			[]string{`<span class="m">%info</span>`, `<span class="k">var</span>`, `<span class="s">&#34;&lt;b&gt;&#34;</span>`, `<span class="c">// why</span>`}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Page(file(t, tt.cells...), "name")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("got a page without %q:\n%s", want, got[strings.Index(got, "<body>"):])
				}
			}
			for _, never := range tt.never {
				if strings.Contains(got, never) {
					t.Errorf("got a page with %q", never)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"nbformat": 3}`, `{"cells": []}`, `{"nbformat": 4, "cells": 1}`} {
		if _, err := Page([]byte(text), "name"); err == nil || !strings.HasPrefix(err.Error(), "webpage: ") {
			t.Errorf("Page(%q): got error %v, want one of webpage", text, err)
		}
	}
}

func TestTerminal(t *testing.T) {
	tests := []struct{ text, want string }{
		{"10%\r50%\r\n\x1b[1;31mred\x1b[0m & \x1b[38;5;200mpink\x1b[K\x07", `50%` + "\n" + `<span class="ansi-red-fg ansi-bold">red</span> &amp; pink`},
		{"\x1b]0;title\x07a\x1b[3", "a[3"},
	}
	for _, tt := range tests {
		if got := terminal(tt.text); got != tt.want {
			t.Errorf("terminal(%q): got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestLong: text that looks like unfinished markup does not take long.
func TestLong(t *testing.T) {
	for _, part := range []string{"*a ", "[", "`", "<div>", "<script></script>", "<b", "&", "> ", "- ", "|-", "<!--", "_a", "![", "\\", "<table><tr><td>"} {
		began := time.Now()
		text := strings.Repeat(part, 100_000/len(part))
		if _, err := Page(file(t, map[string]any{"cell_type": "markdown", "source": text}, code("a", display("text/html", text), display("text/markdown", text))), "name"); err != nil {
			t.Errorf("%q: %v", part, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("100 kB of %q took %v", part, took)
		}
	}
}

// TestExcessive: a text cell that would take minutes, or a gigabyte, is shown as it was
// written; what somebody may write is not.
func TestExcessive(t *testing.T) {
	nest := func(depth int, unit, item string) string {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "%s%s %d\n", strings.Repeat(unit, i), item, i)
		}
		return b.String()
	}
	table := func(columns, rows int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("|x|\n", rows)
	}
	tests := []struct {
		name, text string
		want       string // how often it has which element; "" = it is text
		times      int
	}{
		{"list", nest(100, "  ", "-"), "<li>", 100},
		{"deep list", nest(1500, "  ", "-"), "", 1},
		{"deep list of numbers", nest(1500, "   ", "1."), "", 1},
		{"deep list with tabs", nest(1500, "\t", "*"), "", 1},
		{"deep list on one line", strings.Repeat("+ ", 3000), "", 1},
		{"lists in quotes", strings.Repeat("- > ", 1500) + "a", "", 1},
		{"deep quote", strings.Repeat(">", 50_000) + "a", "", 1},
		{"quote", strings.Repeat("> ", 100) + "a", "<blockquote>", 100},
		{"long list", strings.Repeat("- a\n", 2000), "<li>", 2000},
		{"list that ends and begins", strings.Repeat(nest(30, "  ", "-")+"\nx\n\n", 10), "<li>", 300},
		{"rule", strings.Repeat("- ", 200) + "\n\n" + strings.Repeat("* ", 200), "<hr/>", 2},
		{"table", table(50, 50), "<td>", 2500},
		{"empty table", table(2000, 2000), "", 1},
		{"one long address for many links", "[a]: /" + strings.Repeat("x", 20_000) + "\n\n" + strings.Repeat("[a] ", 5000), "", 1},
	}
	for _, tt := range tests {
		got := textCell(t, tt.text, nil)
		want := tt.want
		if want == "" {
			want = "<pre>" + strings.ReplaceAll(tt.text, ">", "&gt;") + "</pre>"
		}
		if n := strings.Count(got, want); n != tt.times {
			t.Errorf("%s: got %d of %.20q, want %d", tt.name, n, want, tt.times)
		}
	}
}

// FuzzPage: any notebook file gives a page or an error.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a"], "outputs": [{"output_type": "stream", "text": "x"}]}]}`))
	f.Add([]byte(`{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "- a\n  > b\n  ` + "```" + `go\nfunc", "attachments": {"a": {"image/png": 1}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if text, err := Page(data, "name"); err == nil && !strings.HasSuffix(text, "</html>\n") {
			t.Error("got half a page")
		}
	})
}

func Example() {
	_, err := os.ReadFile("01-gaiden.ipynb")
	text, pageErr := Page([]byte(`{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "# Hello"}]}`), "hello")
	fmt.Println(err != nil, pageErr, strings.Contains(text, `<h1 id="Hello">Hello</h1>`))
	// Output: true <nil> true
}
